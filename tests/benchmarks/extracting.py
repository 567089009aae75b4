"""From dumps to pairs: `python -m data_scripts reddit` against a dictionary in plain Python, and against pandas.

All contenders read the files that `synthetic_dumps` writes, on two cores, and must write the same pairs to the same
splits: each returns a hash of its output, and `measuring.alternate` compares the hashes. Imports are not timed.
"""

import contextlib
import hashlib
import html
import io
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import zstandard

from data_scripts.__main__ import main as data_scripts
from data_scripts.clean.filters import PAPER
from data_scripts.reddit import DUMP_FORMS
from data_scripts.reddit.dumps import DumpParser
from modeling_convsim.files.texts import read_blocks
from tests.benchmarks.material import ROOT, Material
from tests.benchmarks.measuring import SAME, Benchmark, Contender, Values, bound, on_cores, peak_megabytes
from tests.benchmarks.synthetic_dumps import make_dumps

FIELDS = ("id", "parent_id", "link_id", "author", "body", "subreddit", "created_utc")
PAIR = ["input", "response", "thread", "source"]
SPLITS = ("train", "validation", "test")
CORES = 2
Row = tuple[Any, ...]  # FIELDS, and whether the comment passes the paper's rules
# Prints the seconds of a command, without its imports: a first run, on two comments, has imported all that it needs.
PROGRAM = """
import sys, time
from data_scripts.__main__ import main
assert main(["reddit", sys.argv[1], "--output", sys.argv[1] + ".pairs"]) == 0
started = time.perf_counter()
assert main(sys.argv[2:]) == 0
print("\\n", time.perf_counter() - started)
"""


def ours(material: Material, source: str, many: bool = False, limit: str | None = None) -> Values:
    """Run the command on `source` ("dumps" or "comments", as Parquet)."""
    count = material.many_comments if many else material.comments
    with tempfile.TemporaryDirectory(dir=material.folder) as folder:
        output = Path(folder, "pairs")
        words = ["reddit", *map(str, _files(material, source, count)), "--output", str(output)]
        seconds, megabytes = _run(material, words + (["--memory_limit", limit] if limit else []))
        return _values(count, seconds) | {"MB": megabytes} | _digest(output, count)


def _run(material: Material, words: Sequence[str]) -> tuple[float, float]:
    """Run a command of data_scripts on `CORES` cores, in a process of its own unless the sizes are the smallest.

    Returns:
        Its seconds, and its peak memory in MB: the sum over the process and its children, sampled twice per second
        (more often would slow them down). Shared pages count once for each process.
    """
    if not material.real:
        started = time.perf_counter()
        assert data_scripts(words) == 0
        return time.perf_counter() - started, peak_megabytes()
    with tempfile.TemporaryDirectory() as folder, on_cores(CORES):
        first = Path(folder, "RC.jsonl")
        pair = [dict.fromkeys(FIELDS, "a") | {"created_utc": 1, "id": one, "parent_id": "t1_a"} for one in "ab"]
        first.write_text("".join(json.dumps(comment) + "\n" for comment in pair), encoding="utf-8")
        process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(first), *words], cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        peak = 0
        while process.poll() is None:
            peak = max(peak, _resident_bytes(process.pid))
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
        assert process.stdout
        printed = process.stdout.read()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, words, printed)
    return float(printed.split()[-1]), peak / 2**20


def _resident_bytes(pid: int) -> int:
    total = 0
    with contextlib.suppress(psutil.NoSuchProcess):  # the process has ended meanwhile
        process = psutil.Process(pid)
        for member in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += member.memory_info().rss
    return total


def dictionary_join(material: Material, source: str) -> Values:
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

    files = _files(material, source, material.comments)
    read = _rows_of_dumps if source == "dumps" else _rows_of_parquet
    return _time(material, join)


def pandas_merge(material: Material) -> Values:
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
        source = "reddit/" + merged["subreddit"]
        pairs = pd.DataFrame(
            {"input": merged["input"], "response": merged["body"], "thread": merged["link_id"], "source": source}
        ).drop_duplicates()
        threads = pairs["thread"].unique()
        split = pairs["thread"].map(dict(zip(threads, map(_split_of, threads), strict=True)))
        for name in SPLITS:
            pairs[split == name].to_parquet(output / f"{name}.parquet", index=False)

    files = _files(material, "comments", material.comments)
    return _time(material, join)


def parse(material: Material) -> Values:
    """Parse one dump into columns of comments with our reader, on one core, without cleaning."""
    dump = _files(material, "dumps", material.comments)[0]
    with on_cores(1):
        started, rows = time.perf_counter(), 0
        parser = DumpParser(submissions=False, filters=PAPER)
        for _, lines, block in read_blocks(dump, DUMP_FORMS, show_progress=False):
            columns = parser.columns(block, lines)
            assert columns is not None, "a line of a synthetic dump is malformed"
            rows += len(columns[1])
        return _values(rows, time.perf_counter() - started)


def parse_with_json(material: Material) -> Values:
    """Parse the same dump into the same columns with `json.loads` for each line, on one core."""
    dump = _files(material, "dumps", material.comments)[0]
    with on_cores(1):
        started = time.perf_counter()
        columns: dict[str, list] = {name: [] for name in FIELDS}
        for fields in _json_lines(dump):
            for name, column in columns.items():
                column.append(fields[name])
        return _values(len(columns["id"]), time.perf_counter() - started)


