"""Converts dumps of Reddit, several at a time, and datasets on the Hub to Parquet files of comments.

Memory does not grow with the dump: each process holds a few times 32 MiB of text, the dump's longest line and the
window of Zstandard (2 GiB in Pushshift's dumps).
"""

import hashlib
import json
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from data_scripts.clean.filters import PAPER, Filters
from data_scripts.loading import HubDataset
from data_scripts.reddit import DUMP_FORMS, holds_submissions
from data_scripts.reddit.dumps import (
    DumpParser,
    comment_schema,
    parent_names,
    text_names,
)
from modeling_convsim.files.command_line import end_with_parent
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.hub import hub_errors
from modeling_convsim.files.parquet import parquet_writer
from modeling_convsim.files.storage import LOCK, locked, readable, remove_temporary_files
from modeling_convsim.files.texts import BrokenLines, read_blocks

MADE_FROM = "convsim.made_from"  # key in the metadata of a file of comments
WORTH_WORKERS = 1 << 24  # minimum bytes of dumps; starting a process takes as long as reading a few MB
REPEATING = ["link_id", "author", "subreddit"]  # columns with repeated values, which get dictionaries
HUB_BATCH = 10_000  # rows of a dataset on the Hub that are converted together
FORMAT = 5  # raised when what is read from a dump changes, so that existing files of comments are regenerated


def write_comments(
    source: Path | HubDataset, output: Path, filters: Filters = PAPER, show_progress: bool = True
) -> BrokenLines:
    """Convert a dump, or a dataset on the Hub, to Parquet with the columns of `comment_schema`.

    `body` is HTML-unescaped (and without Markdown, if the filters ask for it), `characters` its length in Unicode
    characters, `alphabetic` how many of them are letters. A submission becomes a comment without a parent, with its
    title as the body.

    The metadata of the file identify the source and hold the counts of the lines that were left out, so that
    `convert_sources` recognizes it.

    Returns:
        The lines, or rows, that are not a comment.

    Raises:
        InputError: the source cannot be read to its end, or contains no comment.
    """
    broken = BrokenLines()
    if isinstance(source, HubDataset):
        name, submissions = source.source, _holds_submissions(source)
        tables = _dataset_tables(source, DumpParser(submissions, filters), broken)
    else:
        name, submissions = str(source), holds_submissions(source)
        tables = _dump_tables(source, DumpParser(submissions, filters), broken, show_progress)
    # A join reads the texts four times. LZ4, with dictionaries only for columns with repeated values, makes the join a
    # seventh faster than Zstandard with dictionaries for all columns, and takes 1.5 times the disk space.
    with parquet_writer(output, comment_schema(filters), "lz4", REPEATING) as writer:
        for table in tables:
            writer.add_table(table)
        if not writer.added:
            example = "; ".join(["", *broken.examples[:1]])
            kind = "submission" if submissions else "comment"
            raise InputError(f"{name}: contains no {kind}s; expected Pushshift's JSON Lines of {kind}s{example}")
        made_from = {"dump": _fingerprint(source, filters), "left out": broken.counts, "first left out": broken.first}
        writer.file.add_key_value_metadata({MADE_FROM: json.dumps(made_from)})
    return broken


def _dump_tables(dump: Path, parser: DumpParser, broken: BrokenLines, show_progress: bool) -> Iterator[pa.Table]:
    for number, lines, block in read_blocks(dump, DUMP_FORMS, show_progress):
        table = parser.parse(block, lines)
        yield parser.parse_lines(dump, number, block, broken) if table is None else table


def _dataset_tables(dataset: HubDataset, parser: DumpParser, broken: BrokenLines) -> Iterator[pa.Table]:
    names = [*text_names(parser.submissions), "created_utc"]
    for split, rows in dataset.stream(names).items():
        read = 0
        with hub_errors(dataset.source), tqdm(delay=1, unit="row", unit_scale=True, desc=split) as bar:
            for batch in map(_name_parents, rows.with_format("arrow").iter(HUB_BATCH)):
                complete = batch.drop_null()
                if len(complete) < len(batch):
                    for row, name in _empty_fields(batch):
                        broken.add("missing field", f"{dataset.source}, split {split}, row {read + row + 1}", name)
                if len(complete):
                    texts = {name: complete[name].cast(pa.string()).combine_chunks() for name in names[:-1]}
                    yield parser.measure(texts, complete["created_utc"].cast(pa.int64()).combine_chunks())
                read += len(batch)
                bar.update(len(batch))


