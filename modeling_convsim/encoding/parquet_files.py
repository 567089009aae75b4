"""Reads Parquet files in batches whose size in memory is bounded, whatever the file contains.

A few hundred bytes of Parquet can hold gigabytes: a long value that every row repeats, a compressed page of zeros, a
list of a billion elements. The headers of the pages state their sizes, so the headers are read before any page.
`data_scripts` has the same code in `data_scripts/read/parquet_files.py`, because the wheel does not import it.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

BATCH_ROWS = 1_000
PAGE_BYTES = 1 << 27  # of an uncompressed page; DuckDB writes pages of up to 100 MB, most other writers of 1 MiB
BATCH_BYTES = 1 << 27  # of a batch of rows in memory
VALUE_BYTES = 64  # of a value in memory, in addition to its text
SKEW = 16  # how much longer the texts in some rows of a page are expected to be than those in the others
MAX_ELEMENTS = 1 << 25  # of a column of lists in a row group
ROW_GROUP_BYTES = 1 << 31  # of a row group that a library reads at once
UNREADABLE = (OSError, pa.ArrowException, UnicodeDecodeError)  # pyarrow's errors; the last for names of columns
REMEDY = "write it again with smaller texts, pages and row groups, or leave it out"

# Numbers in the definition of the format
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3  # types of pages
_PLAIN_DICTIONARY, _DELTA, _RLE_DICTIONARY = 2, 7, 8  # encodings that store what values share only once
_TRUE, _FALSE, _BYTE, _SHORT, _LONG, _DOUBLE, _BINARY, _LIST, _STRUCT = 1, 2, 3, 4, 6, 7, 8, 9, 12  # types of fields
_ROW_GROUPS, _CHUNKS, _ROWS, _METADATA = 4, 1, 3, 3  # fields of the footer, of a row group, and of a column chunk
_VALUES, _BYTES, _DATA_OFFSET, _DICTIONARY_OFFSET = 5, 7, 9, 11  # fields of a column chunk's metadata
_MAX_INTEGER, _MAX_DEPTH = (1 << 62) - 1, 10  # of an offset or size; of structs and lists within each other


class ParquetSizeError(ValueError):
    """The file would take more memory than a limit, or the sizes of its pages cannot be read."""


@dataclass
class _Column:
    """A column in one row group: the number of values, bytes and encoding of each data page, and its dictionary."""

    path: str
    is_nested: bool
    values: np.ndarray  # (pages,) int64
    sizes: np.ndarray  # (pages,) int64, uncompressed
    shares: np.ndarray  # (pages,) bool: whether a value may occur more often than its bytes do
    longest: int  # bytes of the longest value in a page that shares values, at most
    dictionary_values: int  # -1 if `longest` does not come from a dictionary alone

    def most_bytes(self, rows: int) -> int:
        """The most memory that consecutive rows can take; one row of a nested column may hold all of its values."""
        total = int(self.values.sum())
        each = np.minimum(self.values, total if self.is_nested else rows)
        # Part of a plain page takes more than its share, but never more than the page, which is in memory anyway.
        plain = self.sizes * np.minimum(SKEW * each / np.maximum(self.values, 1), 1)
        weights = each * VALUE_BYTES + np.where(self.shares, each * self.longest, plain.astype(np.int64))
        if self.is_nested or rows >= total:
            return int(weights.sum())
        # The worst rows begin with the last value of a page.
        ends, sums = np.cumsum(self.values), np.cumsum(weights)
        last = np.minimum(np.searchsorted(ends, ends + rows - 2, side="right"), len(ends) - 1)
        return int((sums[last] - sums + weights).max())


def bounded_batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file, in batches of at most `BATCH_ROWS` rows and about `BATCH_BYTES` of memory.

    Args:
        path: the file.
        columns: the columns to read; all by default.

    Raises:
        ParquetSizeError: a page, a row or a row group exceeds a limit, which the message states.
        UNREADABLE: the file cannot be read.
    """
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        groups = [_read_columns(path, file, *group, columns) for group in enumerate(_read_row_groups(path, file))]
        sizes = [_batch_rows(path, group, content) for group, content in enumerate(groups)]
        for rows, run in groupby(range(len(sizes)), sizes.__getitem__):
            if rows:
                yield from file.iter_batches(rows, row_groups=list(run), columns=columns)
                continue
            for group in run:
                for batch in _dictionary_batches(path, group, groups[group], columns):
                    yield from _decode(path, batch, file.schema_arrow)


