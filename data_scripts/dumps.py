"""Reads Pushshift dumps of Reddit comments into Parquet, several at a time."""

import hashlib
import json
import multiprocessing
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq
from tqdm import tqdm

from data_scripts.errors import InputError
from data_scripts.files import NEWLINE, BrokenLineError, BrokenLines, decode, parquet_writer, read_blocks, split_lines
from data_scripts.filters import measure, measure_column

MADE_FROM = "convsim.made_from"  # in the metadata of a file of comments
WORTH_WORKERS = 1 << 24  # bytes of dumps: to start a process takes as long as to read a few MB
FORMAT = 1  # raised when what is read from a dump changes, so that files of comments are made anew

DUMP_FORMS = (".jsonl", ".ndjson")
COMMENT_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("id", "parent_id", "link_id", "author", "body", "subreddit")]
    + [("created_utc", pa.int64()), ("characters", pa.int32()), ("alphabetic", pa.int32())]
)
TEXT_FIELDS = COMMENT_SCHEMA.names[:6]


def _comment(line: bytes) -> tuple:
    try:
        fields = json.loads(decode(line))
    except (ValueError, RecursionError) as error:
        raise BrokenLineError("not JSON", str(error)) from error
    if not isinstance(fields, dict):
        raise BrokenLineError("not a JSON object", f"found {type(fields).__name__}")
    missing = [name for name in COMMENT_SCHEMA.names[:7] if name not in fields]
    if missing:
        raise BrokenLineError("missing field", ", ".join(missing))
    texts = [fields[name] for name in TEXT_FIELDS]
    for name, text in zip(TEXT_FIELDS, texts, strict=True):
        if not isinstance(text, str):
            raise BrokenLineError("wrong type", f"{name} should be text, found {type(text).__name__}")
    try:
        created = int(fields["created_utc"])  # a number, or digits in quotes in some months' dumps
        if not 0 <= created < 2**63:
            raise ValueError
    except (TypeError, ValueError, OverflowError) as error:
        raise BrokenLineError("wrong type", "created_utc should be seconds since 1970") from error
    body, characters, alphabetic = measure(fields["body"])
    row = (*texts[:4], body, texts[5], created, characters, alphabetic)
    try:
        "".join((*texts, body)).encode()
    except UnicodeEncodeError as error:  # half of a surrogate pair, written as \\ud83d: no Unicode text
        raise BrokenLineError("not UTF-8", "half of a surrogate pair") from error
    return row


class _BlockParser:
    """Parses whole blocks of comments in C++, where all of their lines are as they should be."""

    def __init__(self) -> None:
        texts = [(name, pa.string()) for name in TEXT_FIELDS]
        # In some months' dumps created_utc is digits in quotes; what the last block had is tried first.
        self.schemas = [pa.schema([*texts, ("created_utc", kind)]) for kind in (pa.int64(), pa.string())]

    def parse(self, block: bytes) -> pa.Table | None:
        """The block's comments with the columns of `COMMENT_SCHEMA`; None where a line needs a closer look."""
        lines = block.count(NEWLINE) + (not block.endswith(NEWLINE))
        for schema in self.schemas:
            try:
                table = pj.read_json(
                    pa.BufferReader(block),
                    pj.ReadOptions(use_threads=False, block_size=len(block) + 1),
                    pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore"),
                )
                table.validate(full=True)  # the parser takes any bytes for text
                table = table.combine_chunks()
                created = pc.cast(table["created_utc"], pa.int64())
            except pa.ArrowInvalid:
                continue
            self.schemas.sort(key=lambda other: other is not schema)
            if len(table) != lines or any(column.null_count for column in table.columns) or pc.min(created).as_py() < 0:
                return None
            texts = {name: table[name].combine_chunks() for name in TEXT_FIELDS}
            texts["body"], characters, alphabetic = measure_column(texts["body"])
            columns = [*texts.values(), created, pa.array(characters), pa.array(alphabetic)]
            return pa.table(columns, schema=COMMENT_SCHEMA)
        return None


