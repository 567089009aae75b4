"""Reads Parquet files in batches, unless a row group is too large for memory."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from data_scripts.files.errors import InputError

BATCH_ROWS = 1_000
ROW_GROUP_BYTES = 1 << 31
UNREADABLE = (OSError, pa.ArrowException, UnicodeDecodeError)  # pyarrow's errors; the last for names of columns


def bounded_batches(path: Path, columns: Sequence[str] | None = None) -> Iterator[pa.RecordBatch]:
    """The rows of a Parquet file, in batches of `BATCH_ROWS` rows.

    Args:
        path: the file.
        columns: the columns to read; all by default.

    Raises:
        InputError: a row group is too large.
        UNREADABLE: the file cannot be read.
    """
    check_row_groups(path)
    with pq.ParquetFile(path, page_checksum_verification=True) as file:
        yield from file.iter_batches(BATCH_ROWS, columns=columns)


def check_row_groups(path: Path) -> None:
    """Refuse a file with a row group of more than `ROW_GROUP_BYTES`, which libraries may read at once.

    Raises:
        InputError: there is one.
        UNREADABLE: the file cannot be read.
    """
    metadata = pq.read_metadata(path)
    for group in range(metadata.num_row_groups):
        if metadata.row_group(group).total_byte_size > ROW_GROUP_BYTES:
            limit = f"{ROW_GROUP_BYTES >> 30} GiB"
            raise InputError(f"{path}: row group {group + 1} has more than {limit}; write smaller row groups")
