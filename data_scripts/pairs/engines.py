"""The engines that join comments: DuckDB in this process, and Spark on this machine or on a cluster.

Both engines run the same Ibis queries (`filters`, `replies`, `turns`). This module connects to them, lets them read
files, and streams results that are larger than memory.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, cast

import duckdb
import ibis
import ibis.expr.types as ir
import pyarrow as pa
from tqdm import tqdm

from data_scripts.files.errors import InputError
from data_scripts.files.storage import is_url
from data_scripts.pairs.engine_options import MEMORY_LIMIT, memory_bytes
from data_scripts.pairs.spark import check_rows, spark_path, spark_session
from data_scripts.pairs.spark_storage import read_files, uses_pyarrow, write_files

Database = Any  # an Ibis backend


@contextmanager
def connect(
    scratch: Path, memory_limit: str = MEMORY_LIMIT, engine: str = "duckdb", spark_master: str | None = None
) -> Iterator[Database]:
    """The Ibis backend with the options of `engine_options`; DuckDB spills to `scratch`.

    Raises:
        InputError: the engine is not installed, cannot be reached, or its memory limit is invalid or too small.
    """
    if engine == "spark":
        memory = memory_bytes(memory_limit)
        with spark_session(spark_master, memory, memory_limit == MEMORY_LIMIT) as session:
            yield ibis.pyspark.connect(session)
        return
    memory_bytes(memory_limit)
    database = ibis.duckdb.connect(temp_directory=str(scratch), memory_limit=memory_limit)
    database.raw_sql("SET preserve_insertion_order = false")  # queries ask for an order where it matters
    database.raw_sql("SET enable_progress_bar = true")  # for `query_progress`; our own bar is shown
    database.raw_sql("SET enable_progress_bar_print = false")
    try:
        yield database
    except duckdb.OutOfMemoryException as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"--memory_limit {memory_limit}: not enough for the join and the sort ({reason}); raise it"
        ) from error
    except (duckdb.InvalidInputException, duckdb.IOException) as error:
        raise InputError(
            f"{error}; if a file of --comments is damaged, delete it, and run the command again"
        ) from error
    finally:
        database.disconnect()


def read_parquet(database: Database, files: list[Path]) -> ir.Table:
    """The rows of Parquet files as one table."""
    name = ibis.util.gen_name("convsim")
    if database.name == "pyspark":
        session = database._session
        if any(uses_pyarrow(session, file) for file in files):
            table = read_files(session, files)
        else:
            table = session.read.parquet(*map(spark_path, files))
        table.createOrReplaceTempView(name)
        return database.table(name)
    filesystems = {path.protocol: path.fs for path in cast(list[Any], files) if is_url(path)}
    if not filesystems:
        return database.read_parquet(files)
    for filesystem in filesystems.keys() - set(database.con.list_filesystems()):
        database.con.register_filesystem(filesystems[filesystem])
    # Without Ibis's `read_parquet`, which installs an extension of DuckDB for such URLs.
    database.con.read_parquet([str(file) for file in files]).create_view(name)
    return database.table(name)


def materialize(table: ir.Table, folder: Path, name: str) -> ir.Table:
    """Compute the rows of a table now, for expressions that need them more than once.

    DuckDB stores them within its memory limit and spills the rest to disk; Spark stores them as Parquet in `folder`.
    """
    database = table.get_backend()
    if database.name == "duckdb":
        stored = ibis.util.gen_name(name)
        with _progress(database, name):
            database.raw_sql(f'CREATE TEMP TABLE "{stored}" AS {ibis.to_sql(table, dialect="duckdb")}')
        return database.table(stored)
    return read_parquet(database, _spark_parquet(table, folder / name))


def stream_rows(table: ir.Table, label: str, rows: int) -> Iterator[pa.Table]:
    """The rows of a table in its order, at most `rows` at a time; memory does not grow with the table.

    Args:
        table: an expression of DuckDB's backend.
        label: the progress bar's text until the first rows arrive.
        rows: the maximum number of rows at a time.
    """
    database = table.get_backend()
    reader = database.con.sql(ibis.to_sql(table, dialect="duckdb")).to_arrow_reader(rows)
    with _progress(database, label):
        first = next(reader, None)
    if first is not None:
        for batch in chain([first], reader):
            yield pa.Table.from_batches([batch])


def _spark_parquet(table: ir.Table, folder: Path, by: str | None = None) -> list[Path]:
    """Let Spark write a table as Parquet; returns the files, in order.

    Args:
        table: an expression of Spark's backend.
        folder: a new folder.
        by: a column; the files then hold ranges of its values, and each is sorted by it, then by the other columns.
    """
    from pyspark.sql import Observation
    from pyspark.sql.functions import count, lit

    session = table.get_backend()._session
    rows = session.sql(ibis.to_sql(table, dialect="pyspark"))
    if by:
        rows = rows.repartitionByRange(int(session.conf.get("spark.sql.shuffle.partitions")), by)
        rows = rows.sortWithinPartitions(by, *(name for name in table.columns if name != by))
    if uses_pyarrow(session, folder):
        return written_files(folder, write_files(rows, folder))
    observation = Observation()
    rows.observe(observation, count(lit(1)).alias("rows")).write.parquet(spark_path(folder))
    return written_files(folder, observation.get["rows"])


def sorted_files(table: ir.Table, folder: Path, by: str) -> list[Path]:
    """Let Spark sort a table by a column, then by the others; all rows with the same value of it are in one file."""
    return _spark_parquet(table, folder / "sorted", by)


def written_files(folder: Path, rows: int) -> list[Path]:
    """The files that Spark wrote, in order.

    Raises:
        InputError: they hold fewer than `rows` rows, because a machine wrote its files to its own disk.
    """
    files = sorted(folder.glob("part-*.parquet"))
    check_rows(files, rows, folder)
    return files


@contextmanager
def _progress(database: Database, label: str) -> Iterator[None]:
    """Show the progress of DuckDB, which another thread reads while DuckDB works in this one."""
    if database.name != "duckdb":
        yield
        return
    done = threading.Event()

    def watch(bar: tqdm) -> None:
        while not done.wait(0.5):
            bar.update(max(min(database.con.query_progress(), 100) - bar.n, 0))

    with tqdm(
        total=100, delay=2, desc=label, unit="%", bar_format="{desc}: {percentage:3.0f}% |{bar}| {elapsed}"
    ) as bar:
        thread = threading.Thread(target=watch, args=(bar,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
