"""Reads dumps of Reddit (Pushshift's, arctic-shift's) into Parquet of comments, several at a time.

A process that reads holds a few times 32 MiB of text, plus the dump's longest line and, for Zstandard, its window (2
GiB for Pushshift's): it does not grow with the dump.
"""

import hashlib
import json
import multiprocessing
import os
import re
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from tqdm import tqdm

from data_scripts.clean.filters import PAPER, Filters, language_of, measure, measure_column
from data_scripts.errors import InputError
from data_scripts.read.files import BrokenLineError, BrokenLines, decode, parquet_writer, read_blocks, split_lines

MADE_FROM = "convsim.made_from"  # in the metadata of a file of comments
WORTH_WORKERS = 1 << 24  # bytes of dumps: to start a process takes as long as to read a few MB
FORMAT = 3  # raised when what is read from a dump changes, so that files of comments are made anew

DUMP_FORMS = ("", ".jsonl", ".ndjson", ".json")  # an unpacked dump is named RC_2015-01
COMMENT_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("id", "parent_id", "link_id", "author", "body", "subreddit")]
    + [("created_utc", pa.int64()), ("characters", pa.int32()), ("alphabetic", pa.int32())]
)
TEXT_FIELDS = COMMENT_SCHEMA.names[:6]
# A submission is a comment without a parent, whose text is its title.
FIELDS = {False: TEXT_FIELDS, True: ["id", "author", "title", "subreddit"]}
LANGUAGE = pa.field("language", pa.string())


def comment_schema(filters: Filters) -> pa.Schema:
    """The columns of a file of comments: `language` (ISO 639-1) is there where the filters ask for one."""
    return COMMENT_SCHEMA.append(LANGUAGE) if filters.language else COMMENT_SCHEMA


def holds_submissions(dump: Path) -> bool:
    """Whether a dump is one of submissions, by its name: RS_2015-01.zst, maths_submissions.zst, r_maths_posts.jsonl."""
    return dump.name.startswith("RS_") or bool(re.search(r"_(submissions|posts)\b", dump.name))


def _comment(line: bytes, submissions: bool, filters: Filters) -> tuple:
    try:
        fields = json.loads(decode(line))
    except (ValueError, RecursionError) as error:
        raise BrokenLineError("not JSON", str(error)) from error
    if not isinstance(fields, dict):
        raise BrokenLineError("not a JSON object", f"found {type(fields).__name__}")
    needed = FIELDS[submissions]
    missing = [name for name in (*needed, "created_utc") if name not in fields]
    if missing:
        raise BrokenLineError("missing field", ", ".join(missing))
    texts = [fields[name] for name in needed]
    for name, text in zip(needed, texts, strict=True):
        if not isinstance(text, str):
            raise BrokenLineError("wrong type", f"{name} should be text, found {type(text).__name__}")
    try:
        created = int(fields["created_utc"])  # a number, or digits in quotes in some months' dumps
        if not 0 <= created < 2**63:
            raise ValueError
    except (TypeError, ValueError, OverflowError) as error:
        raise BrokenLineError("wrong type", "created_utc should be seconds since 1970") from error
    if submissions:
        name, author, title, subreddit = texts
        texts = [name, "", f"t3_{name}", author, title, subreddit]
    body, characters, alphabetic = measure(texts[4], filters)
    row: tuple = (*texts[:4], body, texts[5], created, characters, alphabetic)
    try:
        "".join((*texts, body)).encode()
    except UnicodeEncodeError as error:  # half of a surrogate pair, written as \\ud83d: no Unicode text
        raise BrokenLineError("not UTF-8", "half of a surrogate pair") from error
    return (*row, language_of(body, characters, alphabetic, filters)) if filters.language else row


class _Comment(msgspec.Struct, gc=False):
    id: str
    parent_id: str
    link_id: str
    author: str
    body: str
    subreddit: str
    created_utc: int | str


class _Submission(msgspec.Struct, gc=False):
    id: str
    author: str
    title: str
    subreddit: str
    created_utc: int | str


