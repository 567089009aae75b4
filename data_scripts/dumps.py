"""Reads text files of any compression line by line, and Pushshift dumps of Reddit comments into Parquet.

Memory of each process that reads is bounded by a few times `BATCH_BYTES` of text, whatever the file's size, plus the
file's longest line and, for Zstandard, its window (2 GiB for Pushshift's).
"""

import bz2
import codecs
import gzip
import hashlib
import json
import lzma
import multiprocessing
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.parquet as pq
import zstandard
from tqdm import tqdm

from data_scripts.errors import InputError
from data_scripts.filters import measure, measure_column

# Suffix -> the command that unpacks what can still be read of a damaged file.
UNPACK = {".bz2": "bzip2 -dc", ".zst": "zstd -dc --long=31", ".xz": "xz -dc", ".gz": "gzip -dc"}
NEWLINE = b"\n"
CHUNK_BYTES = 1 << 17
BATCH_BYTES = 1 << 25
EXAMPLES = 5  # broken lines shown of each kind
MADE_FROM = "convsim.made_from"  # in the metadata of a file of comments
WORTH_WORKERS = 1 << 24  # bytes of dumps: to start a process takes as long as to read a few MB
FORMAT = 1  # raised when what is read from a dump changes, so that files of comments are made anew

DUMP_FORMS = (".jsonl", ".ndjson")
COMMENT_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("id", "parent_id", "link_id", "author", "body", "subreddit")]
    + [("created_utc", pa.int64()), ("characters", pa.int32()), ("alphabetic", pa.int32())]
)
TEXT_FIELDS = COMMENT_SCHEMA.names[:6]


class BrokenLines:
    """Counts the lines that were left out, by kind, and remembers where the first of each kind were."""

    def __init__(self, counts: dict[str, int] | None = None, first: dict[str, list[str]] | None = None) -> None:
        self.counts: Counter[str] = Counter(counts or {})
        self.first: dict[str, list[str]] = dict(first or {})

    @property
    def examples(self) -> list[str]:
        """The first lines of each kind, with their places and what is wrong with them."""
        return [example for examples in self.first.values() for example in examples]

    def add(self, kind: str, place: str, detail: str = "") -> None:
        """Count one line of a kind; `place` is its file:line, `detail` says what is wrong with this one."""
        self.counts[kind] += 1
        if self.counts[kind] <= EXAMPLES:
            self.first.setdefault(kind, []).append(f"{place}: {kind}" + (f" ({detail})" if detail else ""))

    def join(self, other: "BrokenLines") -> None:
        """Add what another has counted; its examples come after those that are here."""
        self.counts += other.counts
        for kind, examples in other.first.items():
            self.first[kind] = [*self.first.get(kind, []), *examples][:EXAMPLES]


class BrokenLineError(Exception):
    """What is wrong with a line: (kind, detail)."""


def _zstd_chunks(raw: BinaryIO) -> Iterator[bytes]:
    # Not zstandard's stream_reader: it takes the end of a truncated file for the end of the data.
    decompressor = zstandard.ZstdDecompressor(max_window_size=2**31)
    frame = None
    while chunk := raw.read(CHUNK_BYTES):
        while chunk:
            frame = frame or decompressor.decompressobj()
            yield frame.decompress(chunk)
            chunk = frame.unused_data
            if frame.eof:
                frame = None
    if frame is not None:
        raise EOFError


def _chunks(raw: BinaryIO, suffix: str) -> Iterator[bytes]:
    if suffix == ".zst":
        yield from _zstd_chunks(raw)
        return
    openers: dict[str, Any] = {
        ".bz2": bz2.BZ2File,
        ".xz": lzma.LZMAFile,
        ".gz": lambda file: gzip.GzipFile(fileobj=file),
    }
    stream = openers.get(suffix, lambda file: file)(raw)
    while chunk := stream.read(CHUNK_BYTES):
        yield chunk


