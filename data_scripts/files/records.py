"""Reads the records of tables and JSON files, each with its location.

A file is opened once for its beginning, from which its columns and first records are known, and once to read it.
Memory holds the beginning, and then a line, a batch of rows of a Parquet file or an element of a JSON array. A .json
file that is one object is held completely, except for its `streamed` list.
"""

from __future__ import annotations

import csv
import json
import tarfile
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tqdm import tqdm

from data_scripts.files.datasets import HubDataset
from data_scripts.files.documents import JsonReader, NotJsonError
from data_scripts.files.errors import InputError
from data_scripts.files.hub import hub_errors
from data_scripts.files.storage import check_unchanged, file_state
from data_scripts.files.texts import (
    CONVERT,
    UNPACK,
    UNREADABLE,
    UTF8,
    BrokenLineError,
    BrokenLines,
    TextFile,
    check_file,
    decode,
    numbered_lines,
)

if TYPE_CHECKING:
    from pyarrow import RecordBatch

JSON_LINES = (".jsonl", ".ndjson")
DELIMITED = (".tsv", ".csv", ".txt")
FORMS = (*DELIMITED, *JSON_LINES, ".json", ".parquet")
SAMPLE_RECORDS = 200
BATCH_ROWS = 1_000  # of a Parquet file that are held in memory
CSV_LINES = 1_000  # of a record; a longer one has a quote that is not closed
LISTS = "JSON list"  # the column of lists that are not fields of an object
HUB_HELP = (
    "a Hub id: OWNER/NAME, OWNER/NAME:CONFIG if it has several configurations, OWNER/NAME:PATTERN for some of its "
    "files (such as data/2006/*.parquet), each with @REVISION after it if needed"
)

Record = dict[str, Any]
Rows = Iterator[tuple[str, Record]]  # (location, record)
Streamed = Collection[tuple[str, frozenset[str]]]  # (list in a .json file that is one object, the fields before it)


@dataclass(frozen=True)
class Records:
    """The records of a file.

    Attributes:
        location: where the columns were found.
        columns: their names; for JSON, those of the first record, which the others need not have.
        complete: whether each record has these columns.
        sample: the first records, at most `SAMPLE_RECORDS`.
        rows: yields all records with their locations; its arguments are the columns that are needed (it may leave out
            others), and what counts the lines that cannot be read. A record with a list that is read as it is needed
            can be read once.
    """

    location: str
    columns: list[str]
    complete: bool
    sample: list[Record]
    rows: Callable[[Collection[str], BrokenLines], Rows]

    def expanded(
        self,
        columns: list[str],
        needed: Collection[str],
        rows_of: Callable[[str, Record, BrokenLines], Rows],
    ) -> Records:
        """The records that are within these.

        Args:
            columns: their columns, which all of them have.
            needed: the columns of these records that are read.
            rows_of: yields the records in a record with its location; counts what cannot be read.
        """

        def expand(rows: Iterable[tuple[str, Record]], broken: BrokenLines) -> Rows:
            return chain.from_iterable(rows_of(location, record, broken) for location, record in rows)

        sample = expand(((self.location, record) for record in self.sample), BrokenLines())
        first = [record for _, record in islice(sample, SAMPLE_RECORDS)]
        return Records(self.location, columns, True, first, lambda _, broken: expand(self.rows(needed, broken), broken))


def form_of(path: Path) -> str:
    """The suffix of a file's format, without that of its compression: one of `FORMS`, `.tar`, or another."""
    return (path.with_suffix("") if path.suffix in UNPACK else path).suffix.lower()


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


@dataclass(frozen=True)
class Columns:
    """How the columns of a text table are separated.

    Attributes:
        delimiter: the character between two columns.
        escape: the character before a quote within a text, if quotes are not doubled.
        quoted: whether a text may be quoted.
    """

    delimiter: str = ","
    escape: str | None = None
    quoted: bool = True


TABS = Columns("\t", quoted=False)


