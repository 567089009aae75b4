"""From dumps to pairs: `python -m data_scripts reddit` against a dictionary in plain Python, and against pandas.

All contenders read the files that `synthetic_dumps` writes, on two cores, and must write the same pairs to the same
splits: each returns a hash of its output, and `measuring.alternate` compares the hashes. Imports are not timed.
"""

import hashlib
import html
import io
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from data_scripts.clean.filters import PAPER
from data_scripts.read.dumps import DUMP_FORMS, BlockParser
from data_scripts.read.files import read_blocks
from tests.benchmarks.material import Material
from tests.benchmarks.measuring import SAME, run_data_scripts, use_cores
from tests.benchmarks.synthetic_dumps import make_dumps

FIELDS = ("id", "parent_id", "link_id", "author", "body", "subreddit", "created_utc")
PAIR = ["input", "response", "thread", "source"]
SPLITS = ("train", "validation", "test")
CORES = 2
Row = tuple[Any, ...]  # FIELDS, and whether the comment passes the paper's rules


def ours(material: Material, source: str, comments: str = "dumped", limit: str | None = None) -> dict[str, Any]:
    """Run the command on `source` ("dumps" or "parquet") with `material.dumped` or `.many_dumped` comments."""
    count = getattr(material, comments)
    files = _dumps(material, count) if source == "dumps" else _parquet(material, count)
    with tempfile.TemporaryDirectory(dir=material.folder) as folder:
        output = Path(folder) / "pairs"
        arguments = ["reddit", *map(str, files), "--output", str(output)]
        arguments += ["--memory_limit", limit] if limit else []
        seconds, megabytes = run_data_scripts(material, arguments, CORES)
        return _values(count, seconds) | {"MB": megabytes} | _digest(output, count)


def dictionary_join(material: Material, source: str) -> dict[str, Any]:
    """Store all comments in a dictionary by id, then look up the parent of each reply."""

    def join(output: Path) -> None:
        comments: dict[str, Row] = {}
        for row in read(files):
            other = comments.get(row[0])
            # Of comments with the same id, keep the first by time, text, author and parent.
            if other is None or (row[6], row[4], row[3], row[1]) < (other[6], other[4], other[3], other[1]):
                comments[row[0]] = row
        pairs: dict[str, set[tuple[str, str, str, str]]] = {name: set() for name in SPLITS}
        split_of: dict[str, str] = {}
        for _, parent_id, thread, _, response, subreddit, _, kept in comments.values():
            if kept and parent_id.startswith("t1_"):
                parent = comments.get(parent_id[3:])
                if parent is not None and parent[7]:
                    if thread not in split_of:
                        split_of[thread] = _split_of(thread)
                    pairs[split_of[thread]].add((parent[4], response, thread, f"reddit/{subreddit}"))
        for split, rows in pairs.items():
            columns = list(zip(*rows, strict=True)) or [()] * len(PAIR)
            pq.write_table(pa.table(dict(zip(PAIR, columns, strict=True))), output / f"{split}.parquet")

    files = (_dumps if source == "dumps" else _parquet)(material, material.dumped)
    read = _rows_of_dumps if source == "dumps" else _rows_of_parquet
    return _time(material, join)


def pandas_merge(material: Material) -> dict[str, Any]:
    """Apply the rules to whole columns, then merge the comments with themselves."""

    def join(output: Path) -> None:
        comments = pd.concat(map(pd.read_parquet, files), ignore_index=True)
        repeated = comments["id"].duplicated(keep=False)
        first = comments[repeated].sort_values(["created_utc", "body", "author", "parent_id"]).drop_duplicates("id")
        comments = pd.concat([comments[~repeated], first])
        body = comments["body"]
        kept = comments[
            ~body.isin(["[deleted]", "[removed]", ""])
            & (comments["characters"] < 350)
            & (comments["alphabetic"] * 100 > comments["characters"] * 70)
            & ~body.str.startswith(("https", "/r/", "@"))
            & ~comments["author"].str.lower().str.contains("bot", regex=False)
        ]
        responses = kept[kept["parent_id"].str.startswith("t1_")]
        inputs = pd.DataFrame({"parent_id": "t1_" + kept["id"], "input": kept["body"]})
        merged = responses.merge(inputs, on="parent_id")
        pairs = pd.DataFrame(
            {
                "input": merged["input"],
                "response": merged["body"],
                "thread": merged["link_id"],
                "source": "reddit/" + merged["subreddit"],
            }
        ).drop_duplicates()
        threads = pairs["thread"].unique()
        split = pairs["thread"].map(dict(zip(threads, map(_split_of, threads), strict=True)))
        for name in SPLITS:
            pairs[split == name].to_parquet(output / f"{name}.parquet", index=False)

    files = _parquet(material, material.dumped)
    return _time(material, join)


def parse(material: Material) -> dict[str, float]:
    """Parse one dump into columns of comments with our reader, on one core, without cleaning."""
    dump = _dumps(material, material.dumped)[0]
    _use_cores(1)
    started, rows = time.perf_counter(), 0
    parser = BlockParser(submissions=False, filters=PAPER)
    for _, lines, block in read_blocks(dump, DUMP_FORMS, progress=lambda count: None):
        columns = parser.columns(block, lines)
        assert columns is not None, "a line of a synthetic dump is malformed"
        rows += len(columns[1])
    return _values(rows, time.perf_counter() - started)