def write_comments(
    dump: Path, output: Path, broken: BrokenLines, progress: Callable[[int], object] | None = None
) -> int:
    """Turn a dump into Parquet with the columns of `COMMENT_SCHEMA`; returns its number of comments.

    `body` is HTML-unescaped, `characters` its length in Unicode characters, `alphabetic` how many of them are letters.
    Lines that are not a comment are counted in `broken` and left out. The file's metadata say which dump it was made
    from and what was left out, for `read_dumps` to know it again. `progress` is as for `read_blocks`.

    Raises:
        InputError: the dump cannot be read to its end (see `read_lines`), or holds no comment at all.
    """
    own, parser = BrokenLines(), _BlockParser()
    with parquet_writer(output, COMMENT_SCHEMA) as writer:
        for number, block in read_blocks(dump, DUMP_FORMS, progress):
            table = parser.parse(block)
            if table is not None:
                writer.add_table(table)
                continue
            for place, line in split_lines(dump, number, block):
                try:
                    writer.add(_comment(line), len(line))
                except BrokenLineError as error:
                    own.add(error.args[0], place, error.args[1])
        if not writer.added:
            wrong = "; ".join(["", *own.examples[:1]])
            raise InputError(f"{dump}: no comment in it; expected Pushshift's JSON lines of comments{wrong}")
        made_from = {"dump": _fingerprint(dump), "left out": own.counts, "first left out": own.first}
        writer.file.add_key_value_metadata({MADE_FROM: json.dumps(made_from)})
    broken.join(own)
    return writer.added


def _fingerprint(dump: Path) -> str:
    """What tells a dump from another one, and from itself once more was written to it: its size, its two ends."""
    size, end = dump.stat().st_size, 1 << 20
    with dump.open("rb") as file:
        digest = hashlib.sha256(file.read(end))
        file.seek(max(size - end, 0))
        digest.update(file.read(end))
    return f"{FORMAT} {size} {digest.hexdigest()}"


def _finished(dump: Path, output: Path) -> BrokenLines | None:
    """What was left out of the dump when the file was made from it; None if there is no file, or of another dump."""
    try:
        made_from = json.loads(pq.read_metadata(output).metadata[MADE_FROM.encode()])
    except (OSError, pa.ArrowInvalid, KeyError, TypeError, ValueError):
        return None
    if made_from["dump"] != _fingerprint(dump):
        return None
    return BrokenLines(made_from["left out"], made_from["first left out"])


def read_dumps(dumps: list[Path], outputs: list[Path], broken: BrokenLines, workers: int) -> int:
    """`write_comments` for many dumps, `workers` at a time; files that were made of the same dumps before are kept.

    Returns:
        How many files were kept.

    Raises:
        InputError: as `write_comments` does, for the first dump that does; files that are finished then stay.
    """
    found = [_finished(dump, output) for dump, output in zip(dumps, outputs, strict=True)]
    for kept in filter(None, found):
        broken.join(kept)
    todo = [(dump, output) for dump, output, kept in zip(dumps, outputs, found, strict=True) if kept is None]
    total = sum(dump.stat().st_size for dump, _ in todo)
    if workers == 1 or len(todo) < 2 or total < WORTH_WORKERS:
        for dump, output in todo:
            write_comments(dump, output, broken)
        return len(dumps) - len(todo)
    context = multiprocessing.get_context("spawn")
    read = context.Value("q", 0)
    with (
        ProcessPoolExecutor(min(workers, len(todo)), context, _start_worker, (read,)) as executor,
        tqdm(total=total, delay=1, unit="B", unit_scale=True, desc=f"{len(todo)} dumps") as bar,
    ):
        # The largest first: one that starts last would be waited for alone.
        todo.sort(key=lambda pair: -pair[0].stat().st_size)
        waiting = {executor.submit(_read_in_worker, dump, output) for dump, output in todo}
        try:
            while waiting:
                done, waiting = wait(waiting, timeout=0.2, return_when=FIRST_COMPLETED)
                bar.update(read.value - bar.n)
                for future in done:
                    broken.join(future.result())
        finally:
            executor.shutdown(wait=True, cancel_futures=True)
    return len(dumps) - len(todo)


_bytes_read: Any  # of all workers together


def _start_worker(counter: Any) -> None:
    global _bytes_read
    _bytes_read = counter


def _read_in_worker(dump: Path, output: Path) -> BrokenLines:
    def progress(count: int) -> None:
        with _bytes_read.get_lock():
            _bytes_read.value += count

    broken = BrokenLines()
    write_comments(dump, output, broken, progress)
    return broken
