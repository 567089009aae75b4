"""The engines that join comments: DuckDB in this process, and Spark on this machine or on a cluster.

Both engines run the same Ibis queries (`filters`, `replies`, `turns`). This module connects to them, lets them read
files, and streams results that are larger than memory.
"""

import argparse
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any

import duckdb
import ibis
import ibis.expr.types as ir
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from data_scripts.errors import InputError
from data_scripts.join.options import memory_bytes

Database = Any  # an Ibis backend


@contextmanager
def connect(args: argparse.Namespace, scratch: Path) -> Iterator[Database]:
    """The Ibis backend that `--engine` names, DuckDB for commands without this option; DuckDB spills to `scratch`.

    Raises:
        InputError: the engine is not installed, cannot be reached, or its memory limit is invalid or too small.
    """
    engine = getattr(args, "engine", "duckdb")
    if engine == "spark":
        with _spark(args.spark_master, memory_bytes(args.memory_limit)) as database:
            yield database
        return
    memory_bytes(args.memory_limit)
    database = ibis.duckdb.connect(temp_directory=str(scratch), memory_limit=args.memory_limit)
    database.raw_sql("SET preserve_insertion_order = false")  # queries ask for an order where it matters
    database.raw_sql("SET enable_progress_bar = true")  # for `query_progress`; our own bar is shown
    database.raw_sql("SET enable_progress_bar_print = false")
    try:
        yield database
    except duckdb.OutOfMemoryException as error:
        reason = str(error).splitlines()[0]
        raise InputError(
            f"--memory_limit {args.memory_limit}: not enough for the join and the sort ({reason}); raise it"
        ) from error
    finally:
        database.disconnect()


@contextmanager
def _spark(master: str | None, memory: int) -> Iterator[Database]:
    try:
        from py4j.protocol import Py4JJavaError
        from pyspark import SparkConf
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise InputError(f"--engine spark: {error}; pip install 'convsim[spark]'") from error
    conf = SparkConf()
    if master or not conf.contains("spark.master"):
        conf.setMaster(master or "local[*]")
    for key, value in {
        "spark.app.name": "convsim",
        "spark.driver.memory": f"{memory >> 20}m",  # with a local master, the driver does all the work
        "spark.ui.showConsoleProgress": "true",
        "spark.sql.parquet.compression.codec": "zstd",
    }.items():
        conf.setIfMissing(key, value)
    existing = SparkSession.getActiveSession()
    try:
        session = existing or SparkSession.builder.config(conf=conf).getOrCreate()
    except (PySparkException, RuntimeError, OSError) as error:
        raise InputError(
            f"--engine spark: no session ({error}); it needs Java 17 and a master that can be reached"
        ) from error
    try:
        session.sparkContext.setLogLevel("ERROR")
        yield ibis.pyspark.connect(session)
    except (PySparkException, Py4JJavaError) as error:
        reason = str(error)
        if "FileNotFound" not in reason and "PATH_NOT_FOUND" not in reason and "FILE_NOT_EXIST" not in reason:
            raise
        line = next((line.strip() for line in reason.splitlines() if "NOT" in line or "NotFound" in line), "")
        raise InputError(
            f"--engine spark: a machine cannot read a file ({line[:300]}); all machines of Spark must share the folder "
            "of --output, and of --comments or the sources: choose folders on a file system that they share"
        ) from error
    finally:
        if existing is None:
            session.stop()


def read_parquet(database: Database, files: list[Path]) -> ir.Table:
    """The rows of Parquet files as one table."""
    if database.name != "pyspark":
        return database.read_parquet(files)
    name = ibis.util.gen_name("convsim")
    database._session.read.parquet(*(str(file.resolve()) for file in files)).createOrReplaceTempView(name)
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
    if database.name == "pyspark":
        return read_parquet(database, _spark_parquet(table, folder / name))
    return table


def stream_rows(table: ir.Table, folder: Path, label: str, rows: int) -> Iterator[pa.Table]:
    """The rows of a table in its order, at most `rows` at a time; memory does not grow with the table.

    Args:
        table: an expression of the engine's backend.
        folder: where Spark writes the rows for this process to read.
        label: the progress bar's text until the first rows arrive.
        rows: the maximum number of rows at a time.
    """
    database = table.get_backend()
    if database.name == "pyspark":
        for file in _spark_parquet(table, folder / "rows"):
            for batch in pq.ParquetFile(file).iter_batches(batch_size=rows):
                yield pa.Table.from_batches([batch])
        return
    if database.name == "duckdb":
        reader = database.con.sql(ibis.to_sql(table, dialect="duckdb")).to_arrow_reader(rows)
    else:
        reader = table.to_pyarrow_batches(chunk_size=rows)
    with _progress(database, label):
        first = next(reader, None)
    if first is not None:
        for batch in chain([first], reader):
            yield pa.Table.from_batches([batch])


def _spark_parquet(table: ir.Table, folder: Path) -> list[Path]:
    """Let Spark write a table as Parquet; returns the files in the table's order."""
    from pyspark.sql import Observation
    from pyspark.sql.functions import count, lit

    session, observation = table.get_backend()._session, Observation()
    rows = session.sql(ibis.to_sql(table, dialect="pyspark")).observe(observation, count(lit(1)).alias("rows"))
    rows.write.parquet(str(folder.resolve()))
    return written_files(folder, observation.get["rows"])


def written_files(folder: Path, rows: int) -> list[Path]:
    """The files that Spark wrote, in order.

    Raises:
        InputError: they hold fewer than `rows` rows, because a machine wrote its files to its own disk.
    """
    files = sorted(folder.glob("part-*.parquet"))
    found = sum(pq.read_metadata(file).num_rows for file in files)
    if found != rows:
        raise InputError(
            f"--engine spark: wrote {rows:,} rows to {folder}, but {found:,} are there; all machines of Spark must "
            "share this folder: choose an --output on a file system that they share"
        )
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
