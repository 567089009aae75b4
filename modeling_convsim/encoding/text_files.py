"""Reads texts from files of any size: one per line, or a column of a table."""

import contextlib
import csv
import json
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

DELIMITERS = {".csv": ",;\t|", ".tsv": "\t"}  # the first by which the header has the column
JSON_LINES = (".jsonl", ".ndjson")
TABLES = (".parquet", *DELIMITERS, *JSON_LINES)
TABLE_SUFFIXES = ", ".join(TABLES)


def is_table(file: str) -> bool:
    """Whether the name of a file is that of a table, whose texts are a column."""
    return Path(file).suffix.lower() in TABLES


def read_texts(file: str, column: str = "text", remedy: str = "") -> Iterator[str]:
    """Yields the texts of a file: its lines, those of standard input if it is "-", or a column of a table.

    The file may be larger than memory. A table is Parquet, CSV (with commas, semicolons, tabs or pipes), TSV (without
    quoting) or JSON lines, in UTF-8.

    Args:
        file: Name of the file.
        column: Column of a table.
        remedy: End of the message if the column does not exist.

    Raises:
        ValueError: The file is missing or damaged, a table of another format, contains no text, is not UTF-8 (the
            message names the line), lacks the column, or holds a value that is not text (the message names the line or
            row).
    """
    if file != "-" and not Path(file).is_file():
        raise ValueError(f"{file}: file not found")
    suffix = Path(file).suffix.lower()
    if suffix == ".json":
        raise ValueError(
            f"{file}: expected one text per line or a table ({TABLE_SUFFIXES}); convert it: "
            f"pandas.read_json({file!r}).to_parquet({str(Path(file).with_suffix('.parquet'))!r})"
        )
    if suffix == ".parquet":
        texts = _parquet_texts(file, column, remedy)
    elif suffix in DELIMITERS:
        texts = _delimited_texts(file, column, remedy)
    elif suffix in JSON_LINES:
        texts = _json_texts(file, column, remedy)
    else:
        texts = (line.rstrip("\r\n") for line in _lines(file))
    first = next(texts, None)
    if first is None:
        raise ValueError(f"{file} contains no text, expected at least one")
    yield from chain([first], texts)


def _lines(file: str) -> Iterator[str]:
    """Yields lines with their ends."""
    with contextlib.nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                # The first line may start with a byte order mark.
                yield line.decode("utf-8-sig" if number == 1 else "utf-8")
            except UnicodeDecodeError as error:
                raise ValueError(f"{file}, line {number}: not UTF-8 ({error.reason}); convert the file") from error


def _delimited_texts(file: str, column: str, remedy: str) -> Iterator[str]:
    lines, suffix = _lines(file), Path(file).suffix.lower()
    options: dict[str, Any] = {"strict": True} | ({"quoting": csv.QUOTE_NONE} if suffix == ".tsv" else {})
    header = [next(lines, "")]
    headers = {mark: next(_rows(file, header, 0, mark, options))[1] for mark in DELIMITERS[suffix]}
    if not any(headers.values()):
        return
    delimiter = next((mark for mark, names in headers.items() if column in names), None)
    if delimiter is None:
        names = max(headers.values(), key=len)
        raise ValueError(f"{file} has no column {column!r}, only {', '.join(names)}{remedy}")
    names = headers[delimiter]
    for number, row in _rows(file, lines, 1, delimiter, options):
        if row and len(row) != len(names):
            raise ValueError(
                f"{file}, line {number}: {len(row)} fields, expected {len(names)}: quote texts that contain "
                f"{delimiter!r}, or remove the row"
            )
        if row:
            yield row[names.index(column)]


def _rows(
    file: str, lines: Iterable[str], read: int, delimiter: str, options: dict[str, Any]
) -> Iterator[tuple[int, list[str]]]:
    """Yields rows with the numbers of their last lines; `read` lines of the file precede them."""
    reader = csv.reader(lines, delimiter=delimiter, **options)
    try:
        for row in reader:
            yield read + reader.line_num, row
    except csv.Error as error:
        raise ValueError(
            f"{file}, line {read + reader.line_num}: {error}; is a quotation mark not closed, or not doubled?"
        ) from error


def _json_texts(file: str, column: str, remedy: str) -> Iterator[str]:
    for number, line in enumerate(_lines(file), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"{file}, line {number}: not JSON ({error}): write one object per line") from error
        if not isinstance(record, dict):
            raise ValueError(f"{file}, line {number}: {line.strip()[:60]} is not an object with a field {column!r}")
        if column not in record:
            raise ValueError(f"{file}, line {number}: no field {column!r}, only {', '.join(record)}{remedy}")
        yield _check_text(record[column], f"{file}, line {number}", column)


def _check_text(value: Any, location: str, column: str) -> str:
    if not isinstance(value, str):
        raise ValueError(
            f"{location}: column {column!r} holds {repr(value)[:60]}, which is not text: choose another column, or "
            "remove the row"
        )
    return value


def _parquet_texts(file: str, column: str, remedy: str) -> Iterator[str]:
    with _open_parquet(file) as parquet:
        names = parquet.schema_arrow.names
    if column not in names:
        raise ValueError(f"{file} has no column {column!r}, only {', '.join(names)}{remedy}")
    row = 0
    for texts in _column_values(file, column):
        for text in texts:
            row += 1
            yield _check_text(text, f"{file}, row {row}", column)


def _column_values(file: str, column: str) -> Iterator[list]:
    """Yields the values of a column, in batches of bounded size."""
    from modeling_convsim.encoding.parquet_files import bounded_batches  # needs pyarrow

    batches = bounded_batches(Path(file), [column])
    while True:
        with _naming_file(file):
            batch = next(batches, None)
            values = [] if batch is None else batch.column(0).to_pylist()
        if batch is None:
            return
        yield values


def _open_parquet(file: str) -> Any:
    parquet = import_parquet()
    with _naming_file(file):
        return parquet.ParquetFile(file)


@contextlib.contextmanager
def _naming_file(file: str) -> Iterator[None]:
    """Raises the errors of pyarrow, whose classes are many, as a ValueError that names the file."""
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError, OverflowError, UnicodeDecodeError) as error:  # overflow: times after the year 9999
        reason = " ".join(str(error).split())
        raise ValueError(f"{file} cannot be read as a Parquet file ({reason}): write it again") from error


def count_texts(file: str) -> int | None:
    """Counts the texts of a file, for progress bars; None for standard input, a missing file or CSV.

    Blank lines of tables count, too.
    """
    suffix = Path(file).suffix.lower()
    if not Path(file).is_file() or suffix == ".csv":  # a text of which may have several lines
        return None
    if suffix == ".parquet":
        with _open_parquet(file) as parquet:
            return parquet.metadata.num_rows
    with Path(file).open("rb") as stream:
        lines = sum(block.count(b"\n") for block in iter(lambda: stream.read(2**20), b""))
    return lines - 1 if suffix == ".tsv" else lines


def import_parquet() -> Any:
    """Imports pyarrow's Parquet module, which only Parquet files need.

    Raises:
        ValueError: pyarrow is not installed.
    """
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ValueError("Parquet files need pyarrow: pip install pyarrow, or use .txt and .npy") from error
    return parquet