class BlockParser:
    """Parses whole blocks of comments at once, where all of their lines are as they should be."""

    def __init__(self, submissions: bool, filters: Filters) -> None:
        self.submissions, self.filters = submissions, filters
        self.decoder = msgspec.json.Decoder(_Submission if submissions else _Comment)

    def parse(self, block: memoryview, lines: int) -> pa.Table | None:
        """A block's comments with the columns of `comment_schema`; None where a line needs a closer look."""
        columns = self.columns(block, lines)
        return columns and self._measured(*columns)

    def columns(self, block: memoryview, lines: int) -> tuple[dict[str, pa.StringArray], pa.Int64Array] | None:
        """A block's texts by field, as they stand in it, and `created_utc`; None where a line needs a closer look."""
        try:
            rows = self.decoder.decode_lines(block)
            created = pa.array([int(seconds) for seconds in map(attrgetter("created_utc"), rows)], pa.int64())
        except (msgspec.DecodeError, ValueError, OverflowError):
            return None
        if len(rows) != lines or pc.min(created).as_py() < 0:
            return None
        return {
            name: pa.array(list(map(attrgetter(name), rows)), pa.string()) for name in FIELDS[self.submissions]
        }, created

    def _measured(self, texts: dict[str, pa.StringArray], created: pa.Int64Array) -> pa.Table:
        if self.submissions:
            blank = pa.array([""] * len(created), pa.string())
            link = pc.binary_join_element_wise("t3_", texts["id"], "")
            texts |= {"parent_id": blank, "link_id": link, "body": texts["title"]}
        texts["body"], characters, alphabetic = measure_column(texts["body"], self.filters)
        columns = [*(texts[name] for name in TEXT_FIELDS), created, pa.array(characters), pa.array(alphabetic)]
        if self.filters.language:
            measures = zip(texts["body"].to_pylist(), characters.tolist(), alphabetic.tolist(), strict=True)
            columns.append(pa.array([language_of(*measured, self.filters) for measured in measures], pa.string()))
        return pa.table(columns, schema=comment_schema(self.filters))


def write_comments(
    dump: Path,
    output: Path,
    broken: BrokenLines,
    filters: Filters = PAPER,
    progress: Callable[[int], object] | None = None,
) -> int:
    """Turn a dump into Parquet with the columns of `comment_schema`; returns its number of comments.

    `body` is HTML-unescaped (and without Markdown, if the filters say so), `characters` its length in Unicode
    characters, `alphabetic` how many of them are letters. A submission becomes a comment without a parent, with its
    title as the body.

    Lines that are not a comment are counted in `broken` and left out. The file's metadata say which dump it was made
    from and what was left out, for `read_dumps` to know it again. `progress` is as for `read_blocks`.

    Raises:
        InputError: the dump cannot be read to its end (see `read_lines`), or holds no comment at all.
    """
    submissions = holds_submissions(dump)
    own, parser = BrokenLines(), BlockParser(submissions, filters)
    # The texts are read four times for each join: LZ4, and no dictionaries of what does not repeat, make it a seventh
    # quicker than Zstandard and dictionaries do, for half as much disk again.
    repeating = ["link_id", "author", "subreddit"]
    with parquet_writer(output, comment_schema(filters), "lz4", repeating) as writer:
        for number, lines, block in read_blocks(dump, DUMP_FORMS, progress):
            table = parser.parse(block, lines)
            if table is not None:
                writer.add_table(table)
                continue
            for place, line in split_lines(dump, number, block):
                try:
                    writer.add(_comment(line, submissions, filters), len(line))
                except BrokenLineError as error:
                    own.add(error.args[0], place, error.args[1])
        if not writer.added:
            wrong = "; ".join(["", *own.examples[:1]])
            kind = "submission" if submissions else "comment"
            raise InputError(f"{dump}: no {kind} in it; expected Pushshift's JSON lines of {kind}s{wrong}")
        made_from = {"dump": _fingerprint(dump, filters), "left out": own.counts, "first left out": own.first}
        writer.file.add_key_value_metadata({MADE_FROM: json.dumps(made_from)})
    broken.join(own)
    return writer.added


