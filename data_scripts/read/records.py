"""Reads the records of tables and JSON files, each with its location.

Memory does not grow with the file. It holds a block of lines (`files.BLOCK_BYTES`), a thousand rows of a Parquet file
or one element of a JSON array. A .json file that is one object is held completely, except for its `streamed` list.
"""

import codecs
import csv
import io
import json
import tarfile
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import IO, Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from data_scripts.errors import InputError
from data_scripts.read.files import (
    CONVERT,
    MAX_LINE_BYTES,
    UNPACK,
    UNREADABLE,
    BrokenLineError,
    BrokenLines,
    check_file,
    decode,
    line_too_long,
    read_lines,
    unpacked,
)
from data_scripts.read.json_streams import NotJsonError, array_elements, object_fields
from data_scripts.read.layouts import UTF8, TextLayout
from data_scripts.read.parquet_files import UNREADABLE as UNREADABLE_PARQUET
from data_scripts.read.parquet_files import ParquetSizeError, bounded_batches
from data_scripts.read.storage import open_stream

JSON_LINES = (".jsonl", ".ndjson")
DELIMITED = (".tsv", ".csv", ".txt")
FORMS = (*DELIMITED, *JSON_LINES, ".json", ".parquet")
CSV_LINES = 1_000  # of a record; a longer one has a quote that is not closed
LISTS = "JSON list"  # the column of lists that are not fields of an object
FIRST_LINE_BYTES = 1 << 25  # of a .json file, read to check whether its first line is an object

Record = dict[str, Any]
Rows = Iterator[tuple[str, Record]]  # (location, record)
Streamed = Collection[tuple[str, frozenset[str]]]  # (list in a .json file that is one object, the fields before it)


@dataclass
class Records:
    """The records of a file.

    Attributes:
        location: where the columns were found.
        columns: their names; for JSON, those of the first record, which the others need not have.
        complete: whether each record has these columns.
        rows: yields the records with their locations, once; its argument are the columns that are needed, and it may
            leave out others.
    """

    location: str
    columns: list[str]
    complete: bool
    rows: Callable[[set[str]], Rows]


def form_of(path: Path) -> str:
    """The suffix of a file's format, without that of its compression: one of `FORMS`, `.tar`, or another."""
    return (path.with_suffix("") if path.suffix in UNPACK else path).suffix


def check_records(path: Path, forms: tuple[str, ...] = FORMS) -> None:
    """Reject an invalid input before anything is read.

    Args:
        path: the input.
        forms: the suffixes that it may have, such as `FORMS` and those of other formats.

    Raises:
        InputError: the file is missing, empty or has an unknown suffix.
    """
    if form_of(path) == ".tar":
        if not path.is_file():
            raise InputError(f"{path}: cannot be read (no such file); check the path")
        return
    check_file(path, forms)
    if form_of(path) not in forms:
        raise InputError(
            f"{path}: its name has no suffix of a format; expected a name such as {path.stem}{FORMS[0]}{path.suffix} "
            f"({', '.join(FORMS)})"
        )


def read_records(path: Path, broken: BrokenLines, streamed: Streamed = (), layout: TextLayout | None = None) -> Records:
    """The records of a file; lines that cannot be read are counted in `broken` and left out.

    Args:
        path: a file with one of the suffixes in `FORMS`, or `.tar`; text may be compressed.
        broken: counts the lines that cannot be read.
        streamed: lists whose elements are read as they are needed, if a .json file is one object with such a list
            after the named fields; `a.b` is the list b in the object a.
        layout: the encoding and the delimiter of a text file; by default UTF-8 with commas, or tabs in a .tsv.

    Raises:
        InputError: the file cannot be read to its end, or contains no record. `rows` may raise it too.
    """
    form = form_of(path)
    if form == ".parquet":
        return _parquet(path, broken)
    if form in DELIMITED:
        has_tabs = form == ".tsv" and (layout is None or layout.delimiter == "\t")  # without quoting
        layout = layout or TextLayout()
        lines = (_tsv_lines if has_tabs else _csv_lines)(path, broken, layout)
        location, columns = next(lines, ("", []))
        if columns:
            return Records(location, columns, True, lambda columns_needed: _name_fields(lines, columns, broken))
    else:
        rows = _json_rows(path, broken, streamed, layout.encoding if layout else UTF8)
        first = next(rows, None)
        if first:
            return Records(first[0], list(first[1]), False, lambda columns_needed: chain([first], rows))
    raise InputError("; ".join([f"{path}: contains no message and no pair", *broken.examples[:1]]))


def _json_rows(path: Path, broken: BrokenLines, streamed: Streamed, encoding: str) -> Rows:
    form = form_of(path)
    if form in JSON_LINES:
        return _json_lines(path, broken, encoding)
    return _tar(path, broken) if form == ".tar" else _json_file(path, broken, streamed, encoding)


def _name_fields(lines: Iterator[tuple[str, list[str]]], columns: list[str], broken: BrokenLines) -> Rows:
    for location, fields in lines:
        if len(fields) == len(columns):
            yield location, dict(zip(columns, fields, strict=True))
        else:
            broken.add("wrong number of fields", location, f"expected {len(columns)}, found {len(fields)}")


