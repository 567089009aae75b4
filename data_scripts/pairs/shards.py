"""Writes a split of pairs as Parquet files of about equal size."""

from concurrent.futures import Executor, Future
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from data_scripts.schemas import PAIR_SCHEMA

BATCH_ROWS = 100_000  # in a row group
SHARD_BYTES = 1 << 29  # of text, approximately; the Hub and `datasets` handle files of this size well
OFFSET_BYTES = 4  # of a text in memory, in addition to its own bytes


def shard_name(split: str, number: int, shards: int) -> str:
    """The name of a split's file, as `datasets` names it; `number` is below `shards`."""
    return f"{split}-{number:05d}-of-{shards:05d}.parquet"


def row_bytes(table: pa.Table) -> np.ndarray:
    """The bytes of text of each row in memory, (rows,) int64."""
    lengths = (pc.binary_length(column).to_numpy().astype(np.int64) + OFFSET_BYTES for column in table.columns)
    return sum(lengths, np.zeros(len(table), np.int64))


class SplitWriter:
    """Gathers the rows of one split into row groups, and row groups into files of about `SHARD_BYTES` of text.

    Args:
        folder: where the files are written.
        split: the first part of their names.
        executor: writes files in a thread while the next rows are prepared.
    """

    def __init__(self, folder: Path, split: str, executor: Executor) -> None:
        self.folder, self.split, self.executor = folder, split, executor
        self.buffer: list[pa.Table] = []
        self.rows = self.buffered_rows = self.bytes = self.shard_bytes = 0
        self.files: list[Path] = []
        self.file: pq.ParquetWriter | None = None
        self.writing: Future | None = None

    def add(self, table: pa.Table) -> None:
        """Add rows, and write all complete row groups."""
        self.buffer.append(table)
        self.buffered_rows += len(table)
        while self.buffered_rows >= BATCH_ROWS:  # row groups do not depend on the size of the tables
            buffered = pa.concat_tables(self.buffer)
            self._start(buffered.slice(0, BATCH_ROWS))
            self.buffer, self.buffered_rows = [buffered.slice(BATCH_ROWS)], len(buffered) - BATCH_ROWS

    def _start(self, table: pa.Table) -> None:
        self._wait()
        self.writing = self.executor.submit(self._write, table)

    def _wait(self) -> None:
        if self.writing:
            self.writing.result()

    def _write(self, table: pa.Table) -> None:
        if self.file is None:
            self.files.append(self.folder / f"{self.split}-{len(self.files):05d}.parquet")
            self.file = pq.ParquetWriter(
                self.files[-1],
                PAIR_SCHEMA,
                compression="zstd",
                use_dictionary=["thread", "source"],
                write_page_checksum=True,
            )
        self.file.write_table(table.combine_chunks(), row_group_size=len(table))
        size = int(row_bytes(table).sum())
        self.rows += len(table)
        self.bytes += size
        self.shard_bytes += size
        if self.shard_bytes >= SHARD_BYTES:
            self._close()

    def _close(self) -> None:
        if self.file is not None:
            self.file.close()
        self.file, self.shard_bytes = None, 0

    def finish(self) -> None:
        """Write the buffered rows, and rename the files, whose final names contain their number."""
        if self.buffered_rows:
            self._start(pa.concat_tables(self.buffer))
        self._wait()
        self._close()
        for number, file in enumerate(self.files):
            file.rename(self.folder / shard_name(self.split, number, len(self.files)))
