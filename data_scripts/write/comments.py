"""Converts dumps of Reddit, several at a time, and datasets on the Hub to Parquet files of comments.

Memory does not grow with the dump: each process holds a few times 32 MiB of text, the dump's longest line and the
window of Zstandard (2 GiB in Pushshift's dumps).
"""

import hashlib
import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from data_scripts.clean.filters import PAPER, Filters
from data_scripts.errors import InputError
from data_scripts.read.checksums import digest_of, read_checksums
from data_scripts.read.dumps import DUMP_FORMS, BlockParser, comment_schema, holds_submissions, parse_lines, text_names
from data_scripts.read.files import BrokenLines, read_blocks
from data_scripts.read.hub import HubDataset
from data_scripts.read.hub_errors import hub_errors
from data_scripts.read.storage import readable
from data_scripts.write.checksums import replace_checksums
from data_scripts.write.files import remove_temporary_files
from data_scripts.write.locks import lock_inside, locked
from data_scripts.write.parquet import BatchWriter, parquet_writer
from data_scripts.write.worker_processes import WorkerContext, count_bytes, start_worker

MADE_FROM = "convsim.made_from"  # key in the metadata of a file of comments
WORTH_WORKERS = 1 << 24  # minimum bytes of dumps; starting a process takes as long as reading a few MB
REPEATING = ["link_id", "author", "subreddit"]  # columns with repeated values, which get dictionaries
HUB_BATCH = 10_000  # rows of a dataset on the Hub that are converted together
FORMAT = 4  # raised when what is read from a dump changes, so that existing files of comments are regenerated


def write_comments(
    dump: Path,
    output: Path,
    broken: BrokenLines,
    filters: Filters = PAPER,
    progress: Callable[[int], object] | None = None,
) -> int:
    """Convert a dump to Parquet with the columns of `comment_schema`; returns its number of comments.

    `body` is HTML-unescaped (and without Markdown, if the filters ask for it), `characters` its length in Unicode
    characters, `alphabetic` how many of them are letters. A submission becomes a comment without a parent, with its
    title as the body.

    Lines that are not a comment are counted in `broken` and left out. The metadata of the file identify the dump and
    hold these counts, so that `convert_dumps` recognizes it. `progress` is as for `read_blocks`.

    Raises:
        InputError: the dump cannot be read to its end (see `read_blocks`), or contains no comment.
    """
    submissions = holds_submissions(dump)
    own, parser = BrokenLines(), BlockParser(submissions, filters)
    # A join reads the texts four times. LZ4, with dictionaries only for columns with repeated values, makes the join a
    # seventh faster than Zstandard with dictionaries for all columns, and takes 1.5 times the disk space.
    with parquet_writer(output, comment_schema(filters), "lz4", REPEATING) as writer:
        for number, lines, block in read_blocks(dump, DUMP_FORMS, progress):
            table = parser.parse(block, lines)
            if table is not None:
                writer.add_table(table)
                continue
            for row, size in parse_lines(dump, number, block, submissions, filters, own):
                writer.add(row, size)
        if not writer.added:
            example = "; ".join(["", *own.examples[:1]])
            kind = "submission" if submissions else "comment"
            raise InputError(f"{dump}: contains no {kind}; expected Pushshift's JSON lines of {kind}s{example}")
        _note_origin(writer, _fingerprint(dump, filters), own)
    broken.join(own)
    return writer.added


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
    folder, reused = outputs[0].parent, 0
    with locked(folder, lock_inside(folder)):
        for output in outputs:
            _check_own(output)
        remove_temporary_files(folder)
        for source, output in zip(sources, outputs, strict=True):
            dataset = HubDataset(source)
            _check_columns(dataset, submissions)
            fingerprint = f"{FORMAT} {source} {dataset.commit} {_cleaning(filters)}"
            own = _finished(source, output, fingerprint, read_checksums(folder).get(output.name))
            reused += own is not None
            if own is None:
                own = BrokenLines()
                _write_dataset(dataset, output, own, filters, fingerprint)
                _add_checksum(output, digest_of(output))
            broken.join(own)
    return reused


