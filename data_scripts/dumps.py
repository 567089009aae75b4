"""Reads text files of any compression line by line, and Pushshift dumps of Reddit comments into Parquet.

Memory is bounded by `BATCH_BYTES` of text, whatever the file's size, plus the file's longest line and, for Zstandard,
its window (2 GiB for Pushshift's).
"""

import bz2
import codecs
import gzip
import json
import lzma
import zlib
from collections import Counter
from collections.abc import Iterator
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

DUMP_FORMS = (".jsonl", ".ndjson")
COMMENT_SCHEMA = pa.schema(
    [(name, pa.string()) for name in ("id", "parent_id", "link_id", "author", "body", "subreddit")]
    + [("created_utc", pa.int64()), ("characters", pa.int32()), ("alphabetic", pa.int32())]
)
TEXT_FIELDS = COMMENT_SCHEMA.names[:6]


class BrokenLines:
    """Counts the lines that were left out, by kind, and remembers where the first of each kind were."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.examples: list[str] = []

    def add(self, kind: str, place: str, detail: str = "") -> None:
        """Count one line of a kind; `place` is its file:line, `detail` says what is wrong with this one."""
        self.counts[kind] += 1
        if self.counts[kind] <= EXAMPLES:
            self.examples.append(f"{place}: {kind}" + (f" ({detail})" if detail else ""))


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


def read_blocks(path: Path, forms: tuple[str, ...]) -> Iterator[tuple[int, bytes]]:
    """Yield (number of the first line, whole lines) of a text file in blocks of about `BATCH_BYTES`, showing progress.

    Args:
        path, forms: as for `check_file`; the last suffix says how the file is compressed.

    Raises:
        InputError: as for `check_file`; or the file is not what its suffix says, or truncated.
    """
    check_file(path, forms)
    suffix = path.suffix if path.suffix in UNPACK else ""
    number, rest, searched = 1, bytearray(), 0
    with (
        path.open("rb") as raw,
        tqdm(total=path.stat().st_size, delay=1, unit="B", unit_scale=True, desc=path.name) as bar,
    ):
        try:
            for chunk in _chunks(raw, suffix):
                bar.update(raw.tell() - bar.n)
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


def write_comments(dump: Path, output: Path, broken: BrokenLines) -> int:
    """Turn a dump into Parquet with the columns of `COMMENT_SCHEMA`; returns its number of comments.

    `body` is HTML-unescaped, `characters` its length in Unicode characters, `alphabetic` how many of them are letters.
    Lines that are not a comment are counted in `broken` and left out.

    Raises:
        InputError: the dump cannot be read to its end (see `read_lines`), or holds no comment at all.
    """
    shown, parser = len(broken.examples), _BlockParser()
    with parquet_writer(output, COMMENT_SCHEMA) as writer:
        for number, block in read_blocks(dump, DUMP_FORMS):
            table = parser.parse(block)
            if table is not None:
                writer.add_table(table)
                continue
            for place, line in _lines(dump, number, block):
                try:
                    writer.add(_comment(line), len(line))
                except BrokenLineError as error:
                    broken.add(error.args[0], place, error.args[1])
        if not writer.added:
            wrong = "; ".join(["", *broken.examples[shown : shown + 1]])
            raise InputError(f"{dump}: no comment in it; expected Pushshift's JSON lines of comments{wrong}")
    return writer.added
