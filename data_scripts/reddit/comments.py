"""Converts dumps of Reddit, several at a time, and datasets on the Hub to Parquet files of comments.

Memory does not grow with the dump: each process holds a few times 32 MiB of text, the dump's longest line and the
window of Zstandard (2 GiB in Pushshift's dumps).
"""

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from data_scripts.clean.filters import PAPER, Filters
from data_scripts.files.command_line import end_with_parent
from data_scripts.files.datasets import HubDataset
from data_scripts.files.errors import InputError
from data_scripts.files.hub import hub_errors
from data_scripts.files.parquet import BatchWriter, parquet_writer
from data_scripts.files.storage import lock_inside, locked, readable, remove_temporary_files
from data_scripts.files.texts import BrokenLines, read_blocks
from data_scripts.reddit.dumps import (
    DUMP_FORMS,
    DumpParser,
    comment_schema,
    holds_submissions,
    parent_names,
    text_names,
)

MADE_FROM = "convsim.made_from"  # key in the metadata of a file of comments
WORTH_WORKERS = 1 << 24  # minimum bytes of dumps; starting a process takes as long as reading a few MB
REPEATING = ["link_id", "author", "subreddit"]  # columns with repeated values, which get dictionaries
HUB_BATCH = 10_000  # rows of a dataset on the Hub that are converted together
FORMAT = 5  # raised when what is read from a dump changes, so that existing files of comments are regenerated


def write_comments(dump: Path, output: Path, filters: Filters = PAPER, show_progress: bool = True) -> BrokenLines:
    """Convert a dump to Parquet with the columns of `comment_schema`; returns the lines that are not a comment.

    `body` is HTML-unescaped (and without Markdown, if the filters ask for it), `characters` its length in Unicode
    characters, `alphabetic` how many of them are letters. A submission becomes a comment without a parent, with its
    title as the body.

    The metadata of the file identify the dump and hold the counts of the lines that were left out, so that
    `convert_dumps` recognizes it.

    Raises:
        InputError: the dump cannot be read to its end (see `read_blocks`), or contains no comment.
    """
    broken, parser = BrokenLines(), DumpParser(holds_submissions(dump), filters)
    # A join reads the texts four times. LZ4, with dictionaries only for columns with repeated values, makes the join a
    # seventh faster than Zstandard with dictionaries for all columns, and takes 1.5 times the disk space.
    with parquet_writer(output, comment_schema(filters), "lz4", REPEATING) as writer:
        for number, lines, block in read_blocks(dump, DUMP_FORMS, show_progress):
            table = parser.parse(block, lines)
            writer.add_table(parser.parse_lines(dump, number, block, broken) if table is None else table)
        if not writer.added:
            example = "; ".join(["", *broken.examples[:1]])
            kind = "submission" if parser.submissions else "comment"
            raise InputError(f"{dump}: contains no {kind}; expected Pushshift's JSON lines of {kind}s{example}")
        _note_origin(writer, _fingerprint(dump, filters), broken)
    return broken


def convert_dumps(
    dumps: list[Path],
    outputs: list[Path],
    broken: BrokenLines,
    workers: int,
    filters: Filters = PAPER,
    cluster: Executor | None = None,
) -> int:
    """`write_comments` for many dumps, `workers` at a time; existing files of the same dumps are reused.

    With a `cluster`, its machines read the dumps, each in a task of its own. The outputs are in one folder, which is
    locked.

    Returns:
        The number of reused files.

    Raises:
        InputError: as `write_comments` does, for the first dump that fails; finished files stay. Or another process
            writes to the folder, or a file there is not one of comments.
    """
    if not outputs:
        return 0
    with locked(outputs[0].parent, lock_inside(outputs[0].parent)):
        _prepare_folder(outputs)
        pairs = list(zip(dumps, outputs, strict=True))
        left_out: dict[Path, Any] = {dump: _finished(output, _fingerprint(dump, filters)) for dump, output in pairs}
        todo = [(dump, output) for dump, output in pairs if left_out[dump] is None]
        total = sum(dump.stat().st_size for dump, _ in todo)
        if cluster:
            left_out |= _convert_together(cluster, todo, filters, total)
        elif workers == 1 or len(todo) < 2 or total < WORTH_WORKERS:
            left_out |= {dump: write_comments(dump, output, filters) for dump, output in todo}
        else:
            # The largest first: if it started last, all workers but one would wait for it.
            todo.sort(key=lambda pair: -pair[0].stat().st_size)
            left_out |= _convert_in_workers(todo, workers, filters, total)
        for dump in dumps:  # in the same order for any number of workers
            broken.join(left_out[dump])
        return len(dumps) - len(todo)


