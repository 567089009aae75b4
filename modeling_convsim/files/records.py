"""Reads the records of tables and JSON files, each with its location.

A file is opened once for its beginning, from which its columns and first records are known, and once to read it.
Memory holds the beginning, and then a line, a batch of rows of a Parquet file or an element of a JSON array. A .json
file that is one object is held completely, except for its `streamed` list.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modeling_convsim.files.delimited import TABS, Dialect, csv_lines, tsv_lines
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.json_values import (
    JSON_LINES,
    Streamed,
    Values,
    array_values,
    is_object,
    line_values,
    read_document,
)
from modeling_convsim.files.texts import UNPACK, UTF8, BrokenLines, TextFile, check_file

if TYPE_CHECKING:
    from pyarrow import RecordBatch

DELIMITED = (".tsv", ".csv", ".txt")
FORMS = (*DELIMITED, *JSON_LINES, ".json", ".parquet")
SAMPLE_RECORDS = 200
BATCH_ROWS = 1_000  # of a Parquet file that are held in memory

Record = dict[str, Any]
Rows = Iterator[tuple[str, Record]]  # (location, record)


@dataclass(frozen=True)
class Records:
    """The records of a file.

    Attributes:
        location: where the columns were found.
        columns: their names; for JSON, those of the first records, which not all of them need to have.
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
        self, columns: list[str], needed: Collection[str], rows_of: Callable[[str, Record, BrokenLines], Rows]
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
    """The suffix of a file's format, without that of its compression: one of `FORMS`, or another."""
    return (path.with_suffix("") if path.suffix.lower() in UNPACK else path).suffix.lower()


def check_records(path: Path, forms: tuple[str, ...] = FORMS) -> None:
    """Reject an invalid input before anything is read.

    Args:
        path: the input.
        forms: the suffixes that it may have, such as `FORMS` and those of other formats.

    Raises:
        InputError: the file is missing, empty or has an unknown suffix.
    """
    check_file(path, forms)
    if form_of(path) not in forms:
        raise InputError(
            f"{path}: its name has no format suffix; expected a name such as {path.stem}{FORMS[0]}{path.suffix} "
            f"({', '.join(FORMS)})"
        )


def read_records(
    path: Path, text: TextFile | None = None, dialect: Dialect | None = None, streamed: Streamed = ()
) -> Records:
    """The records of a file; `rows` counts and leaves out the lines that cannot be read.

    Args:
        path: a file with one of the suffixes in `FORMS`; text may be compressed.
        text: its content, if it is text; by default UTF-8.
        dialect: how the columns of a text table are separated; by default commas, or tabs without quoting in a .tsv.
        streamed: lists whose elements are read as they are needed, if a .json file is one object with such a list
            after the named fields; `a.b` is the list b in the object a.

    Raises:
        InputError: the file contains no record, or cannot be read. `rows` may raise it too.
    """
    form = form_of(path)
    if form == ".parquet":
        return _parquet(path)
    text = text or TextFile.read(path)
    head = text if text.is_whole else _beginning(text)
    if form in DELIMITED:
        return _table(text, head, dialect or (TABS if form == ".tsv" else Dialect()))
    if form not in JSON_LINES:
        with head.open() as stream:
            is_array, first = stream.peek(1).lstrip()[:1] == b"[", stream.readline()
        if not is_array and not is_object(first):
            # A list in it that is streamed can be read once.
            location, record = str(text.path), read_document(text, streamed)
            return Records(location, list(record), False, [record], lambda needed, broken: iter([(location, record)]))
        values = array_values if is_array else line_values
    else:
        values = line_values
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


def _table(text: TextFile, head: TextFile, dialect: Dialect) -> Records:
    read = partial(csv_lines, dialect=dialect) if dialect.quoted else partial(tsv_lines, dialect=dialect)
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


def _parquet(path: Path) -> Records:
    # Imported here, so that texts are read without pyarrow.
    import pyarrow.parquet as pq
    from tqdm import tqdm

    from modeling_convsim.files.parquet import UNREADABLE

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
            first = [record for _, record in sample]
            return Records(sample[0][0], list(dict.fromkeys(chain.from_iterable(first))), False, first, rows)
    raise _no_records(path, broken)


def _json_records(values: Iterator[tuple[str, Any]], broken: BrokenLines) -> Rows:
    for location, value in values:
        if isinstance(value, dict):
            yield location, value
        else:
            broken.add("not a JSON object", location, f"found {type(value).__name__}")