def _fingerprint(dump: Path, filters: Filters) -> str:
    """What tells a dump from another one, and from itself once more was written to it: its size, its two ends.

    What of the filters changes the file is part of it.
    """
    size, end = dump.stat().st_size, 1 << 20
    with dump.open("rb") as file:
        digest = hashlib.sha256(file.read(end))
        file.seek(max(size - end, 0))
        digest.update(file.read(end))
    # Of which language does not matter: the column names each text's own.
    return f"{FORMAT} {size} {digest.hexdigest()} {filters.markdown:d} {bool(filters.language):d}"


def _finished(dump: Path, output: Path, filters: Filters) -> BrokenLines | None:
    """What was left out of the dump when the file was made from it; None if there is no file, or of another dump."""
    try:
        made_from = json.loads(pq.read_metadata(output).metadata[MADE_FROM.encode()])
    except (OSError, pa.ArrowInvalid, KeyError, TypeError, ValueError):
        return None
    if made_from["dump"] != _fingerprint(dump, filters):
        return None
    return BrokenLines(made_from["left out"], made_from["first left out"])


def read_dumps(
    dumps: list[Path], outputs: list[Path], broken: BrokenLines, workers: int, filters: Filters = PAPER
) -> int:
    """`write_comments` for many dumps, `workers` at a time; files that were made of the same dumps before are kept.

    Returns:
        How many files were kept.

    Raises:
        InputError: as `write_comments` does, for the first dump that does; files that are finished then stay.
    """
    left_out = {dump: _finished(dump, output, filters) for dump, output in zip(dumps, outputs, strict=True)}
    todo = [(dump, output) for dump, output in zip(dumps, outputs, strict=True) if left_out[dump] is None]
    total = sum(dump.stat().st_size for dump, _ in todo)
    if workers == 1 or len(todo) < 2 or total < WORTH_WORKERS:
        for dump, output in todo:
            left_out[dump] = own = BrokenLines()
            write_comments(dump, output, own, filters)
    else:
        # The largest first: one that starts last would be waited for alone.
        todo.sort(key=lambda pair: -pair[0].stat().st_size)
        left_out |= _read_in_workers(todo, workers, total, filters)
    for dump in dumps:  # in their order, whoever read them
        if found := left_out[dump]:
            broken.join(found)
    return len(dumps) - len(todo)


def _read_in_workers(
    todo: list[tuple[Path, Path]], workers: int, total: int, filters: Filters
) -> dict[Path, BrokenLines | None]:
    """What was left out of each dump; `todo` are dumps and their files, `total` the dumps' bytes."""
    context = multiprocessing.get_context("spawn")
    read = context.Value("q", 0)
    with (
        ProcessPoolExecutor(min(workers, len(todo)), context, _start_worker, (read,)) as executor,
        tqdm(total=total, delay=1, unit="B", unit_scale=True, desc=f"{len(todo)} dumps") as bar,
    ):
        reading = {dump: executor.submit(_read_in_worker, dump, output, filters) for dump, output in todo}
        waiting = set(reading.values())
        try:
            while waiting:
                done, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                bar.update(read.value - bar.n)
                for future in done:
                    future.result()
        finally:
            executor.shutdown(wait=True, cancel_futures=True)
        return {dump: future.result() for dump, future in reading.items()}


_bytes_read: Any  # of all workers together


def _start_worker(counter: Any) -> None:
    global _bytes_read
    _bytes_read = counter
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """A worker whose parent was killed would go on, and write into the files of the next run."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _read_in_worker(dump: Path, output: Path, filters: Filters) -> BrokenLines:
    def progress(count: int) -> None:
        with _bytes_read.get_lock():
            _bytes_read.value += count

    broken = BrokenLines()
    write_comments(dump, output, broken, filters, progress)
    return broken