def read_records(
    path: Path, text: TextFile | None = None, separated: Columns | None = None, streamed: Streamed = ()
) -> Records:
    """The records of a file; `rows` counts and leaves out the lines that cannot be read.

    Args:
        path: a file with one of the suffixes in `FORMS`, or `.tar`; text may be compressed.
        text: its content, if it is text; by default UTF-8.
        separated: the columns of a text table; by default commas, or tabs without quoting in a .tsv.
        streamed: lists whose elements are read as they are needed, if a .json file is one object with such a list
            after the named fields; `a.b` is the list b in the object a.

    Raises:
        InputError: the file contains no record, or cannot be read. `rows` may raise it too.
    """
    form = form_of(path)
    if form == ".parquet":
        return _parquet(path)
    if form == ".tar":
        return _json_records_of(path, partial(_tar_values, path))
    text = text or TextFile.read(path)
    head = text if text.is_whole else _beginning(text)
    if form in DELIMITED:
        return _table(text, head, separated or (TABS if form == ".tsv" else Columns()))
    if form not in JSON_LINES:
        with head.open() as stream:
            is_array, first = stream.peek(1).lstrip()[:1] == b"[", stream.readline()
        if not is_array and not _is_object(first):
            return _document(text, streamed)
        values = _array_values if is_array else _line_values
    else:
        values = _line_values
    return _json_records_of(path, partial(values, text), None if text.is_whole else partial(values, head))


def _beginning(text: TextFile) -> TextFile:
    """The complete lines of the beginning of a longer text, as a text in UTF-8."""
    content = text.head.decode(text.encoding, "replace").encode() if text.encoding != UTF8 else text.head
    return TextFile(text.path, text.opened, content[: content.rfind(b"\n") + 1] or content, True)


def _no_records(path: Path, broken: BrokenLines) -> InputError:
    return InputError("; ".join([f"{path}: contains no record", *broken.examples[:1]]))


def _first(rows: Iterable[Any]) -> list[Any]:
    """The first elements, also if the file is damaged after them: who reads it to its end reports that."""
    first = []
    try:
        for row in islice(rows, SAMPLE_RECORDS):
            first.append(row)
    except InputError:
        if not first:
            raise
    return first


def _table(text: TextFile, head: TextFile, separated: Columns) -> Records:
    read = partial(_csv_lines, separated=separated) if separated.quoted else partial(_tsv_lines, separated=separated)
    broken = BrokenLines()
    lines = read(head, broken)
    location, columns = next(lines, ("", []))
    if not columns:
        deque(text.lines(), maxlen=0)  # raises an error if the file is damaged
        raise _no_records(text.path, broken)

    def rows(needed: Collection[str], broken: BrokenLines) -> Rows:
        return _name_fields(islice(read(text, broken), 1, None), columns, broken)

    sample = _first(_name_fields(lines, columns, broken))
    return Records(location, columns, True, [record for _, record in sample], rows)


def _name_fields(lines: Iterator[tuple[str, list[str]]], columns: list[str], broken: BrokenLines) -> Rows:
    for location, values in lines:
        if len(values) == len(columns):
            yield location, dict(zip(columns, values, strict=True))
        else:
            broken.add("wrong number of fields", location, f"expected {len(columns)}, found {len(values)}")


def _tsv_lines(text: TextFile, broken: BrokenLines, separated: Columns) -> Iterator[tuple[str, list[str]]]:
    for number, (location, line) in enumerate(text.lines()):
        try:
            if line.strip(b"\r"):  # a blank line is not a record
                yield location, decode(line.removesuffix(b"\r")).split(separated.delimiter)
        except BrokenLineError as error:
            if not number:
                raise _not_utf8(location, error.args[1]) from error
            broken.add(error.args[0], location, error.args[1])


