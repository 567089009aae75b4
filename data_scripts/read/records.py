"""Reads tables and JSON of any form record by record, each with its place, for `chat_logs`.

Memory does not grow with the file. It holds a block of lines (`files.BATCH_BYTES`), a thousand rows of a Parquet file
or one element of a JSON array; of a .json file that is one object and no Discord export, the whole of it.
"""

import codecs
import csv
import io
import json
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import ijson
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from data_scripts.errors import InputError
from data_scripts.read.files import (
    BATCH_BYTES,
    UNPACK,
    UNREADABLE,
    BrokenLineError,
    BrokenLines,
    check_file,
    decode,
    read_lines,
    unpacked,
)

JSON_LINES = (".jsonl", ".ndjson")
FORMS = (".tsv", ".csv", *JSON_LINES, ".json", ".parquet")
PARQUET_ROWS = 1_000
DISCORD_HEADER = {"guild", "channel"}  # come before the messages in an export of DiscordChatExporter

Record = dict[str, Any]
Rows = Iterator[tuple[str, Record]]


@dataclass
class Records:
    """The records of a file.

    Attributes:
        place: where the columns were found.
        columns: their names; of JSON, those of the first record, which others need not have.
        complete: whether `columns` are those of every record.
        rows: gives every record with its place, once; it is told which columns are needed, and may leave out others.
    """

    place: str
    columns: list[str]
    complete: bool
    rows: Callable[[set[str]], Rows]


def form_of(path: Path) -> str:
    """The ending that says what is in a file, compressed or not: one of `FORMS`, or `.tar`."""
    return (path.with_suffix("") if path.suffix in UNPACK else path).suffix


def check_records(path: Path) -> None:
    """Refuse what cannot be an input before any is read.

    Raises:
        InputError: the file is missing, empty or of an unknown ending.
    """
    if form_of(path) == ".tar":
        if not path.is_file():
            raise InputError(f"{path}: cannot be read (no such file); check the path")
        return
    check_file(path, FORMS)
    if form_of(path) not in FORMS:
        raise InputError(
            f"{path}: its name does not say what is in it; expected one such as {path.stem}{FORMS[0]}{path.suffix} "
            f"({', '.join(FORMS)})"
        )


def read_records(path: Path, broken: BrokenLines) -> Records:
    """The records of a file; lines that are none are counted in `broken` and left out.

    Raises:
        InputError: the file cannot be read to its end, or holds no record. Where that shows late, `rows` raises it.
    """
    form = form_of(path)
    if form == ".parquet":
        return _parquet(path)
    if form in (".tsv", ".csv"):
        lines = _tsv_lines(path, broken) if form == ".tsv" else _csv_lines(path, broken)
        place, columns = next(lines, ("", []))
        if columns:
            return Records(place, columns, True, lambda wanted: _named(lines, columns, broken))
    else:
        rows = _json_lines(path, broken) if form in JSON_LINES else _JSON_READERS[form](path, broken)
        first = next(rows, None)
        if first:
            return Records(first[0], list(first[1]), False, lambda wanted: chain([first], rows))
    raise InputError("; ".join([f"{path}: no message and no pair in it", *broken.examples[:1]]))


def _named(lines: Iterator[tuple[str, list[str]]], columns: list[str], broken: BrokenLines) -> Rows:
    for place, fields in lines:
        if len(fields) == len(columns):
            yield place, dict(zip(columns, fields, strict=True))
        else:
            broken.add("wrong number of fields", place, f"expected {len(columns)}, found {len(fields)}")


def _tsv_lines(path: Path, broken: BrokenLines) -> Iterator[tuple[str, list[str]]]:
    for place, line in read_lines(path, FORMS):
        try:
            yield place, decode(line.removesuffix(b"\r")).split("\t")
        except BrokenLineError as error:
            broken.add(error.args[0], place, error.args[1])


def _csv_lines(path: Path, broken: BrokenLines) -> Iterator[tuple[str, list[str]]]:
    read = 0

    def lines() -> Iterator[str]:
        nonlocal read
        for _, line in read_lines(path, FORMS):
            read += 1
            yield line.decode("utf-8", "surrogateescape") + "\n"

    # A field holds at most csv.field_size_limit() characters (131,072): a quote that is never closed is found by it.
    reader = csv.reader(lines(), strict=True)
    while True:
        place = f"{path}:{read + 1}"
        try:
            fields = next(reader, None)
            if fields is None:
                return
            "".join(fields).encode()
        except csv.Error as error:
            until = f", read to line {read}" if f"{path}:{read}" != place else ""
            broken.add("not CSV", place, f"{error}{until}")
            continue
        except UnicodeEncodeError as error:
            broken.add("not UTF-8", place, f"byte 0x{ord(error.object[error.start]) - 0xDC00:02x}")
            continue
        if fields:  # a blank line is no record
            yield place, fields


