"""From texts that answer each other to a folder of pairs: the join, the split by thread, the files and their report."""

import argparse
import hashlib
import json
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import datasets
import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from tqdm import tqdm

from data_scripts.corpora import existing_folder, is_path
from data_scripts.errors import InputError
from data_scripts.files import BrokenLines
from data_scripts.filters import KEPT, first_rule, rules

PAIR_FEATURES = datasets.Features(
    {name: datasets.Value("string") for name in ("input", "response", "thread", "source")}
)
PAIR_SCHEMA = PAIR_FEATURES.arrow_schema.remove_metadata()
PAIR = "pair"
LONG_TEXT = 20  # pairs that share a text of more characters than this belong together
TEST_PERCENT, VALIDATION_PERCENT = 10, 1


def add_output_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of every command that writes a folder of pairs."""
    parser.add_argument(
        "--output", "-o", type=Path, required=True, metavar="FOLDER", help="where the pairs are written"
    )
    parser.add_argument(
        "--split",
        choices=("thread", "random"),
        default="thread",
        help="thread: whole threads go to train (89 %%), validation (1 %%) or test (10 %%), so that no conversation is "
        "on two sides (default); random: single pairs do, as in the paper",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a folder of pairs that is there already")


def split_of(key: str) -> str:
    """The split of a thread's name (or of a pair's text): a hash decides, so that it stays when data grows."""
    percent = int.from_bytes(hashlib.sha256(key.encode()).digest()) % 100
    if percent < TEST_PERCENT:
        return "test"
    return "validation" if percent < TEST_PERCENT + VALIDATION_PERCENT else "train"


def start_report(command: str, files: list[Path], split: str, broken: BrokenLines) -> dict[str, Any]:
    """The report's first sections: what was asked for, and the lines that could not be read."""
    report: dict[str, Any] = {"settings": {"command": command, "split": split, "files": [file.name for file in files]}}
    report["lines left out"] = dict(broken.counts)
    report["first lines left out"] = broken.examples
    return report


def _table(report: dict[str, Any]) -> str:
    lines = []
    for section, content in report.items():
        if content:
            lines.append(section)
        if isinstance(content, list):
            lines += [f"  {line}" for line in content]
            continue
        for name, value in content.items():
            shown = ", ".join(value) if isinstance(value, list) else f"{value:,}" if isinstance(value, int) else value
            lines.append(f"  {name:<40} {shown:>12}")
    return "\n".join(lines)


def judge_comments(comments: ir.Table) -> tuple[ir.Table, list[str]]:
    """Add `rule` to a table of comments: `KEPT`, or the first rule that removes it; also the rules' names in order.

    Of comments with one id only one can be kept: the first by time, then by text, wherever it stands in the files.
    """
    same_id = ibis.window(group_by="id", order_by=["created_utc", "body", "author", "parent_id"])
    comments = comments.mutate(repeat=ibis.row_number().over(same_id))
    removed = {"id seen before": comments.repeat > 0}
    removed |= rules(comments.body, comments.characters, comments.alphabetic, comments.author)
    return comments.mutate(rule=first_rule(removed)), [*removed, KEPT]


def join_replies(comments: ir.Table) -> tuple[ir.Table, list[str]]:
    """Put every kept comment beside the one it replies to.

    Args:
        comments: the table of `judge_comments`.

    Returns:
        A table of `outcome, input, response, thread, source`, a row for each kept comment, and the outcomes' names in
        order; a row is a pair where `outcome` is `PAIR`: both texts were kept.
    """
    parents = comments.filter(comments.repeat == 0).select(
        name=ibis.literal("t1_") + comments.id, input=comments.body, input_rule=comments.rule
    )
    replies = comments.filter(comments.rule == KEPT)
    joined = replies.left_join(parents, replies.parent_id == parents.name)
    lost = {
        "replies to a submission": ~joined.parent_id.startswith("t1_"),
        "comment replied to is not in the dumps": joined.input_rule.isnull(),
        "comment replied to was removed": joined.input_rule != KEPT,
    }
    pairs = joined.select(
        outcome=ibis.cases(*((condition, ibis.literal(name)) for name, condition in lost.items()), else_=PAIR),
        input=joined.input,
        response=joined.body,
        thread=joined.link_id,
        source=ibis.literal("reddit/") + joined.subreddit,
    )
    return pairs, [*lost, PAIR]