def _write_dataset(dataset: HubDataset, output: Path, broken: BrokenLines, filters: Filters, fingerprint: str) -> None:
    submissions = _holds_submissions(dataset)
    names = [*text_names(submissions), "created_utc"]
    parser = BlockParser(submissions, filters)
    with parquet_writer(output, comment_schema(filters), "lz4", REPEATING) as writer:
        for split, rows in dataset.stream(names).items():
            read = 0
            with hub_errors(dataset.source), tqdm(delay=1, unit="row", unit_scale=True, desc=output.stem) as bar:
                for batch in rows.select_columns(names).with_format("arrow").iter(HUB_BATCH):
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


def _finished(source: Path | str, output: Path, fingerprint: str, digest: str | None) -> BrokenLines | None:
    """The lines that were left out when this file was written; None if it cannot be used for this source.

    `digest` is the SHA-256 of the file when it was written, None if it was never complete.
    """
    if digest is None or not output.is_file():
        return None
    if digest_of(output) != digest:
        print(f"{output} has changed since it was written: {source} is converted again", file=sys.stderr)
        return None
    try:
        made_from = json.loads(pq.read_metadata(readable(output)).metadata[MADE_FROM.encode()])
    except (OSError, pa.ArrowInvalid, KeyError, TypeError, ValueError):
        return None
    if made_from["dump"] != fingerprint:
        return None
    return BrokenLines(made_from["left out"], made_from["first left out"])


def convert_dumps(
    dumps: list[Path],
    outputs: list[Path],
    broken: BrokenLines,
    workers: int,
    filters: Filters = PAPER,
    cluster: Executor | None = None,
) -> int:
    """`write_comments` for many dumps, `workers` at a time; existing files of the same dumps are reused.

    With a `cluster`, its machines read the dumps, each in a task of its own.

    The outputs are in one folder, which is locked, and which gets checksums of them: a file that has changed since it
    was written is converted again.

    Returns:
        The number of reused files.

    Raises:
        InputError: as `write_comments` does, for the first dump that fails; finished files stay. Or another process
            writes to the folder, or a file there is not one of comments.
    """
    if not outputs:
        return 0
    folder = outputs[0].parent
    with locked(folder, lock_inside(folder)):
        for output in outputs:
            _check_own(output)
        remove_temporary_files(folder)
        return _convert(dumps, outputs, broken, workers, filters, cluster)


def _check_own(output: Path) -> None:
    """Reject an existing file that `write_comments` did not write."""
    if not output.exists():
        return
    try:
        is_own = MADE_FROM.encode() in (pq.read_metadata(readable(output)).metadata or {})
    except (OSError, pa.ArrowInvalid):
        is_own = False
    if not is_own:
        raise InputError(
            f"--comments: {output} would be replaced, but is not a file that this command wrote; move it away, or name "
            "another folder"
        )


def _convert(
    dumps: list[Path],
    outputs: list[Path],
    broken: BrokenLines,
    workers: int,
    filters: Filters,
    cluster: Executor | None,
) -> int:
    folder = outputs[0].parent
    digests = read_checksums(folder)
    check: Callable = cluster.map if cluster else map
    known = [digests.get(output.name) for output in outputs]
    left_out = dict(zip(dumps, check(_finished_dump, dumps, outputs, known, [filters] * len(dumps)), strict=True))
    todo = [(dump, output) for dump, output in zip(dumps, outputs, strict=True) if left_out[dump] is None]
    replace_checksums(folder, {name: digests[name] for name in digests if name not in {out.name for _, out in todo}})
    total = sum(dump.stat().st_size for dump, _ in todo)
    if cluster:
        with tqdm(total=total, delay=1, unit="B", unit_scale=True, desc=f"{len(todo)} dumps") as bar:
            left_out |= _collect(cluster, _convert_dump, todo, filters, lambda dump: bar.update(dump.stat().st_size))
    elif workers == 1 or len(todo) < 2 or total < WORTH_WORKERS:
        for dump, output in todo:
            left_out[dump], digest = _convert_dump(dump, output, filters)
            _add_checksum(output, digest)
    else:
        # The largest first: if it started last, all workers but one would wait for it.
        todo.sort(key=lambda pair: -pair[0].stat().st_size)
        left_out |= _convert_in_workers(todo, workers, total, filters)
    for dump in dumps:  # in the same order for any number of workers
        if dump_broken := left_out[dump]:
            broken.join(dump_broken)
    return len(dumps) - len(todo)