def convert_datasets(
    sources: list[str], outputs: list[Path], broken: BrokenLines, filters: Filters = PAPER, submissions: bool = False
) -> int:
    """Convert datasets of comments (or also of submissions) on the Hub; they are streamed one after another.

    Existing files of the same datasets are reused. The outputs are as for `convert_dumps`.

    Returns:
        The number of reused files.

    Raises:
        InputError: a dataset cannot be read to its end, or lacks a column. Finished files stay.
    """
    if not outputs:
        return 0
    reused = 0
    with locked(outputs[0].parent, lock_inside(outputs[0].parent)):
        _prepare_folder(outputs)
        for source, output in zip(sources, outputs, strict=True):
            dataset = HubDataset(source)
            _check_columns(dataset, submissions)
            fingerprint = f"{FORMAT} {source} {dataset.commit} {_cleaning(filters)}"
            own = _finished(output, fingerprint)
            reused += own is not None
            broken.join(own or _write_dataset(dataset, output, filters, fingerprint))
    return reused


def _prepare_folder(outputs: list[Path]) -> None:
    """Reject existing files that are not ours, and remove what killed processes left."""
    for output in outputs:
        if output.exists() and _origin(output) is None:
            raise InputError(
                f"--comments: {output} would be replaced, but is not a file that this command wrote; move it away, or "
                "name another folder"
            )
    remove_temporary_files(outputs[0].parent)


def _origin(output: Path) -> dict[str, Any] | None:
    """What a file of comments was made from; None for another file."""
    try:
        return json.loads((pq.read_metadata(readable(output)).metadata or {})[MADE_FROM.encode()])
    except (OSError, pa.ArrowInvalid, KeyError):
        return None


def _finished(output: Path, fingerprint: str) -> BrokenLines | None:
    """The lines that were left out when this file was written; None if it is not of this source."""
    origin = _origin(output) if output.is_file() else None
    if not origin or origin["dump"] != fingerprint:
        return None
    return BrokenLines(origin["left out"], origin["first left out"])


def _convert_in_workers(
    todo: list[tuple[Path, Path]], workers: int, filters: Filters, total: int
) -> dict[Path, BrokenLines]:
    pool = ProcessPoolExecutor(min(workers, len(todo)), get_context("spawn"), end_with_parent)
    try:
        with pool:
            return _convert_together(pool, todo, filters, total)
    except BrokenProcessPool as error:
        raise InputError(
            f"one of {workers} worker processes was killed or could not start; run the command again, with fewer "
            "--workers if memory ran out"
        ) from error


def _convert_together(
    executor: Executor,
    todo: list[tuple[Path, Path]],
    filters: Filters,
    total: int,
) -> dict[Path, BrokenLines]:
    """Convert the dumps in `todo`, of `total` bytes, in parallel; returns the lines that were left out of each."""
    futures = {executor.submit(write_comments, *each, filters, show_progress=False): each[0] for each in todo}
    left_out: dict[Path, BrokenLines] = {}
    try:
        with tqdm(total=total, delay=1, unit="B", unit_scale=True, desc=f"{len(todo)} dumps") as bar:
            for future in as_completed(futures):
                dump = futures[future]
                left_out[dump] = future.result()
                bar.update(dump.stat().st_size)
    except BaseException:
        # Not Future.cancel: in Python 3.11, a pool that loses a process after that never ends.
        executor.shutdown(cancel_futures=True)
        raise
    return left_out