def _tsv_lines(path: Path, broken: BrokenLines, layout: TextLayout) -> Iterator[tuple[str, list[str]]]:
    for number, (location, line) in enumerate(read_lines(path, FORMS, layout.encoding)):
        try:
            yield location, decode(line.removesuffix(b"\r")).split("\t")
        except BrokenLineError as error:
            if not number:
                raise _not_utf8(location, error.args[1]) from error
            broken.add(error.args[0], location, error.args[1])


def _csv_lines(path: Path, broken: BrokenLines, layout: TextLayout) -> Iterator[tuple[str, list[str]]]:
    """The fields of each record; if a quote is not closed, only the line in which it opens is left out."""
    unread = read_lines(path, FORMS, layout.encoding)
    again: deque[tuple[str, bytes]] = deque()
    record: list[tuple[str, bytes]] = []  # the lines of the record that is read

    def lines() -> Iterator[str]:
        while line := again.popleft() if again else next(unread, None):
            record.append(line)
            if len(record) > CSV_LINES:
                raise csv.Error(f"a record of more than {CSV_LINES:,} lines")
            yield line[1].decode("utf-8", "surrogateescape") + "\n"

    def fields_of_lines() -> Any:
        # A field has at most csv.field_size_limit() characters (131,072).
        doubled = layout.escape is None
        return csv.reader(
            lines(), delimiter=layout.delimiter, escapechar=layout.escape, doublequote=doubled, strict=True
        )

    reader, width = fields_of_lines(), 0
    while True:
        record.clear()
        try:
            fields = next(reader, None)
            if fields is None:
                return
            if width and len(fields) != width and len(record) > 1:
                raise csv.Error(f"{len(fields)} fields, expected {width}")
            "".join(fields).encode()
        except csv.Error as error:
            opens = len(record) > 1 or (b'"' in record[0][1] and "field limit" in str(error))
            reason = f"{error}; a quote opens here that is not closed" if opens else str(error)
            if not width:
                raise InputError(f"{record[0][0]}: not CSV ({reason}); correct this line") from error
            broken.add("not CSV", record[0][0], reason)
            again.extendleft(reversed(record[1:]))
            reader = fields_of_lines()
            continue
        except UnicodeEncodeError as error:
            byte = f"byte 0x{ord(error.object[error.start]) - 0xDC00:02x}"
            if not width:
                raise _not_utf8(record[0][0], byte) from error
            broken.add("not UTF-8", record[0][0], byte)
            continue
        if fields:  # a blank line is not a record
            width = width or len(fields)
            yield record[0][0], fields


def _not_utf8(location: str, byte: str) -> InputError:
    return InputError(f"{location}: the names of the columns are not UTF-8 ({byte}); {CONVERT}")


def _parquet(path: Path, broken: BrokenLines) -> Records:
    try:
        with pq.ParquetFile(path) as file:
            names, number = file.schema_arrow.names, file.metadata.num_rows
    except UNREADABLE_PARQUET as error:
        raise InputError(f"{path}: not a readable Parquet file ({error}); download it again") from error

    def rows(columns_needed: set[str]) -> Rows:
        row, columns = 0, [name for name in names if name in columns_needed]
        try:
            with tqdm(total=number, delay=1, unit="row", unit_scale=True, desc=path.name) as bar:
                for batch in bounded_batches(path, columns):
                    yield from _batch_records(batch, path, row, broken)
                    row += len(batch)
                    bar.update(len(batch))
        except ParquetSizeError as error:
            raise InputError(str(error)) from error
        except UNREADABLE_PARQUET as error:
            raise InputError(f"{path}: not readable after {row:,} rows ({error}); download it again") from error

    return Records(str(path), names, True, rows)


def _batch_records(batch: pa.RecordBatch, path: Path, before: int, broken: BrokenLines) -> Rows:
    """The records of a batch that follows `before` rows; rows with a value that Python cannot represent are counted."""
    try:
        records = batch.to_pylist()
    except (ValueError, OverflowError):  # not UTF-8, or a time after the year 9999
        for row in range(len(batch)):
            location = f"{path}: row {before + row + 1}"
            try:
                yield location, batch.slice(row, 1).to_pylist()[0]
            except (ValueError, OverflowError) as error:
                broken.add("not UTF-8" if isinstance(error, UnicodeError) else "wrong value", location, str(error))
        return
    for row, record in enumerate(records, start=before + 1):
        yield f"{path}: row {row}", record


def _json_value(line: bytes) -> Any:
    try:
        return json.loads(decode(line))
    except (ValueError, RecursionError) as error:
        raise BrokenLineError("not JSON", str(error)) from error


def _json_values(lines: Iterator[tuple[str, bytes]], broken: BrokenLines) -> Iterator[tuple[str, Any]]:
    for location, line in lines:
        try:
            if line.strip():
                yield location, _json_value(line)
        except BrokenLineError as error:
            broken.add(error.args[0], location, error.args[1])