def _time(material: Material, join: Callable[[Path], None]) -> Values:
    with tempfile.TemporaryDirectory(dir=material.folder) as folder, on_cores(CORES):
        started = time.perf_counter()
        join(Path(folder))
        seconds = time.perf_counter() - started
        return _values(material.comments, seconds) | _digest(Path(folder), material.comments)


def _values(comments: int, seconds: float) -> Values:
    return {"comments/s": comments / seconds, "microseconds/comment": seconds * 1e6 / comments}


def _digest(output: Path, comments: int) -> Values:
    """The number of pairs written, and a hash of the pairs and their splits that ignores their order."""
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


def _rows_of_parquet(files: Sequence[Path]) -> Iterator[Row]:
    for file in files:
        table = pq.read_table(file)
        columns = [table[name].to_pylist() for name in (*FIELDS, "characters", "alphabetic")]
        for *fields, characters, alphabetic in zip(*columns, strict=True):
            yield (*fields, _passes(fields[4], fields[3], characters, alphabetic))


def _rows_of_dumps(files: Sequence[Path]) -> Iterator[Row]:
    for file in files:
        for fields in _json_lines(file):
            body = html.unescape(fields["body"])
            kept = _passes(body, fields["author"], len(body), sum(map(str.isalpha, body)))
            texts = (fields["id"], fields["parent_id"], fields["link_id"], fields["author"], body, fields["subreddit"])
            yield *texts, int(fields["created_utc"]), kept


def _passes(body: str, author: str, characters: int, alphabetic: int) -> bool:
    """Whether a comment passes the paper's rules."""
    return (
        characters < 350
        and alphabetic * 100 > characters * 70
        and body not in ("[deleted]", "[removed]", "")
        and not body.startswith(("https", "/r/", "@"))
        and "bot" not in author.lower()
    )


def _json_lines(dump: Path) -> Iterator[dict[str, Any]]:
    with dump.open("rb") as file:
        stream = zstandard.ZstdDecompressor(max_window_size=2**31).stream_reader(file)
        yield from map(json.loads, io.TextIOWrapper(stream, encoding="utf-8"))


def prepare(material: Material, many: bool) -> Values:
    """Write the dumps and the Parquet of comments that are missing; the command reuses the files of an earlier call."""
    for count in (material.comments, *([material.many_comments] if many else [])):
        dumps = material.folder / f"dumps-{count}"
        if not dumps.is_dir():
            partial = dumps.with_name(f"{dumps.name}.partial")
            shutil.rmtree(partial, ignore_errors=True)
            make_dumps(partial, count)
            partial.rename(dumps)
        files = map(str, _files(material, "dumps", count))
        _run(material, ["reddit", *files, "--comments", str(material.folder / f"comments-{count}")])
    return {}


def _files(material: Material, source: str, count: int) -> list[Path]:
    return sorted((material.folder / f"{source}-{count}").glob("RC_*.*"))


def _ours(source: str, **options: Any) -> Contender:
    return Contender("ours", ours, {"source": source, **options})


def _growth(source: str, what: str) -> Benchmark:
    tenth = Contender("ours on a tenth of the comments", ours, {"source": source, "limit": "2GiB"})
    many = _ours(source, many=True, limit="2GiB")
    return Benchmark(what, "microseconds/comment", 1.15, many, tenth, "lower", prepare=PREPARE_MANY)


def _memory(source: str, what: str) -> Benchmark:
    many = _ours(source, many=True, limit="2GiB")
    return Benchmark(what, "MB", 1, many, bound("MB", 4096), "lower", prepare=PREPARE_MANY)


PREPARE, PREPARE_MANY = (Contender("dumps", prepare, {"many": many}) for many in (False, True))
FROM_PARQUET = "2,000,000 synthetic comments in Parquet to split pairs, ours with earlier turns, two cores"
BENCHMARKS = {
    "extract_parquet": Benchmark(
        FROM_PARQUET, "comments/s", 4, _ours("comments"),
        Contender(
            "a dictionary of all comments in plain Python, from the same Parquet", dictionary_join,
            {"source": "comments"},
        ),
        prepare=PREPARE,
    ),
    "extract_parquet_pandas": Benchmark(
        FROM_PARQUET, "comments/s", 1, _ours("comments"), Contender("pandas: rules over columns, merge", pandas_merge),
        prepare=PREPARE,
    ),
    "extract_dump": Benchmark(
        "2,000,000 synthetic comments in long-window .zst dumps to split pairs, ours with earlier turns, two cores",
        "comments/s", 2,
        _ours("dumps"),
        Contender(
            "json.loads per line and a dictionary of all comments in plain Python", dictionary_join,
            {"source": "dumps"},
        ),
        prepare=PREPARE,
    ),
    "extract_parse": Benchmark(
        "a long-window .zst dump to columns of comments, one core, without cleaning", "comments/s", 3,
        Contender("ours", parse),
        Contender("zstandard's stream, json.loads per line, the same fields to lists", parse_with_json),
        prepare=PREPARE,
    ),
    "memory_extract": _memory("comments", "peak resident memory of growth_extract's larger run"),
    "memory_extract_dump": _memory("dumps", "peak resident memory of growth_extract_dump's larger run"),
    "growth_extract": _growth("comments", "Parquet to split pairs, --memory_limit 2GiB, with ten times the comments"),
    "growth_extract_dump": _growth("dumps", "dumps to split pairs, --memory_limit 2GiB, with ten times the comments"),
}  # fmt: skip