def _write_dataset(dataset: HubDataset, output: Path, filters: Filters, fingerprint: str) -> BrokenLines:
    broken = BrokenLines()
    submissions = _holds_submissions(dataset)
    names = [*text_names(submissions), "created_utc"]
    parser = DumpParser(submissions, filters)
    with parquet_writer(output, comment_schema(filters), "lz4", REPEATING) as writer:
        for split, rows in dataset.stream(names).items():
            read = 0
            with hub_errors(dataset.source), tqdm(delay=1, unit="row", unit_scale=True, desc=output.stem) as bar:
                for batch in map(_name_parents, rows.select_columns(names).with_format("arrow").iter(HUB_BATCH)):
                    complete = batch.drop_null()
                    if len(complete) < len(batch):
                        for row, name in _empty_fields(batch):
                            broken.add("missing field", f"{dataset.source}, split {split}, row {read + row + 1}", name)
                    texts = {name: complete[name].cast(pa.string()).combine_chunks() for name in names[:-1]}
                    if len(complete):
                        created = complete["created_utc"].cast(pa.int64()).combine_chunks()
                        writer.add_table(parser.measure(texts, created))
                    read += len(batch)
                    bar.update(len(batch))
        if not writer.added:
            raise InputError(f"{dataset.source}: contains no {'submission' if submissions else 'comment'}")
        _note_origin(writer, fingerprint, broken)
    return broken


def _name_parents(batch: pa.Table) -> pa.Table:
    """Comments whose parents have the names of `parent_names`, if they are numbers."""
    if "parent_id" not in batch.column_names or not pa.types.is_integer(batch["parent_id"].type):
        return batch
    names = parent_names(*(batch[name].to_pylist() for name in ("parent_id", "link_id")))
    return batch.set_column(batch.column_names.index("parent_id"), "parent_id", pa.array(names, pa.string()))


def _empty_fields(table: pa.Table) -> Iterator[tuple[int, str]]:
    """The rows with a null, each with the name of the first such column."""
    empty = {name: table[name].is_null().to_numpy() for name in table.column_names}
    for row in np.flatnonzero(np.logical_or.reduce(list(empty.values()))).tolist():
        yield row, next(name for name in empty if empty[name][row])


def _holds_submissions(dataset: HubDataset) -> bool:
    return "title" in dataset.features and "body" not in dataset.features


def _check_columns(dataset: HubDataset, submissions: bool) -> None:
    if _holds_submissions(dataset) and not submissions:
        raise InputError(f"{dataset.source}: submissions, not comments; --submissions reads them")
    names = [*text_names(_holds_submissions(dataset)), "created_utc"]
    if missing := [name for name in names if name not in dataset.features]:
        link = "; without parent_id, nothing tells which comment a reply answers" if "parent_id" in missing else ""
        raise InputError(
            f"{dataset.source}: no column {', '.join(missing)}; expected {', '.join(names)}; "
            f"found {', '.join(dataset.features)}{link}"
        )


def _cleaning(filters: Filters) -> str:
    # The language of the filter does not matter, because the column holds the language of each text.
    return f"{filters.markdown:d} {bool(filters.language):d}"


def _note_origin(writer: BatchWriter, fingerprint: str, broken: BrokenLines) -> None:
    made_from = {"dump": fingerprint, "left out": broken.counts, "first left out": broken.first}
    writer.file.add_key_value_metadata({MADE_FROM: json.dumps(made_from)})


def _fingerprint(dump: Path, filters: Filters) -> str:
    """Identifies a state of a dump and the cleaning of its texts: its size, and a hash of its first and last MiB."""
    size, end = dump.stat().st_size, 1 << 20
    with dump.open("rb") as file:
        digest = hashlib.sha256(file.read(end))
        file.seek(max(size - end, 0))
        digest.update(file.read(end))
    return f"{FORMAT} {size} {digest.hexdigest()} {_cleaning(filters)}"
