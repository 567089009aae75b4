"""Writes Parquet files within bounded memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from modeling_convsim.files.storage import new_file

BATCH_BYTES = 1 << 25  # of text in a row group


class BatchWriter:
    """Writes rows to a Parquet file in row groups of about `BATCH_BYTES` of text, so that memory is bounded."""

    def __init__(self, file: pq.ParquetWriter, schema: pa.Schema) -> None:
        self.file, self.schema = file, schema
        self.rows: list[tuple] = []
        self.tables: list[pa.Table] = []
        self.added = self.bytes = 0

    def add(self, row: tuple, size: int) -> None:
        """Add a row, whose values are in the order of the schema; `size` is the number of bytes of its texts."""
        self.rows.append(row)
        self.added += 1
        self.bytes += size
        if self.bytes >= BATCH_BYTES:
            self.flush()

    def add_table(self, table: pa.Table) -> None:
        """Add the rows of a table."""
        self._rows_to_table()
        self.tables.append(table)
        self.added += len(table)
        self.bytes += table.nbytes
        if self.bytes >= BATCH_BYTES:
            self.flush()

    def _rows_to_table(self) -> None:
        if self.rows:
            columns = zip(*self.rows, strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
            self.tables.append(pa.Table.from_arrays(arrays, schema=self.schema))
        self.rows = []

    def flush(self) -> None:
        """Write the buffered rows as one row group."""
        self._rows_to_table()
        if self.tables:
            table = pa.concat_tables(self.tables)
            self.file.write_table(table, row_group_size=max(len(table), 1))
        self.tables, self.bytes = [], 0


@contextmanager
def parquet_writer(
    output: Path, schema: pa.Schema, compression: str = "zstd", use_dictionary: bool | list[str] = True
) -> Iterator[BatchWriter]:
    """Open a Parquet file for rows, with options of `pq.ParquetWriter`; the file is renamed when it is complete."""
    with (
        new_file(output) as partial,
        pq.ParquetWriter(
            partial, schema, compression=compression, use_dictionary=use_dictionary, write_page_checksum=True
        ) as file,
    ):
        writer = BatchWriter(file, schema)
        yield writer
        writer.flush()


UNREADABLE = (OSError, pa.ArrowException, UnicodeDecodeError)  # pyarrow's errors; the last for names of columns