def component_threads(pairs: pa.Table) -> pa.ChunkedArray:
    """A thread for each pair of which only the texts are known.

    Pairs of one source that share a text of more than 20 characters, whichever side it is on, are connected; a
    connected component is a thread. Its name is the source and the smallest SHA-256 (16 hexadecimal digits) of those
    texts, so that it does not depend on the order of the pairs; a pair without such a text is a thread of its own,
    named after its two texts.

    Args:
        pairs: columns `input, response, source`, strings, `n` rows.

    Returns:
        The threads' names, `n` strings.
    """
    n, tab = len(pairs), pa.scalar("\t", pa.large_string())
    source, *sides = (pairs[name].cast(pa.large_string()) for name in ("source", "input", "response"))
    texts, holders = [], []
    for side in sides:
        long = pc.greater(pc.utf8_length(side), LONG_TEXT)
        texts += pc.binary_join_element_wise(source, side, tab).filter(long).chunks
        holders.append(np.flatnonzero(long.to_numpy()))
    codes = pa.chunked_array(texts, pa.large_string()).combine_chunks().dictionary_encode()
    # A graph of pairs (0 to n - 1) and of long texts (from n on), with an edge where the pair holds the text.
    size = n + len(codes.dictionary)
    edges = (np.concatenate(holders), n + codes.indices.to_numpy())
    graph = coo_array((np.ones(len(codes), bool), edges), shape=(size, size))
    component = connected_components(graph, directed=False)[1]
    unnamed = np.iinfo(np.uint64).max
    names = np.full(size, unnamed)  # by component, of which there are at most `size`
    np.minimum.at(names, component[n:], _hashes(codes.dictionary))
    names = names[component[:n]]
    alone = np.flatnonzero(names == unnamed)
    names[alone] = _hashes(pc.binary_join_element_wise(source, *sides, tab).take(pa.array(alone)))
    digits = pa.array((f"{name:016x}" for name in names.tolist()), pa.large_string())
    return pc.binary_join_element_wise(source, digits, pa.scalar("/", pa.large_string()))


def _hashes(texts: pa.Array | pa.ChunkedArray) -> np.ndarray:
    digests = b"".join(hashlib.sha256(text.encode()).digest()[:8] for text in texts.to_pylist())
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64)


@contextmanager
def new_folder(output: Path, overwrite: bool) -> Iterator[tuple[Path, Path]]:
    """Yield an empty folder that becomes `output` when the block ends well, and one for what is needed meanwhile.

    Both lie in `OUTPUT.partial`; what an interrupted run left there is removed first.

    Raises:
        InputError: `output` is there already and `overwrite` is not given, or it is no folder of pairs, or it cannot be
            written.
    """
    output = output.resolve()
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        if not (output / "report.json").is_file():
            raise InputError(f"--output {output}: there already and not a folder of pairs; name another one")
        if not overwrite:
            raise InputError(f"--output {output}: there already; name another one, or replace it with --overwrite")
    partial = output.with_name(f"{output.name}.partial")
    folder, scratch = partial / "pairs", partial / "scratch"
    try:
        if partial.exists():
            shutil.rmtree(partial)
        folder.mkdir(parents=True)
        scratch.mkdir()
    except OSError as error:
        raise InputError(f"--output {output}: cannot be written ({error})") from error
    try:
        yield folder, scratch
        if output.exists():
            output.replace(partial / "replaced")
        folder.replace(output)
    finally:
        shutil.rmtree(partial)