def check_row_groups(path: Path) -> None:
    """Refuse a file with a row group of more than `ROW_GROUP_BYTES`, before a library reads all of the row group.

    Raises:
        ParquetSizeError: the file exceeds a limit, which the message states.
        UNREADABLE: the file cannot be read.
    """
    with pq.ParquetFile(path) as file:
        for group, content in enumerate(_read_row_groups(path, file)):
            columns = _read_columns(path, file, group, content, None)
            rows = _integer(content, _ROWS)
            if _most_bytes(path, group, columns, rows) <= ROW_GROUP_BYTES:
                continue
            size = 0
            for batch in _dictionary_batches(path, group, columns, None):
                size += sum(map(_decoded_bytes, batch.columns))
                if size > ROW_GROUP_BYTES:
                    limit = f"{ROW_GROUP_BYTES >> 30} GiB of memory"
                    raise ParquetSizeError(f"{path}: row group {group + 1} takes more than {limit}; {REMEDY}")


def _batch_rows(path: Path, group: int, columns: list[_Column]) -> int:
    """The rows of a batch of a row group; 0 if the batches must be measured while they are read."""
    rows = BATCH_ROWS
    if _most_bytes(path, group, columns, rows) <= BATCH_BYTES:
        return rows
    if any(column.is_nested for column in columns):
        return 0
    while rows > 1 and sum(column.most_bytes(rows) for column in columns) > BATCH_BYTES:
        rows //= 2
    return rows


def _most_bytes(path: Path, group: int, columns: list[_Column], rows: int) -> int:
    """The most memory that consecutive rows can take; reads the dictionaries if it depends on them."""
    if sum(column.most_bytes(rows) for column in columns) > BATCH_BYTES:
        # A batch has the dictionary of its row group only if its values come from that dictionary.
        names = {column.path: column for column in columns if column.dictionary_values > 0 and column.shares[0]}
        with pq.ParquetFile(path, read_dictionary=list(names)) as file:
            for name, column in names.items():
                first = next(file.iter_batches(1, row_groups=[group], columns=[name]), None)
                dictionary = _find_dictionary(first.column(0)) if first is not None else None
                if dictionary is not None and len(dictionary) == column.dictionary_values:
                    column.longest = min(column.longest, pc.max(pc.binary_length(dictionary)).as_py() or 0)
    return sum(column.most_bytes(rows) for column in columns)


def _find_dictionary(array: pa.Array) -> pa.Array | None:
    """The values of the only dictionary in an array of any type."""
    if pa.types.is_dictionary(array.type):
        return array.dictionary
    if pa.types.is_struct(array.type) or hasattr(array, "values"):
        parts = [array.field(i) for i in range(array.type.num_fields)] if hasattr(array, "field") else [array.values]
        return next((found for part in parts if (found := _find_dictionary(part)) is not None), None)
    return None


def _dictionary_batches(
    path: Path, group: int, columns: list[_Column], names: Sequence[str] | None
) -> Iterator[pa.RecordBatch]:
    """Batches of a row group that hold each distinct text once."""
    texts = [column.path for column in columns]
    if any(column.dictionary_values < 0 for column in columns):
        raise ParquetSizeError(f"{path}: row group {group + 1} (DELTA_BYTE_ARRAY) may take any memory; {REMEDY}")
    with pq.ParquetFile(path, read_dictionary=texts, page_checksum_verification=True) as file:
        yield from file.iter_batches(BATCH_ROWS, row_groups=[group], columns=names)