def _add_checksum(output: Path, digest: str) -> None:
    """Note the checksum of a complete file, by which a later run knows that it can use it."""
    replace_checksums(output.parent, read_checksums(output.parent) | {output.name: digest})


def _convert_in_workers(
    todo: list[tuple[Path, Path]], workers: int, total: int, filters: Filters
) -> dict[Path, BrokenLines | None]:
    """Convert the dumps in `todo`, whose total size is `total`; returns the lines that were left out, by dump."""
    context = WorkerContext()
    read = context.Value("q", 0)
    with (
        ProcessPoolExecutor(min(workers, len(todo)), context, start_worker, (read,)) as executor,
        tqdm(total=total, delay=1, unit="B", unit_scale=True, desc=f"{len(todo)} dumps") as bar,
    ):
        try:
            return _collect(
                executor, _convert_in_worker, todo, filters, lambda _: None, lambda: bar.update(read.value - bar.n)
            )
        except BrokenProcessPool as error:
            raise InputError(
                f"one of {workers} worker processes was killed or could not start; run the command again, with fewer "
                "--workers if memory ran out"
            ) from error


def _collect(
    executor: Executor,
    convert: Callable[[Path, Path, Filters], tuple[BrokenLines, str]],
    todo: list[tuple[Path, Path]],
    filters: Filters,
    done_with: Callable[[Path], object],
    waited: Callable[[], object] = lambda: None,
) -> dict[Path, BrokenLines | None]:
    """Convert the dumps in `todo`, and note each file that is complete, also if another dump fails."""
    reading = {executor.submit(convert, dump, output, filters): (dump, output) for dump, output in todo}
    waiting, left_out = set(reading), dict[Path, BrokenLines | None]()

    def finish(future: Future) -> None:
        dump, output = reading[future]
        left_out[dump], digest = future.result()
        _add_checksum(output, digest)

    try:
        while waiting:
            done, _ = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
            waited()
            for future in done:
                finish(future)
                done_with(reading[future][0])
                waiting.remove(future)
    finally:
        if waiting:  # after an error
            # Not Future.cancel: in Python 3.11, a pool that loses a process after that never ends. And not `wait`,
            # which would also wait for futures that are canceled here.
            executor.shutdown(wait=False, cancel_futures=True)
        while not all(future.done() for future in waiting):
            time.sleep(0.05)
        for future in waiting:  # those that ended after another one had failed
            with suppress(Exception):  # it failed too, or was not started
                finish(future)
    return left_out


def _convert_in_worker(dump: Path, output: Path, filters: Filters) -> tuple[BrokenLines, str]:
    return _convert_dump(dump, output, filters, count_bytes)


def _convert_dump(
    dump: Path, output: Path, filters: Filters, progress: Callable[[int], object] | None = None
) -> tuple[BrokenLines, str]:
    """`write_comments`; returns the lines that were left out, and the checksum of the file."""
    broken = BrokenLines()
    write_comments(dump, output, broken, filters, progress)
    return broken, digest_of(output)


def _finished_dump(dump: Path, output: Path, digest: str | None, filters: Filters) -> BrokenLines | None:
    return _finished(dump, output, _fingerprint(dump, filters), digest)