def write_pairs(pairs: ir.Table, folder: Path, scratch: Path, split: str, report: dict[str, Any]) -> None:
    """Write the distinct pairs, one Parquet file a split, sorted by thread, and `report.json`; print the report.

    A split without a pair gets no file, for `datasets` reads neither empty files nor empty row groups.

    Args:
        pairs: columns `input, response, thread, source`. The same pair twice in a thread is written once.
        folder: an empty folder.
        scratch: a folder for files that are not kept.
        split: "thread" or "random".
        report: section -> what was counted so far; this adds the sections `pairs`, `splits` and `threads`.

    Raises:
        InputError: no pair is left.
    """
    rows = pairs.count().to_pyarrow().as_py()
    if not rows:
        raise InputError(f"no pair is left to write; what was counted:\n{_table(report)}")
    whole = scratch / "pairs.parquet"
    pairs.select(PAIR_SCHEMA.names).distinct().order_by("thread", "input", "response", "source").to_parquet(whole)
    threads = pairs.get_backend().read_parquet(whole).group_by("thread").agg(size=ibis._.count())
    totals = {"threads": ibis._.count(), "largest": ibis._.size.max(), "pairs": ibis._.size.sum()}
    found = threads.agg(**totals).to_pyarrow().to_pylist()[0]
    sizes = dict.fromkeys(("train", "validation", "test"), 0)
    with ExitStack() as stack:
        files = {
            name: stack.enter_context(pq.ParquetWriter(folder / f"{name}-00000-of-00001.parquet", PAIR_SCHEMA))
            for name in sizes
        }
        bar = stack.enter_context(tqdm(total=found["pairs"], unit="pair", unit_scale=True, desc="write"))
        for batch in pq.ParquetFile(whole).iter_batches(batch_size=100_000):
            table = pa.Table.from_batches([batch]).cast(PAIR_SCHEMA)
            keys = table["thread"] if split == "thread" else pc.binary_join_element_wise(*table.columns[:2], "\t")
            splits = np.array([split_of(key) for key in keys.to_pylist()])
            for name in sizes:
                part = table.filter(pa.array(splits == name))
                if len(part):
                    files[name].write_table(part)
                sizes[name] += len(part)
            bar.update(len(table))
    for name, size in sizes.items():
        if not size:
            (folder / f"{name}-00000-of-00001.parquet").unlink()
    report["pairs"] = {"repeated in their thread": rows - found["pairs"], "written": found["pairs"]}
    report["splits"] = sizes
    report["threads"] = {
        "threads": found["threads"],
        "pairs in the largest": found["largest"],
        "share of the largest": round(found["largest"] / found["pairs"], 4),
    }
    (folder / "report.json").write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    print(_table(report))


def load_pairs(source: str) -> datasets.DatasetDict:
    """Load pairs by folder (what this package's commands write) or by name on the Hub.

    Returns:
        The splits that are there (`train`, `validation`, `test`), each with the features `PAIR_FEATURES`.

    Raises:
        InputError: no such folder or repository, or other columns than `input, response, thread, source`.
    """
    folder = Path(source)
    if is_path(source):
        existing_folder(source)
    try:
        if folder.is_dir():
            files = {
                name: sorted(map(str, folder.glob(f"{name}-*.parquet"))) for name in ("train", "validation", "test")
            }
            files = {name: paths for name, paths in files.items() if paths}
            if not files:
                raise InputError(f"{source}: no train-*.parquet, validation-*.parquet or test-*.parquet in this folder")
            pairs = datasets.load_dataset("parquet", data_files=files)
        else:
            pairs = datasets.load_dataset(source)
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        reason = error.__cause__ or error  # `datasets` wraps what it met
        raise InputError(f"{source}: neither a readable folder of pairs nor a Hub data set ({reason})") from error
    for name, split in pairs.items():
        if set(PAIR_SCHEMA.names) - set(split.column_names):
            raise InputError(
                f"{source}: split {name} has the columns {', '.join(split.column_names)}; "
                f"expected {', '.join(PAIR_SCHEMA.names)}"
            )
    pairs = pairs.select_columns(PAIR_SCHEMA.names)
    # A cast writes every row again, so it is only for data that others made.
    same = all(split.features == PAIR_FEATURES for split in pairs.values())
    return pairs if same else pairs.cast(PAIR_FEATURES)