def _csv_lines(text: TextFile, broken: BrokenLines, separated: Columns) -> Iterator[tuple[str, list[str]]]:
    """The fields of each record; if a quote is not closed, only the line in which it opens is left out."""
    unread = text.lines()
    again: deque[tuple[str, bytes]] = deque()
    record: list[tuple[str, bytes]] = []  # the lines of the record that is read

    def lines() -> Iterator[str]:
        while line := again.popleft() if again else next(unread, None):
            record.append(line)
            if len(record) > CSV_LINES:
                raise csv.Error(f"a record of more than {CSV_LINES:,} lines")
            yield line[1].decode("utf-8", "surrogateescape") + "\n"

    def new_reader() -> Any:
        # A field has at most csv.field_size_limit() characters (131,072).
        doubled, escape = separated.escape is None, separated.escape
        return csv.reader(lines(), delimiter=separated.delimiter, escapechar=escape, doublequote=doubled, strict=True)

    reader, width = new_reader(), 0
    while True:
        record.clear()
        try:
            values = next(reader, None)
            if values is None:
                return
            if width and len(values) != width and len(record) > 1:
                raise csv.Error(f"{len(values)} fields, expected {width}")
            "".join(values).encode()
        except csv.Error as error:
            opens = len(record) > 1 or (b'"' in record[0][1] and "field limit" in str(error))
            reason = f"{error}; a quote opens here that is not closed" if opens else str(error)
            if not width:
                raise InputError(f"{record[0][0]}: not CSV ({reason}); correct this line") from error
            broken.add("not CSV", record[0][0], reason)
            again.extendleft(reversed(record[1:]))
            reader = new_reader()
            continue
        except UnicodeEncodeError as error:
            byte = f"byte 0x{ord(error.object[error.start]) - 0xDC00:02x}"
            if not width:
                raise _not_utf8(record[0][0], byte) from error
            broken.add("not UTF-8", record[0][0], byte)
            continue
        if values:  # a blank line is not a record
            width = width or len(values)
            yield record[0][0], values


def _not_utf8(location: str, byte: str) -> InputError:
    return InputError(f"{location}: the names of the columns are not UTF-8 ({byte}); {CONVERT}")


def _parquet(path: Path) -> Records:
    # Imported here, so that texts are read without pyarrow.
    import pyarrow.parquet as pq

    from data_scripts.files.parquet import UNREADABLE

    state = file_state(path)

    def rows(needed: Collection[str], broken: BrokenLines) -> Rows:
        columns, row = [name for name in names if name in needed], 0
        try:
            with (
                pq.ParquetFile(path, page_checksum_verification=True) as file,
                tqdm(total=number, delay=1, unit="row", unit_scale=True, desc=path.name) as bar,
            ):
                for batch in file.iter_batches(BATCH_ROWS, columns=columns):
                    yield from _batch_records(batch, path, row, broken)
                    row += len(batch)
                    bar.update(len(batch))
        except UNREADABLE as error:
            raise InputError(f"{path}: not readable after {row:,} rows ({error}); download it again") from error
        check_unchanged(path, state)

    try:
        with pq.ParquetFile(path) as file:
            names, number = file.schema_arrow.names, file.metadata.num_rows
            batch = next(file.iter_batches(SAMPLE_RECORDS), None)
    except UNREADABLE as error:
        raise InputError(f"{path}: not a readable Parquet file ({error}); download it again") from error
    sample = [record for _, record in _batch_records(batch, path, 0, BrokenLines())] if batch else []
    return Records(str(path), names, True, sample, rows)


def _batch_records(batch: RecordBatch, path: Path, before: int, broken: BrokenLines) -> Rows:
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


def hub_records(source: str) -> Records:
    """The records of all splits of a dataset on the Hub, which are streamed."""
    dataset = HubDataset(source)
    columns = list(dataset.features)

    def rows(needed: Collection[str], broken: BrokenLines) -> Rows:
        streams = dataset.stream(name for name in columns if name in needed)
        for split, stream in streams.items():
            with hub_errors(source), tqdm(stream, delay=1, unit="row", unit_scale=True, desc=split) as bar:
                for number, row in enumerate(bar, start=1):
                    yield f"{source}, split {split}, row {number}", row

    return Records(source, columns, True, [record for _, record in _first(rows(columns, BrokenLines()))], rows)


Values = Callable[[BrokenLines], Iterator[tuple[str, Any]]]  # the JSON values of a file, with their locations


def _json_records_of(path: Path, values: Values, head: Values | None = None) -> Records:
    def rows(needed: Collection[str], broken: BrokenLines) -> Rows:
        return _json_records(values(broken), broken)

    broken = BrokenLines()
    for read in filter(None, (head, values)):
        try:
            sample = _first(_json_records(read(broken), broken))
        except InputError:  # the beginning of a file may not have a complete record
            if read is values:
                raise
            continue
        if len(sample) > 1 or (sample and read is values):  # whether a record is the only one matters
            return Records(sample[0][0], list(sample[0][1]), False, [record for _, record in sample], rows)
    raise _no_records(path, broken)


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