def _decode(path: Path, batch: pa.RecordBatch, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """A batch of `_dictionary_batches` as batches of the file's types, each of at most `BATCH_BYTES`."""
    size = sum(map(_decoded_bytes, batch.columns))
    if size <= BATCH_BYTES:
        yield batch.cast(pa.schema([schema.field(name) for name in batch.schema.names]))
    elif len(batch) == 1:
        raise ParquetSizeError(f"{path}: a row takes more than {BATCH_BYTES >> 20} MiB of memory; {REMEDY}")
    else:
        half = len(batch) // 2
        yield from _decode(path, batch.slice(0, half), schema)
        yield from _decode(path, batch.slice(half), schema)


def _decoded_bytes(array: pa.Array) -> int:
    """The memory of an array's values as Python objects."""
    if pa.types.is_dictionary(array.type):
        lengths = pc.binary_length(array.dictionary) if len(array.dictionary) else array.dictionary
        return VALUE_BYTES * len(array) + (pc.sum(lengths.take(array.indices)).as_py() or 0)
    if pa.types.is_struct(array.type):
        return VALUE_BYTES * len(array) + sum(map(_decoded_bytes, array.flatten()))
    if hasattr(array, "flatten"):  # of a list
        return VALUE_BYTES * len(array) + _decoded_bytes(array.flatten())
    return VALUE_BYTES * len(array) + array.nbytes


def _read_row_groups(path: Path, file: pq.ParquetFile) -> list[dict[int, Any]]:
    """The row groups in the footer. pyarrow has them, too, but damaged ones make it end the process."""
    with path.open("rb") as stream:
        stream.seek(-8, 2)
        stream.seek(-8 - int.from_bytes(stream.read(4), "little"), 2)
        try:
            groups = _read_struct(BytesIO(stream.read())).get(_ROW_GROUPS, [])
        except ParquetSizeError as error:
            raise ParquetSizeError(f"{path}: {error}") from error
    columns = len(file.schema)
    if not isinstance(groups, list) or any(len(_chunks(group)) != columns for group in groups):
        raise ParquetSizeError(f"{path}: the footer cannot be read; download the file again")
    return groups


def _chunks(group: dict[int, Any]) -> list[dict[int, Any]]:
    chunks = group.get(_CHUNKS)
    return chunks if isinstance(chunks, list) else []


def _read_columns(
    path: Path, file: pq.ParquetFile, group: int, content: dict[int, Any], names: Sequence[str] | None
) -> list[_Column]:
    """The pages of the columns to read, without their content."""
    columns = []
    with path.open("rb") as stream:
        for index, chunk in enumerate(_chunks(content)):
            leaf = file.schema.column(index)
            if names is None or any(leaf.path == name or leaf.path.startswith(f"{name}.") for name in names):
                try:
                    columns.append(_read_column(stream, _struct(chunk, _METADATA), leaf))
                except ParquetSizeError as error:
                    raise ParquetSizeError(f"{path}: row group {group + 1}, column {leaf.path}: {error}") from error
    return columns


def _read_column(stream: BinaryIO, chunk: dict[int, Any], leaf: Any) -> _Column:
    start, values_in_chunk = _integer(chunk, _DATA_OFFSET), _integer(chunk, _VALUES)
    if 0 < (dictionary_offset := _integer(chunk, _DICTIONARY_OFFSET)) < start:
        start = dictionary_offset
    position, end, seen, pages = start, start + _integer(chunk, _BYTES), 0, []
    longest, dictionary_values = 0, 0
    while 0 <= position < end and seen < values_in_chunk:
        stream.seek(position)
        header = _read_struct(stream)
        kind, size, compressed = (_integer(header, number) for number in (1, 2, 3))
        if size < 0 or compressed < 0:
            raise ParquetSizeError("a page has no size; download the file again")
        if size > PAGE_BYTES:
            raise ParquetSizeError(f"a page of {size:,} bytes; the limit is {PAGE_BYTES >> 20} MiB; {REMEDY}")
        position = stream.tell() + compressed
        details = _struct(header, {_DATA: 5, _DICTIONARY: 7, _DATA_V2: 8}.get(kind, 0))
        if kind == _DICTIONARY:
            longest, dictionary_values = max(longest, size), _integer(details, 1) if not longest else -1
        elif kind in (_DATA, _DATA_V2):
            encoding = _integer(details, 2 if kind == _DATA else 4)
            if encoding == _DELTA:
                longest, dictionary_values = max(longest, size), -1
            count = _integer(details, 1)
            if count > 0:
                pages.append((count, size, encoding in (_PLAIN_DICTIONARY, _DELTA, _RLE_DICTIONARY)))
                seen += count
    if leaf.max_repetition_level and seen > MAX_ELEMENTS:
        raise ParquetSizeError(f"{seen:,} elements of lists; the limit is {MAX_ELEMENTS:,}; {REMEDY}")
    if leaf.physical_type != "BYTE_ARRAY":
        dictionary_values = 0  # its values are all of the same length
        longest = leaf.length if leaf.physical_type == "FIXED_LEN_BYTE_ARRAY" else 8
    values, sizes, shares = (np.array(column) for column in zip(*pages, strict=True)) if pages else np.zeros((3, 1))
    return _Column(
        leaf.path,
        bool(leaf.max_repetition_level),
        values.astype(np.int64),
        sizes.astype(np.int64),
        shares.astype(bool),
        longest,
        dictionary_values,
    )


def _read_struct(stream: BinaryIO, depth: int = 0) -> dict[int, Any]:
    """A struct in Thrift's compact protocol: number of a field -> integer, struct or list; other fields are None."""
    fields: dict[int, Any] = {}
    number = 0
    while header := _read_byte(stream):
        step, kind = header >> 4, header & 15
        number = number + step if step else _read_integer(stream)
        fields[number] = None if kind in (_TRUE, _FALSE) else _read_value(stream, kind, depth)
    return fields


def _read_value(stream: BinaryIO, kind: int, depth: int) -> Any:
    """A value of a struct or list; lists of other values than structs are skipped."""
    if kind in (_TRUE, _FALSE, _BYTE):
        _read_byte(stream)
    elif _SHORT <= kind <= _LONG:
        return _read_integer(stream)
    elif kind == _DOUBLE:
        stream.seek(8, 1)
    elif kind == _BINARY:
        stream.seek(_read_varint(stream), 1)
    elif kind == _STRUCT and depth < _MAX_DEPTH:
        return _read_struct(stream, depth + 1)
    elif kind == _LIST and depth < _MAX_DEPTH:
        header = _read_byte(stream)
        count, element = header >> 4, header & 15
        values = (_read_value(stream, element, depth + 1) for _ in range(count if count < 15 else _read_varint(stream)))
        return list(values) if element == _STRUCT else deque(values, maxlen=0)
    else:
        raise ParquetSizeError("a header cannot be read; download the file again")
    return None


def _integer(fields: dict[int, Any], number: int) -> int:
    """A field that is an integer; -1 if the struct does not have it."""
    value = fields.get(number, -1)
    if not isinstance(value, int):
        raise ParquetSizeError("a header cannot be read; download the file again")
    return value


def _struct(fields: dict[int, Any], number: int) -> dict[int, Any]:
    """A field that is a struct; empty if the struct does not have it."""
    value = fields.get(number, {})
    if not isinstance(value, dict):
        raise ParquetSizeError("a header cannot be read; download the file again")
    return value


def _read_integer(stream: BinaryIO) -> int:
    value = _read_varint(stream)
    return value >> 1 ^ -(value & 1)


def _read_varint(stream: BinaryIO) -> int:
    value = 0
    for shift in range(0, 70, 7):
        byte = _read_byte(stream)
        value |= (byte & 127) << shift
        if byte < 128 and value <= _MAX_INTEGER:
            return value
    raise ParquetSizeError("a header cannot be read; download the file again")


def _read_byte(stream: BinaryIO) -> int:
    byte = stream.read(1)
    if not byte:
        raise ParquetSizeError("the file ends within a header; download it again")
    return byte[0]
