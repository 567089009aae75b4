"""Writes vectors to files of any size: a NumPy array, or a Parquet file with their texts."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from data_scripts.files.storage import lock_beside, locked, new_file, remove_temporary_files
from modeling_convsim.encoding.text_files import import_parquet


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
    pending: deque[str] = deque()  # texts that were read, but whose vectors are not written yet

    def read_texts() -> Iterator[str]:
        for text in texts:
            pending.append(text)
            yield text

    write = _write_parquet if output.suffix == ".parquet" else _write_npy
    count = 0

    def parts() -> Iterator[tuple[list[str], np.ndarray]]:
        nonlocal count
        for vectors in encode(read_texts()):
            count += len(vectors)
            yield [pending.popleft() for _ in vectors], vectors

    output = output.resolve()
    with locked(output, lock_beside(output)):
        remove_temporary_files(output.parent, output)
        with new_file(output) as temporary:
            write(temporary, parts())
    return count


def write_array(path: Path, array: np.ndarray) -> None:
    """Writes a .npy file. `np.save` does not notice when a full disk takes all but the last bytes.

    Raises:
        OSError: The file cannot be written.
    """
    array = np.ascontiguousarray(array)
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(array))
        stream.write(array.data)


def _write_npy(path: Path, parts: Iterator[tuple[list[str], np.ndarray]]) -> None:
    # NumPy leaves space in the header for the first axis to grow, so it can be rewritten once the row count is known.
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
            writer = writer or parquet.ParquetWriter(path, table.schema, write_page_checksum=True)
            writer.write_table(table)
    finally:
        if writer:
            writer.close()