def parse_with_json(material: Material) -> dict[str, float]:
    """Parse the same dump into the same columns with `json.loads` for each line, on one core."""
    dump = _dumps(material, material.dumped)[0]
    _use_cores(1)
    started = time.perf_counter()
    columns: dict[str, list] = {name: [] for name in FIELDS}
    for fields in _json_lines(dump):
        for name, column in columns.items():
            column.append(fields[name])
    return _values(len(columns["id"]), time.perf_counter() - started)


def four_gibibytes(material: Material) -> dict[str, float]:
    """Return the upper bound on the memory of `memory_extract`."""
    return {"MB": 4096}


def _use_cores(count: int) -> None:
    use_cores(count)
    pa.set_cpu_count(count)


def _time(material: Material, join: Callable[[Path], None]) -> dict[str, Any]:
    _use_cores(CORES)
    with tempfile.TemporaryDirectory(dir=material.folder) as folder:
        started = time.perf_counter()
        join(Path(folder))
        seconds = time.perf_counter() - started
        return _values(material.dumped, seconds) | _digest(Path(folder), material.dumped)


def _values(comments: int, seconds: float) -> dict[str, Any]:
    return {"comments/s": comments / seconds, "microseconds/comment": seconds * 1e6 / comments}


def _digest(output: Path, comments: int) -> dict[str, str]:
    """Return the number of pairs written, and a hash of the pairs and their splits that ignores their order."""
    total = rows = 0
    for split in SPLITS:
        for file in sorted(output.glob(f"{split}*.parquet")):
            for batch in pq.ParquetFile(file).iter_batches(columns=PAIR):
                for row in batch.to_pylist():
                    line = json.dumps([split, *row.values()]).encode()
                    total += int.from_bytes(hashlib.sha256(line).digest()[:8])
                rows += len(batch)
    return {f"{SAME} of {comments:,} comments": f"{rows:,} pairs, hash {total % 2**64:016x}"}


def _split_of(thread: str) -> str:
    percent = int.from_bytes(hashlib.sha256(thread.encode()).digest()) % 100
    return "test" if percent < 10 else "validation" if percent == 10 else "train"


def _rows_of_parquet(files: Iterable[Path]) -> Iterator[Row]:
    for file in files:
        table = pq.read_table(file)
        columns = [table[name].to_pylist() for name in (*FIELDS, "characters", "alphabetic")]
        for *fields, characters, alphabetic in zip(*columns, strict=True):
            author, body = fields[3:5]
            yield (*fields, characters < 350 and alphabetic * 100 > characters * 70 and _passes(body, author))


def _rows_of_dumps(files: Iterable[Path]) -> Iterator[Row]:
    for file in files:
        for fields in _json_lines(file):
            body = html.unescape(fields["body"])
            kept = (
                len(body) < 350
                and sum(map(str.isalpha, body)) * 100 > len(body) * 70
                and _passes(body, fields["author"])
            )
            texts = (fields["id"], fields["parent_id"], fields["link_id"], fields["author"], body, fields["subreddit"])
            yield *texts, int(fields["created_utc"]), kept


def _passes(body: str, author: str) -> bool:
    """Whether a comment passes the paper's rules other than those on lengths."""
    return (
        body not in ("[deleted]", "[removed]", "")
        and not body.startswith(("https", "/r/", "@"))
        and "bot" not in author.lower()
    )


def _json_lines(dump: Path) -> Iterator[dict[str, Any]]:
    with dump.open("rb") as file:
        stream = zstandard.ZstdDecompressor(max_window_size=2**31).stream_reader(file)
        yield from map(json.loads, io.TextIOWrapper(stream, encoding="utf-8"))


def prepare_dumps(material: Material, sizes: list[str]) -> dict[str, float]:
    """Generate the dumps that are missing; `sizes` are fields of `Material`."""
    for comments in {getattr(material, size) for size in sizes}:
        folder = _dump_folder(material, comments)
        if not folder.is_dir():
            partial = folder.with_name(f"{folder.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            make_dumps(partial, comments)
            partial.rename(folder)
    return {}


def prepare_comments(material: Material, sizes: list[str]) -> dict[str, float]:
    """Generate the dumps and the Parquet of comments; the command reuses the files of an earlier call."""
    prepare_dumps(material, sizes)
    for comments in {getattr(material, size) for size in sizes}:
        output = str(_comment_folder(material, comments))
        run_data_scripts(material, ["reddit", *map(str, _dumps(material, comments)), "--comments", output], CORES)
    return {}


def _dumps(material: Material, comments: int) -> list[Path]:
    return sorted(_dump_folder(material, comments).glob("RC_*.zst"))


def _parquet(material: Material, comments: int) -> list[Path]:
    return sorted(_comment_folder(material, comments).glob("RC_*.parquet"))


def _dump_folder(material: Material, comments: int) -> Path:
    return material.folder / f"dumps-{comments}"


def _comment_folder(material: Material, comments: int) -> Path:
    return material.folder / f"comments-{comments}"
