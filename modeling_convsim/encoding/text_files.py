"""Reads texts from files of any size: one per line, or a column of a Parquet file."""

import contextlib
import sys
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

TABLES = {".csv": "read_csv", ".tsv": "read_table", ".json": "read_json", ".jsonl": "read_json"}  # with pandas


def read_texts(file: str, column: str = "text", remedy: str = "") -> Iterator[str]:
    """Yields the texts of a file: its lines, those of standard input if it is "-", or a column of a Parquet file.

    The file may be larger than memory.

    Args:
        file: Name of the file.
        column: Column of a Parquet file.
        remedy: End of the message if the column does not exist.

    Raises:
        ValueError: The file is missing or damaged, a table of another format, contains no text, is not UTF-8 (the
            message names the line), lacks the column, or holds a value that is not text (the message names the row).
    """
    if file != "-" and not Path(file).is_file():
        raise ValueError(f"{file}: file not found")
    suffix = Path(file).suffix.lower()
    if suffix in TABLES:
        lines = ", lines=True" if suffix == ".jsonl" else ""
        raise ValueError(
            f"{file}: expected one text per line or a .parquet file, but a {suffix} file is a table; convert it: "
            f"pandas.{TABLES[suffix]}({file!r}{lines}).to_parquet({str(Path(file).with_suffix('.parquet'))!r})"
        )
    texts = _parquet_texts(file, column, remedy) if file.endswith(".parquet") else _lines(file)
    first = next(texts, None)
    if first is None:
        raise ValueError(f"{file} contains no text, expected at least one")
    yield from chain([first], texts)


def _lines(file: str) -> Iterator[str]:
    with contextlib.nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                # The first line may start with a byte order mark.
                yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise ValueError(f"{file}, line {number}: not UTF-8 ({error.reason}); convert the file") from error


def _parquet_texts(file: str, column: str, remedy: str) -> Iterator[str]:
    with _open_parquet(file) as parquet:
        names = parquet.schema_arrow.names
    if column not in names:
        raise ValueError(f"{file} has no column {column!r}, only {', '.join(names)}{remedy}")
    row = 0
    for texts in _column_values(file, column):
        for text in texts:
            row += 1
            if not isinstance(text, str):
                raise ValueError(
                    f"{file}, row {row}: column {column!r} holds {repr(text)[:60]}, which is not text: choose "
                    "another column, or remove the row"
                )
            yield text


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
    """Counts the texts of a file, for progress bars; None for standard input or a missing file."""
    if not Path(file).is_file():
        return None
    if file.endswith(".parquet"):
        with _open_parquet(file) as parquet:
            return parquet.metadata.num_rows
    with Path(file).open("rb") as stream:
        return sum(block.count(b"\n") for block in iter(lambda: stream.read(2**20), b""))


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