def _json_records(values: Iterator[tuple[str, Any]], broken: BrokenLines) -> Rows:
    """JSON objects; or, if the first value is a list of texts or objects, lists: the column `LISTS`."""
    has_lists: bool | None = None
    for location, value in values:
        if has_lists is None:
            has_lists = isinstance(value, list) and all(isinstance(each, str | dict) for each in value)
        if has_lists and isinstance(value, list):
            yield location, {LISTS: value}
        elif not has_lists and isinstance(value, dict):
            yield location, value
        else:
            expected = "list" if has_lists else "object"
            broken.add(f"not a JSON {expected}", location, f"found {type(value).__name__}")


def _json_lines(path: Path, broken: BrokenLines, encoding: str) -> Rows:
    return _json_records(_json_values(read_lines(path, FORMS, encoding), broken), broken)


def _json_file(path: Path, broken: BrokenLines, streamed: Streamed, encoding: str) -> Rows:
    """The records of a .json file: the elements of an array, the objects on its lines, or the one object that it is."""
    with _opened(path, encoding) as (_, stream):
        array = stream.peek(1).lstrip()[:1] == b"["
        line = b"" if array else stream.readline(FIRST_LINE_BYTES)
    if array:
        elements = enumerate(_elements(path, encoding), start=1)
        yield from _json_records(((f"{path}: record {number}", value) for number, value in elements), broken)
    elif _is_object(line):
        yield from _json_lines(path, broken, encoding)
    else:
        yield str(path), _document(path, streamed, encoding)


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(_json_value(line), dict)
    except BrokenLineError:
        return False


def _document(path: Path, streamed: Streamed, encoding: str) -> Record:
    """The object that a .json file is; the elements of a `streamed` list are read as they are needed."""
    document: Record = {}

    def streamed_list(name: str) -> str:
        lists = (key for key, before in streamed if key.partition(".")[0] == name and document.keys() >= before)
        return next(lists, "")

    try:
        with _opened(path, encoding) as (_, stream):
            for name, value in object_fields(stream, str(path), lambda name: bool(streamed_list(name))):
                if key := streamed_list(name):
                    return document | {key: _elements(path, encoding, key)}
                document[name] = value
    except NotJsonError as error:
        raise InputError(
            f"{path}: neither one JSON value nor JSON lines ({error}); if it is a file of JSON lines some of "
            "which are broken, let its name end in .jsonl"
        ) from error
    return document


def _elements(path: Path, encoding: str, key: str | None = None) -> Iterator[Any]:
    """The elements of the array that a JSON file is, or of the one in a field of the object that it is."""
    number = 0
    try:
        with (
            _opened(path, encoding) as (raw, stream),
            tqdm(total=path.stat().st_size, delay=1, unit="B", unit_scale=True, desc=path.name) as bar,
        ):
            for value in array_elements(stream, str(path), key):
                number += 1
                bar.update(raw.tell() - bar.n)
                yield value
    except NotJsonError as error:
        raise InputError(
            f"{path}: not JSON, after {number:,} complete records ({error}); export or download it again"
        ) from error


@contextmanager
def _opened(path: Path, encoding: str) -> Iterator[tuple[BinaryIO, io.BufferedReader]]:
    """The raw file, for its position, and the stream of its decompressed content."""
    try:
        with open_stream(path) as raw, io.BufferedReader(unpacked(raw, path.suffix, encoding)) as stream:
            if stream.peek(3).startswith(codecs.BOM_UTF8):
                stream.read(3)
            yield raw, stream
    except (EOFError, *UNREADABLE) as error:
        raise InputError(f"{path}: not readable to its end ({error}); download it again") from error


def member_lines(file: IO[bytes], name: str) -> Iterator[tuple[str, bytes]]:
    """Yield (location, line) of a file in an archive."""
    number = 0
    while line := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise line_too_long(f"{name}:{number}")
        yield f"{name}:{number}", line


def _tar(path: Path, broken: BrokenLines) -> Rows:
    """The JSON lines of every .json or .jsonl file in a tar archive."""

    def lines() -> Iterator[tuple[str, bytes]]:
        with tarfile.open(path, "r|*") as archive, tqdm(delay=1, unit="file", desc=path.name) as bar:
            for member in archive:
                bar.update()
                if not member.isfile():
                    if not member.isdir():  # what a link names may be outside of the archive
                        broken.add("link or device", f"{path}/{member.name}", "unpack the archive to read it")
                    continue
                file = archive.extractfile(member)
                assert file is not None
                if Path(member.name).suffix not in (*JSON_LINES, ".json"):
                    broken.add("file that is not .jsonl or .json", f"{path}/{member.name}")
                    continue
                yield from member_lines(file, f"{path}/{member.name}")

    try:
        yield from _json_records(_json_values(lines(), broken), broken)
    except (tarfile.TarError, EOFError, *UNREADABLE) as error:
        raise InputError(f"{path}: not readable to its end as a tar archive ({error}); download it again") from error