def _parquet(path: Path) -> Records:
    try:
        file = pq.ParquetFile(path)
    except (OSError, pa.ArrowInvalid) as error:
        raise InputError(f"{path}: not a readable Parquet file ({error})") from error

    def rows(wanted: set[str]) -> Rows:
        row, columns = 0, [name for name in file.schema_arrow.names if name in wanted]
        try:
            with tqdm(total=file.metadata.num_rows, delay=1, unit="row", unit_scale=True, desc=path.name) as bar:
                for batch in file.iter_batches(batch_size=PARQUET_ROWS, columns=columns):
                    for record in batch.to_pylist():
                        row += 1
                        yield f"{path}: row {row}", record
                    bar.update(len(batch))
        except (OSError, pa.ArrowException) as error:
            raise InputError(f"{path}: not readable after {row:,} rows ({error}); download it again") from error

    return Records(str(path), file.schema_arrow.names, True, rows)


def _json_object(line: bytes) -> Record:
    try:
        value = json.loads(decode(line))
    except (ValueError, RecursionError) as error:
        raise BrokenLineError("not JSON", str(error)) from error
    if not isinstance(value, dict):
        raise BrokenLineError("not a JSON object", f"found {type(value).__name__}")
    return value


def _objects(lines: Iterator[tuple[str, bytes]], broken: BrokenLines) -> Rows:
    for place, line in lines:
        try:
            if line.strip():
                yield place, _json_object(line)
        except BrokenLineError as error:
            broken.add(error.args[0], place, error.args[1])


def _json_lines(path: Path, broken: BrokenLines) -> Rows:
    return _objects(read_lines(path, FORMS), broken)


def _json_file(path: Path, broken: BrokenLines) -> Rows:
    """Of a .json file: the elements of an array, or objects one a line, or the one object that it is."""
    with _opened(path) as (_, stream):
        array = stream.peek(1).lstrip()[:1] == b"["
        line = b"" if array else stream.readline(BATCH_BYTES)
    if array:
        number = 0
        for number, record in enumerate(_elements(path, "item"), start=1):
            if isinstance(record, dict):
                yield f"{path}: record {number}", record
            else:
                broken.add("not a JSON object", f"{path}: record {number}", f"found {type(record).__name__}")
        return
    try:
        _json_object(line)
    except BrokenLineError:
        yield str(path), _document(path)
    else:
        yield from _json_lines(path, broken)


def _document(path: Path) -> Record:
    """The object that a .json file is; of a Discord export the messages are read as they are asked for."""
    document: Record = {}
    try:
        with _opened(path) as (_, stream):
            for key, value in ijson.kvitems(stream, ""):
                document[key] = value
                if document.keys() >= DISCORD_HEADER:
                    return document | {"messages": _elements(path, "messages.item")}
    except ijson.JSONError as error:
        raise InputError(
            f"{path}: neither one JSON value nor JSON lines ({_reason(error)}); a file of JSON lines with broken ones "
            "among them is read where its name ends in .jsonl"
        ) from error
    return document


def _elements(path: Path, prefix: str) -> Iterator[Any]:
    """The values at an ijson prefix of a JSON file."""
    number = 0
    try:
        with (
            _opened(path) as (raw, stream),
            tqdm(total=path.stat().st_size, delay=1, unit="B", unit_scale=True, desc=path.name) as bar,
        ):
            for value in ijson.items(stream, prefix):
                bar.update(raw.tell() - bar.n)
                number += 1
                yield value
    except ijson.JSONError as error:
        raise InputError(
            f"{path}: not JSON, after {number:,} whole records ({_reason(error)}); export or download it again"
        ) from error


def _reason(error: ijson.JSONError) -> str:
    text = error.args[0] if error.args else ""
    return (text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text)).partition("\n")[0]


@contextmanager
def _opened(path: Path) -> Iterator[tuple[BinaryIO, io.BufferedReader]]:
    """A file as it is, for its position, and the stream of what is in it."""
    try:
        with path.open("rb") as raw, io.BufferedReader(unpacked(raw, path.suffix)) as stream:
            if stream.peek(3).startswith(codecs.BOM_UTF8):
                stream.read(3)
            yield raw, stream
    except (EOFError, *UNREADABLE) as error:
        raise InputError(f"{path}: not readable to its end ({error}); download it again") from error


def _tar(path: Path, broken: BrokenLines) -> Rows:
    """The JSON lines of every .json or .jsonl file in a tar archive."""

    def lines() -> Iterator[tuple[str, bytes]]:
        with tarfile.open(path, "r|*") as archive, tqdm(delay=1, unit="file", desc=path.name) as bar:
            for member in archive:
                bar.update()
                file = archive.extractfile(member)
                if file is None:  # a folder or a link
                    continue
                if Path(member.name).suffix not in (*JSON_LINES, ".json"):
                    broken.add("file that is not .jsonl or .json", f"{path}/{member.name}")
                    continue
                for number, line in enumerate(file, start=1):
                    yield f"{path}/{member.name}:{number}", line

    try:
        yield from _objects(lines(), broken)
    except (tarfile.TarError, EOFError, *UNREADABLE) as error:
        raise InputError(f"{path}: not readable to its end as a tar archive ({error}); download it again") from error


_JSON_READERS = {".json": _json_file, ".tar": _tar}
