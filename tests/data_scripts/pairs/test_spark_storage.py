"""Spark without a connector for object storage: its tasks read and write with pyarrow, on a server of the tests."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from data_scripts.files.storage import readable, storage_path
from data_scripts.pairs import spark_storage
from data_scripts.pairs.engines import connect, materialize, read_parquet, sorted_files
from tests.loopback_s3 import LoopbackS3

ROWS = {"key": [7, 3, None, 5, 1, 3, 9], "text": ["g", "c", "é\n", "e", None, "b", ""]}


def rows_of(files: list[Path]) -> list[tuple]:
    return [tuple(row.values()) for file in files for row in pq.read_table(readable(file)).to_pylist()]


def test_tables_are_read_and_written_by_tasks(spark, s3_server: LoopbackS3, tmp_path, monkeypatch):
    bucket = storage_path("s3://bucket")
    tables = [pa.table(ROWS).slice(0, 4), pa.table(ROWS).slice(4).select(["text", "key"])]  # in another order
    for name, table in zip(("a", "b"), tables, strict=True):
        with (bucket / f"{name}.parquet").open("wb") as file:
            pq.write_table(table, file, row_group_size=3)
    files = [bucket / "a.parquet", bucket / "b.parquet"]
    with connect(tmp_path, "512MiB", engine="spark", spark_master="local[1]") as database:
        session = database._session
        # An earlier test may have started Java, whose environment tasks have otherwise.
        session.sparkContext.environment.update(s3_server.environment())
        assert spark_storage.uses_pyarrow(session, bucket)
        assert not any(spark_storage.uses_pyarrow(session, storage_path(url)) for url in (str(tmp_path), "file:///a"))
        table = read_parquet(database, files)
        assert sorted(table.to_pyarrow().to_pylist(), key=str) == sorted(pa.table(ROWS).to_pylist(), key=str)
        # Partitions of several row groups, and one after another.
        [monkeypatch.setattr(spark_storage, name, 2) for name in ("ROWS", "BATCH_ROWS")]
        written = sorted_files(table, bucket / "out", "key")
        keys = [key for key, _ in rows_of(written)]
        assert keys == sorted(ROWS["key"], key=lambda key: -1 if key is None else key)
        assert rows_of(written)[2:4] == [(3, "b"), (3, "c")]  # then by the other columns
        assert {file.name for file in written} <= {"part-00000.parquet", "part-00001.parquet"}
        none = materialize(table.filter(table.key > 100), bucket / "scratch", "none")
        assert none.count().execute() == 0 and none.columns == ("key", "text")
    assert "scratch/none/part-00000.parquet" in s3_server.objects
