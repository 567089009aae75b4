"""The engines that join texts: DuckDB in this process, and Spark on this machine or on a cluster.

Both engines run the same Ibis queries (`filters`, `replies`, `turns`). This module connects to them, lets them read
files, and streams results that are larger than memory.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, cast

import duckdb
import ibis
import ibis.expr.types as ir
import pyarrow as pa
from tqdm import tqdm

from data_scripts.pairs.options import MEMORY_LIMIT, memory_bytes
from data_scripts.pairs.spark import read_files, spark_session, without_plan
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.storage import is_url

BATCH_ROWS = 100_000  # that are prepared together
Database = Any  # an Ibis backend


@contextmanager
def connect(
    scratch: Path, memory_limit: str = MEMORY_LIMIT, engine: str = "duckdb", spark_master: str | None = None
) -> Iterator[Database]:
    """The Ibis backend with the options of `add_engine_arguments`; DuckDB spills to `scratch`.

    Raises:
        InputError: the engine is not installed, cannot be reached, or its memory limit is invalid or too small.
    """
    memory = memory_bytes(memory_limit)
    if engine == "spark":
        with spark_session(spark_master, memory, memory_limit == MEMORY_LIMIT) as session:
            yield ibis.pyspark.connect(session)
        return
    database = ibis.duckdb.connect(temp_directory=str(scratch), memory_limit=memory_limit)
    database.raw_sql("SET preserve_insertion_order = false")  # queries ask for an order where it matters
    with suppress(duckdb.InvalidInputException):  # in a notebook, it needs ipywidgets; without, our bar stays at 0
        database.raw_sql("SET enable_progress_bar = true")  # for `query_progress`
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
    """The rows of Parquet files as one table; a folder named COLUMN=VALUE, as Hive names them, adds no column."""
    name = ibis.util.gen_name("convsim")
    if database.name == "pyspark":
        read_files(database._session, files).createOrReplaceTempView(name)
        return database.table(name)
    filesystems = {path.protocol: path.fs for path in cast(list[Any], files) if is_url(path)}
    if not filesystems:
        return database.read_parquet(files, hive_partitioning=False)
    for filesystem in filesystems.keys() - set(database.con.list_filesystems()):
        database.con.register_filesystem(filesystems[filesystem])
    # Without Ibis's `read_parquet`, which installs an extension of DuckDB for such URLs.
    database.con.read_parquet([str(file) for file in files], hive_partitioning=False).create_view(name)
    return database.table(name)


def materialize(table: ir.Table, label: str) -> ir.Table:
    """Keep the rows of a table, within the engine's memory limit and then on disk, for queries that need them again.

    `label` is the progress bar's text.
    """
    database, name = table.get_backend(), ibis.util.gen_name("convsim")
    if database.name == "pyspark":  # without Ibis's `cache`, which fails if the session ends before the table
        rows = database._session.sql(ibis.to_sql(table, dialect="pyspark"))
        without_plan(rows).cache().createOrReplaceTempView(name)
    else:
        with _progress(database, label):
            database.raw_sql(f'CREATE TEMP TABLE "{name}" AS {ibis.to_sql(table, dialect="duckdb")}')
    return database.table(name)


def stream_rows(table: ir.Table) -> Iterator[pa.Table]:
    """The rows of a table of DuckDB in its order, `BATCH_ROWS` at a time; memory does not grow with the table."""
    database = table.get_backend()
    reader = database.con.sql(ibis.to_sql(table, dialect="duckdb")).to_arrow_reader(BATCH_ROWS)
    with _progress(database, "join and sort"):
        first = next(reader, None)
    if first is not None:
        for batch in chain([first], reader):
            yield pa.Table.from_batches([batch])


@contextmanager
def _progress(database: Database, label: str) -> Iterator[None]:
    """Show the progress of DuckDB, which another thread reads while DuckDB works in this one."""
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
