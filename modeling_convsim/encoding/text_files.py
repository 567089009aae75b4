"""Reads texts from files of any size (lines, or a column of a table), and writes their vectors."""

from __future__ import annotations

import codecs
import csv
import sys
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice, tee
from pathlib import Path
from typing import TYPE_CHECKING

from modeling_convsim.files.delimited import TABS, Dialect
from modeling_convsim.files.extras import import_extra
from modeling_convsim.files.json_values import JSON_LINES
from modeling_convsim.files.records import form_of, read_records
from modeling_convsim.files.storage import locked, new_file, remove_temporary_files, resolve_links
from modeling_convsim.files.texts import BrokenLines, TextFile, decoded_lines, text_lines

if TYPE_CHECKING:
    import numpy as np

TABLES = (".parquet", ".csv", ".tsv", *JSON_LINES, ".json")
TABLE_SUFFIXES = ", ".join(TABLES)
PARQUET = ("pyarrow.parquet", "suggest", "a Parquet file (.txt and .npy do not)")  # for `import_extra`
DELIMITERS = ",;\t|"  # of CSV; the first by which the header has the column


def is_table(file: str) -> bool:
    """Whether a file is a table by its name, with texts in a column."""
    return form_of(Path(file)) in TABLES


def read_texts(file: str, column: str = "text", remedy: str = "", missing: str | None = None) -> Iterator[str]:
    """Yields the texts of a file: its lines, those of standard input if it is "-", or a column of a table.

    The file may be larger than memory. A table is Parquet, CSV (with commas, semicolons, tabs or pipes), TSV (without
    quoting), JSON lines or a JSON array, in UTF-8; text may be compressed (.gz, .xz, .bz2, .zst).

    Args:
        file: Name of the file.
        column: Column of a table.
        remedy: End of the message if the column does not exist.
        missing: The text of a null in a table; without it, a null is refused.

    Raises:
        ValueError: The file is missing or damaged, a table of another format, contains no text, is not UTF-8 (the
            message names the line), lacks the column, or holds a value that is not text (the message names the line or
            row).
    """
    if file != "-" and not Path(file).is_file():
        problem = "not a file; to read a pipe, use - and redirect it" if Path(file).exists() else "file not found"
        raise ValueError(f"{file}: {problem}")
    if is_table(file):
        texts = _column(Path(file), column, remedy, missing)
    else:
        lines = decoded_lines(_standard_input()) if file == "-" else text_lines(Path(file), (Path(file).suffix,))
        texts = (text for _, text in lines)
    first = next(texts, None)
    if first is None:
        raise ValueError(f"{file} contains no text, expected at least one")
    yield from chain([first], texts)


def _standard_input() -> Iterator[tuple[str, bytes]]:
    for number, line in enumerate(sys.stdin.buffer, start=1):
        start = codecs.BOM_UTF8 if number == 1 else b""
        yield f"standard input:{number}", line.removeprefix(start).removesuffix(b"\n")


class _Refused(BrokenLines):
    """Refuses a line that cannot be read, instead of leaving it out: vectors belong to texts by their position."""

    def add(self, kind: str, location: str, detail: str = "") -> None:
        problem = f" ({detail})" if detail else ""
        raise ValueError(f"{location}: {kind}{problem}; correct this line, or remove it")


def _column(path: Path, column: str, remedy: str, missing: str | None) -> Iterator[str]:
    """The texts of a column of a table; `missing` in place of null, which is refused if it is None."""
    text, columns = None, TABS
    if form_of(path) == ".parquet":
        import_extra(*PARQUET)  # which names what to install, before the file is opened
    if form_of(path) == ".csv":
        text = TextFile.read(path)
        header = text.head.removeprefix(codecs.BOM_UTF8).partition(b"\n")[0].decode(errors="replace").rstrip("\r")
        names = {mark: next(csv.reader([header], delimiter=mark), []) for mark in DELIMITERS}
        columns = Dialect(max(DELIMITERS, key=lambda mark: (column in names[mark], len(names[mark]))))
    records = read_records(path, text, columns)
    if records.complete and column not in records.columns:
        raise ValueError(f"{path} has no column {column!r}, only {', '.join(records.columns)}{remedy}")
    for location, record in records.rows([column], _Refused()):
        if column not in record:
            raise ValueError(f"{location}: no field {column!r}, only {', '.join(record)}{remedy}")
        value = missing if record[column] is None else record[column]
        if not isinstance(value, str):
            raise ValueError(
                f"{location}: column {column!r} holds {repr(value)[:60]}, which is not text: choose another column, or "
                "remove the row"
            )
        yield value


def write_vectors(output: Path, texts: Iterable[str], encode: Callable[[Iterable[str]], Iterator[np.ndarray]]) -> int:
    """Writes the vectors of texts as they are computed.

    Args:
        output: A .npy file for the vectors alone, or a .parquet file with the columns `text` and `embedding`.
        texts: Any number of texts; they are read as they are needed.
        encode: Yields the vectors of texts, in order, a few at a time.

    Returns:
        The number of vectors.

    Raises:
        ValueError: Another process is writing the file, or it cannot be written; an old one then stays.
    """
    output = resolve_links(output)
    with locked(output):
        remove_temporary_files(output.parent, output)
        with new_file(output) as temporary:
            if output.suffix == ".parquet":
                read, written = tee(texts)  # which hold the texts whose vectors are not written yet
                return _write_parquet(temporary, written, encode(read))
            return write_arrays(temporary, encode(texts))


def write_arrays(path: Path, parts: Iterable[np.ndarray]) -> int:
    """Writes the rows of one or more arrays to a .npy file; returns their number.

    `np.save` does not notice if a full disk loses the last bytes.

    Raises:
        OSError: The file cannot be written.
    """
    import numpy as np

    # NumPy leaves space in the header for the first axis to grow, so it can be rewritten once the row count is known.
    rows = 0
    with path.open("wb") as stream:
        for part in map(np.ascontiguousarray, parts):
            if not rows:
                header = np.lib.format.header_data_from_array_1_0(part)
                np.lib.format.write_array_header_1_0(stream, header)
            rows += len(part)
            stream.write(part.data)
        stream.seek(0)
        np.lib.format.write_array_header_1_0(stream, header | {"shape": (rows, *part.shape[1:])})
    return rows


def _write_parquet(path: Path, texts: Iterator[str], parts: Iterator[np.ndarray]) -> int:
    parquet = import_extra(*PARQUET)
    import pyarrow

    writer, rows = None, 0
    try:
        for vectors in parts:
            rows += len(vectors)
            flat = pyarrow.array(vectors.ravel())
            embedding = pyarrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
            table = pyarrow.table(
                {"text": pyarrow.array(islice(texts, len(vectors)), pyarrow.string()), "embedding": embedding}
            )
            writer = writer or parquet.ParquetWriter(path, table.schema, write_page_checksum=True)
            writer.write_table(table)
    finally:
        if writer:
            writer.close()
    return rows
