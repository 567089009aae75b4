"""Parquet files at URLs for which Spark has no connector: its executors read and write them with pyarrow.

Spark's own distribution reads file:// and hdfs://. For s3:// and gs:// it needs connectors of Hadoop, which Spark's
Python package does not hold.
"""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq

from data_scripts.files.storage import is_object_storage, readable, storage_path
from data_scripts.pairs.spark import spark_path

ROWS = 100_000  # of a row group
BATCH_ROWS = 10_000  # that Spark gets at a time


def has_connector(session: Any, scheme: str) -> bool:
    """Whether Spark itself reads and writes URLs of this scheme."""
    from py4j.protocol import Py4JJavaError

    try:
        session._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(scheme, session._jsc.hadoopConfiguration())
    except Py4JJavaError:
        return False
    return True


def uses_pyarrow(session: Any, path: Path) -> bool:
    """Whether `read_files` and `write_files` are needed for a path."""
    return is_object_storage(path) and not has_connector(session, spark_path(path).partition(":")[0])


def read_files(session: Any, files: list[Path]) -> Any:
    """The rows of Parquet files, which have the columns of the first one, as a table of Spark; a task a row group."""
    from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema

    schema = from_arrow_schema(pq.read_schema(readable(files[0])))
    groups = [
        (str(file), number) for file in files for number in range(pq.read_metadata(readable(file)).num_row_groups)
    ]
    row_groups = session.createDataFrame(groups, "file string, number int").repartition(max(len(groups), 1))
    return row_groups.mapInArrow(partial(_read_groups, schema=to_arrow_schema(schema)), schema)


def _read_groups(batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for row in batch.to_pylist():
            file = pq.ParquetFile(readable(storage_path(row["file"])))
            table = file.read_row_group(row["number"], columns=schema.names).select(schema.names).cast(schema)
            yield from table.to_batches(BATCH_ROWS)


def write_files(rows: Any, folder: Path) -> int:
    """Write a table of Spark as Parquet, a file for each of its partitions that has rows; returns the number of rows.

    The files have the names that Spark gives them, in the order of the partitions. There is at least one.
    """
    from pyspark.sql.pandas.types import to_arrow_schema

    schema = to_arrow_schema(rows.schema)
    write = partial(_write_partition, folder=str(folder), schema=schema)
    parts = rows.mapInArrow(write, "rows long").collect()
    if not parts:
        _write_part(folder, 0, schema, [])
    return sum(part["rows"] for part in parts)


def _write_partition(batches: Iterable[pa.RecordBatch], folder: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    tables = _row_groups(batches)
    if (first := next(tables, None)) is not None:
        number = cast(TaskContext, TaskContext.get()).partitionId()
        written = _write_part(storage_path(folder), number, schema, chain([first], tables))
        yield pa.RecordBatch.from_pydict({"rows": [written]})


def _write_part(folder: Path, number: int, schema: pa.Schema, tables: Iterable[pa.Table]) -> int:
    """Write a file, or replace it if the task runs again because its machine was lost; returns the number of rows."""
    written = 0
    file = (folder / f"part-{number:05d}.parquet").open("wb")
    with file, pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for table in tables:
            writer.write_table(table.cast(schema), row_group_size=ROWS)
            written += len(table)
    return written


def _row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches joined to tables of at least `ROWS` rows; the last one may be shorter, and none is empty."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= ROWS:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if sum(map(len, waiting)):
        yield pa.Table.from_batches(waiting)
