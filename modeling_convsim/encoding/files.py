"""Files of texts and of vectors, of any size: what the command of `encoding` reads and writes."""

import contextlib
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np


def read_texts(file: str, column: str) -> Iterator[str]:
    """The texts of a file: one a line, from standard input if it is "-", or a column of a Parquet file.

    They are read as they are taken, so that a file may be larger than memory.

    Raises:
        ValueError: There is no such file, it holds no text, is not UTF-8 (naming the line), or has no such column.
    """
    if file != "-" and not Path(file).is_file():
        raise ValueError(f"{file}: there is no such file")
    texts = _parquet_texts(file, column) if file.endswith(".parquet") else _lines(file)
    first = next(texts, None)
    if first is None:
        raise ValueError(f"{file} holds no text, expected at least one")
    yield from chain([first], texts)


def _lines(file: str) -> Iterator[str]:
    with contextlib.nullcontext(sys.stdin.buffer) if file == "-" else Path(file).open("rb") as stream:
        for number, line in enumerate(stream, start=1):
            try:
                yield line.decode("utf-8").rstrip("\r\n")
            except UnicodeDecodeError as error:
                raise ValueError(f"{file}, line {number}: not UTF-8 ({error.reason}); convert the file") from error


def _parquet_texts(file: str, column: str) -> Iterator[str]:
    with import_parquet().ParquetFile(file) as parquet:
        names = parquet.schema_arrow.names
        if column not in names:
            raise ValueError(f"{file} has no column {column!r}, only {', '.join(names)}: name one with --column")
        for batch in parquet.iter_batches(columns=[column]):
            texts = batch.column(0).to_pylist()
            if not all(isinstance(text, str) for text in texts):
                raise ValueError(f"{file}: column {column!r} holds values that are not text")
            yield from texts


def count_texts(file: str) -> int | None:
    """How many texts a file holds, for progress; None for standard input, or where there is no such file."""
    if not Path(file).is_file():
        return None
    if file.endswith(".parquet"):
        return import_parquet().read_metadata(file).num_rows
    with Path(file).open("rb") as stream:
        return sum(block.count(b"\n") for block in iter(lambda: stream.read(2**20), b""))


def write_vectors(output: Path, texts: Iterable[str], encode: Callable[[Iterable[str]], Iterator[np.ndarray]]) -> int:
    """Writes the vectors of texts as they come: alone as .npy, beside their texts as .parquet (`text`, `embedding`).

    Returns:
        The number of vectors.
    """
    waiting: deque[str] = deque()  # texts that are read, but whose vectors are not written yet

    def remembered() -> Iterator[str]:
        for text in texts:
            waiting.append(text)
            yield text

    # Under another name first, so that a file of the final name is always whole.
    temporary = output.with_name(f".{output.name}.partial")
    write = _write_parquet if output.suffix == ".parquet" else _write_npy
    count = 0

    def parts() -> Iterator[tuple[list[str], np.ndarray]]:
        nonlocal count
        for vectors in encode(remembered()):
            count += len(vectors)
            yield [waiting.popleft() for _ in vectors], vectors

    try:
        write(temporary, parts())
        temporary.replace(output)
    finally:
        temporary.unlink(missing_ok=True)
    return count


def _write_npy(path: Path, parts: Iterator[tuple[list[str], np.ndarray]]) -> None:
    # NumPy leaves room in a header for its first axis to grow: it is written again when the number of rows is known.
    header: dict[str, Any] = {"descr": "<f4", "fortran_order": False, "shape": (0, 0)}
    with path.open("wb") as stream:
        rows = 0
        for _, vectors in parts:
            if not rows:
                np.lib.format.write_array_header_1_0(stream, header | {"shape": vectors.shape})
            rows += len(vectors)
            stream.write(np.ascontiguousarray(vectors, "<f4").data)
        stream.seek(0)
        np.lib.format.write_array_header_1_0(stream, header | {"shape": (rows, vectors.shape[1])})


def _write_parquet(path: Path, parts: Iterator[tuple[list[str], np.ndarray]]) -> None:
    parquet = import_parquet()
    import pyarrow

    writer = None
    try:
        for texts, vectors in parts:
            flat = pyarrow.array(vectors.ravel())
            embedding = pyarrow.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
            table = pyarrow.table({"text": pyarrow.array(texts, pyarrow.string()), "embedding": embedding})
            writer = writer or parquet.ParquetWriter(path, table.schema)
            writer.write_table(table)
    finally:
        if writer:
            writer.close()


def import_parquet() -> Any:
    """pyarrow's Parquet module, which only Parquet files need.

    Raises:
        ValueError: It is not installed.
    """
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ValueError("Parquet files need pyarrow: pip install pyarrow, or use .txt and .npy") from error
    return parquet