def _json_value(line: bytes) -> Any:
    try:
        return json.loads(decode(line))
    except (ValueError, RecursionError) as error:
        raise BrokenLineError("not JSON", str(error)) from error


def _is_object(line: bytes) -> bool:
    """Whether the first line of a .json file is an object, so that the file has JSON lines."""
    try:
        return isinstance(_json_value(line), dict)
    except BrokenLineError:
        return False


def _values_of_lines(lines: Iterator[tuple[str, bytes]], broken: BrokenLines) -> Iterator[tuple[str, Any]]:
    for location, line in lines:
        try:
            if line.strip():
                yield location, _json_value(line)
        except BrokenLineError as error:
            broken.add(error.args[0], location, error.args[1])


def _line_values(text: TextFile, broken: BrokenLines) -> Iterator[tuple[str, Any]]:
    return _values_of_lines(text.lines(), broken)


def _array_values(text: TextFile, broken: BrokenLines) -> Iterator[tuple[str, Any]]:
    number = 0
    with text.open() as stream:
        reader = JsonReader(stream, str(text.path))
        try:
            for number, value in enumerate(reader.elements(), start=1):
                yield f"{text.path}: record {number}", value
            reader.check_end()
        except NotJsonError as error:
            raise _not_json(text, number, error) from error


def _not_json(text: TextFile, number: int, error: NotJsonError) -> InputError:
    return InputError(
        f"{text.path}: not JSON, after {number:,} complete records ({error}); export or download it again"
    )


def _document(text: TextFile, streamed: Streamed) -> Records:
    """The object that a .json file is; a list in it that is streamed can be read once."""
    location, record = str(text.path), read_object(text, streamed)
    return Records(location, list(record), False, [record], lambda needed, broken: iter([(location, record)]))


def read_object(text: TextFile, streamed: Streamed) -> Record:
    """The object that a .json file is, with an iterator over the elements in place of a `streamed` list.

    Raises:
        InputError: the file is not JSON; reading the list may raise it, too.
    """
    parts = _object_parts(text, streamed)
    record, key = next(parts)
    return record | {key: parts} if key else record


def _object_parts(text: TextFile, streamed: Streamed) -> Iterator[Any]:
    """Yield the fields before the streamed list, and its name or ""; then the elements of the list."""
    record, key, number = Record(), "", 0
    with text.open() as stream:
        reader = JsonReader(stream, str(text.path))
        try:
            for name in reader.names():
                if key:
                    deque(reader.elements(), maxlen=0)  # skipped one by one: an array may be too long for memory
                    continue
                lists = (key for key, fields in streamed if key.partition(".")[0] == name and record.keys() >= fields)
                if key := next(lists, ""):
                    yield record, key
                    for element in reader.elements(key.partition(".")[2]):
                        number += 1
                        yield element
                else:
                    record[name] = reader.value()
            reader.check_end()
        except NotJsonError as error:
            if key:
                raise _not_json(text, number, error) from error
            raise InputError(
                f"{text.path}: neither one JSON value nor JSON lines ({error}); if it is a file of JSON lines some of "
                "which are broken, let its name end in .jsonl"
            ) from error
        if not key:
            yield record, ""


def _tar_values(path: Path, broken: BrokenLines) -> Iterator[tuple[str, Any]]:
    """The values on the lines of every .json or .jsonl file in a tar archive."""
    state = file_state(path)
    try:
        with tarfile.open(path, "r|*") as archive, tqdm(delay=1, unit="file", desc=path.name) as bar:
            for member in archive:
                bar.update()
                if not member.isfile():
                    if not member.isdir():  # what a link names may be outside of the archive
                        broken.add("link or device", f"{path}/{member.name}", "unpack the archive to read it")
                elif Path(member.name).suffix not in (*JSON_LINES, ".json"):
                    broken.add("file that is not .jsonl or .json", f"{path}/{member.name}")
                elif file := archive.extractfile(member):
                    yield from _values_of_lines(numbered_lines(file, f"{path}/{member.name}"), broken)
    except (tarfile.TarError, EOFError, *UNREADABLE) as error:
        raise InputError(f"{path}: not readable to its end as a tar archive ({error}); download it again") from error
    check_unchanged(path, state)