def check_file(path: Path, forms: tuple[str, ...]) -> None:
    """Refuse what cannot be an input before any is read: a long run should not fail on its last file's name.

    Args:
        path: a file whose name ends in one of `forms` or in `.bz2`, `.zst`, `.xz` or `.gz`.
        forms: the endings that an uncompressed file may have, such as `.jsonl`.

    Raises:
        InputError: the file is missing, empty or of an unknown ending.
    """
    if path.suffix not in (*forms, *UNPACK):
        raise InputError(f"{path}: unknown kind of file; expected a name that ends in {', '.join([*forms, *UNPACK])}")
    if path.with_suffix("").suffix == ".tar":
        raise InputError(f"{path}: an archive of several files; unpack it and name the files in it")
    try:
        with path.open("rb") as file:
            empty = not file.read(1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    if empty:
        raise InputError(f"{path}: the file is empty; download it again or leave it out")


def read_blocks(
    path: Path, forms: tuple[str, ...], progress: Callable[[int], object] | None = None
) -> Iterator[tuple[int, bytes]]:
    """Yield (number of the first line, whole lines) of a text file in blocks of about `BATCH_BYTES`.

    Args:
        path, forms: as for `check_file`; the last suffix says how the file is compressed.
        progress: told the number of bytes read from the file, as they are read; by default a bar shows them.

    Raises:
        InputError: as for `check_file`; or the file is not what its suffix says, or truncated.
    """
    check_file(path, forms)
    suffix = path.suffix if path.suffix in UNPACK else ""
    number, rest, searched = 1, bytearray(), 0
    shown = tqdm(
        total=path.stat().st_size, delay=1, unit="B", unit_scale=True, desc=path.name, disable=progress is not None
    )
    progress, at = progress or shown.update, 0
    with path.open("rb") as raw, shown:
        try:
            for chunk in _chunks(raw, suffix):
                progress(raw.tell() - at)
                at = raw.tell()
                rest += chunk
                while len(rest) >= BATCH_BYTES:
                    # Searching a very long line again at every chunk would take quadratic time.
                    end = rest.find(b"\n", max(BATCH_BYTES - 1, searched)) + 1
                    searched = 0 if end else len(rest)
                    if not end:
                        break
                    block = bytes(memoryview(rest)[:end])
                    del rest[:end]
                    yield number, block.removeprefix(codecs.BOM_UTF8) if number == 1 else block
                    number += block.count(b"\n")
        except EOFError as error:
            whole = number - 1 + rest.count(NEWLINE)
            raise InputError(
                f"{path}: the archive is truncated, after {whole:,} whole lines; download it again, or unpack what is "
                f"there (`{UNPACK[suffix]} {path.name} > {path.stem}.part`, ending as the content is: .jsonl, .tsv) "
                "and give that file"
            ) from error
        except (OSError, lzma.LZMAError, zlib.error, zstandard.ZstdError) as error:
            whole = number - 1 + rest.count(NEWLINE)
            raise InputError(
                f"{path}: not a readable {suffix or 'plain'} file, after {whole:,} whole lines ({error}); "
                "check that its ending says what it is, or download it again"
            ) from error
        if rest:
            yield number, bytes(rest).removeprefix(codecs.BOM_UTF8) if number == 1 else bytes(rest)


def read_lines(path: Path, forms: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Yield (file:line, the line's bytes without its end) of a text file; see `read_blocks`."""
    for number, block in read_blocks(path, forms):
        yield from _lines(path, number, block)


def _lines(path: Path, number: int, block: bytes) -> Iterator[tuple[str, bytes]]:
    lines = block.split(NEWLINE)
    if not lines[-1]:
        lines.pop()
    for place, line in enumerate(lines, start=number):
        yield f"{path}:{place}", line


class BatchWriter:
    """Writes rows to a Parquet file in row groups of about `BATCH_BYTES` of text, so that memory stays bounded."""

    def __init__(self, file: pq.ParquetWriter, schema: pa.Schema) -> None:
        self.file, self.schema = file, schema
        self.rows: list[tuple] = []
        self.added = self.bytes = 0

    def add(self, row: tuple, size: int) -> None:
        """Add one row, values in the order of the schema, that was read from `size` bytes."""
        self.rows.append(row)
        self.added += 1
        self.bytes += size
        if self.bytes >= BATCH_BYTES:
            self.flush()

    def add_table(self, table: pa.Table) -> None:
        """Add rows that are a table already, as a row group of their own."""
        self.flush()
        self.file.write_table(table, row_group_size=max(len(table), 1))
        self.added += len(table)

    def flush(self) -> None:
        """Write the rows held as one row group."""
        if self.rows:
            columns = zip(*self.rows, strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
            self.file.write_table(pa.Table.from_arrays(arrays, schema=self.schema))
        self.rows, self.bytes = [], 0


@contextmanager
def parquet_writer(output: Path, schema: pa.Schema) -> Iterator[BatchWriter]:
    """Open a Parquet file for rows; it takes its name only when it is whole."""
    partial = output.with_name(f"{output.name}.partial")
    try:
        with pq.ParquetWriter(partial, schema, compression="zstd") as file:
            writer = BatchWriter(file, schema)
            yield writer
            writer.flush()
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)


def decode(line: bytes) -> str:
    """The text of a line; raises BrokenLineError where its bytes are not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BrokenLineError("not UTF-8", f"byte 0x{line[error.start]:02x} at {error.start + 1}") from error


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
            for place, line in _lines(dump, number, block):
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