def convert_sources(
    sources: list[Path | HubDataset],
    outputs: list[Path],
    broken: BrokenLines,
    workers: int = 1,
    filters: Filters = PAPER,
    cluster: Any = None,
) -> int:
    """`write_comments` for many sources; existing files of the same sources are reused.

    `workers` dumps are read at a time. With a `cluster`, a context of Spark, its machines read the dumps, each in a
    task of its own. Datasets are streamed one after another. The outputs are in one folder, which is locked.

    Returns:
        The number of reused files.

    Raises:
        InputError: as `write_comments` does, for the first source that fails; finished files stay. Or another process
            writes to the folder, or a file there is not one of comments.
    """
    if not outputs:
        return 0
    with locked(outputs[0].parent, outputs[0].parent / LOCK):
        for output in outputs:
            if output.exists() and _origin(output) is None:
                raise InputError(
                    f"--comments: {output} would be replaced, but is not a file that this command wrote; move it away, "
                    "or name another folder"
                )
        remove_temporary_files(outputs[0].parent)
        left_out: dict[Path, Any] = {
            output: _finished(output, _fingerprint(source, filters))
            for source, output in zip(sources, outputs, strict=True)
        }
        todo = [each for each in zip(sources, outputs, strict=True) if left_out[each[1]] is None]
        dumps = [(source, output) for source, output in todo if not isinstance(source, HubDataset)]
        total = sum(dump.stat().st_size for dump, _ in dumps)
        if cluster and dumps:

            def convert(pair: tuple[Path, Path]) -> BrokenLines:
                return write_comments(*pair, filters, show_progress=False)

            left_out |= zip(
                [output for _, output in dumps],
                cluster.parallelize(dumps, len(dumps)).map(convert).collect(),
                strict=True,
            )
        elif workers > 1 and len(dumps) > 1 and total >= WORTH_WORKERS:
            # The largest first: if it started last, all workers but one would wait for it.
            dumps.sort(key=lambda each: -each[0].stat().st_size)
            left_out |= _convert_in_workers(dumps, workers, filters, total)
        for source, output in todo:
            if left_out[output] is None:
                left_out[output] = write_comments(source, output, filters)
        for output in outputs:  # in the same order for any number of workers
            broken.join(left_out[output])
        return len(sources) - len(todo)


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
    """Convert the dumps in `todo`, of `total` bytes, in parallel; returns the lines that were left out of each."""
    left_out: dict[Path, BrokenLines] = {}
    try:
        with (
            ProcessPoolExecutor(min(workers, len(todo)), get_context("spawn"), end_with_parent) as pool,
            tqdm(total=total, delay=1, unit="B", unit_scale=True, desc=f"{len(todo)} dumps") as bar,
        ):
            futures = {pool.submit(write_comments, *each, filters, show_progress=False): each for each in todo}
            try:
                for future in as_completed(futures):
                    dump, output = futures[future]
                    left_out[output] = future.result()
                    bar.update(dump.stat().st_size)
            except BaseException:
                # Not Future.cancel: in Python 3.11, a pool that loses a process after that never ends.
                pool.shutdown(cancel_futures=True)
                raise
    except BrokenProcessPool as error:
        raise InputError(
            f"one of {workers} worker processes was killed or could not start; run the command again, with fewer "
            "--workers if memory ran out"
        ) from error
    return left_out


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


def check_dataset(dataset: HubDataset, submissions: bool) -> None:
    """Refuse a dataset without the columns of comments, or, unless `submissions`, one of submissions.

    Raises:
        InputError: it is another dataset, or cannot be read.
    """
    if _holds_submissions(dataset) and not submissions:
        raise InputError(f"{dataset.source}: submissions, not comments; add --submissions to read them")
    names = [*text_names(_holds_submissions(dataset)), "created_utc"]
    if missing := [name for name in names if name not in dataset.features]:
        link = "; without parent_id, replies cannot be linked to comments" if "parent_id" in missing else ""
        raise InputError(
            f"{dataset.source}: no column {', '.join(missing)}; expected {', '.join(names)}; "
            f"found {', '.join(dataset.features)}{link}"
        )


def _fingerprint(source: Path | HubDataset, filters: Filters) -> str:
    """Identifies a state of a source and the cleaning of its texts; of a dump, its size and its first and last MiB."""
    # The language of the filter does not matter, because the column holds the language of each text.
    cleaning = f"{filters.markdown:d} {bool(filters.language):d}"
    if isinstance(source, HubDataset):
        return f"{FORMAT} {source.source} {source.commit} {cleaning}"
    size, end = source.stat().st_size, 1 << 20
    with source.open("rb") as file:
        digest = hashlib.sha256(file.read(end))
        file.seek(max(size - end, 0))
        digest.update(file.read(end))
    return f"{FORMAT} {size} {digest.hexdigest()} {cleaning}"
