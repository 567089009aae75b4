"""Spark: a session with the user's configuration, files, tasks on its executors, its errors in one line."""

import os
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from modeling_convsim.files.errors import InputError, one_line
from modeling_convsim.files.extras import missing_package
from modeling_convsim.files.storage import is_url

PARTITION_BYTES = 1 << 26  # of the files of comments, for each partition of a shuffle
BATCH_ROWS = 10_000  # that Spark gets at a time
SHARED = (
    "all Spark machines must share the folders of --output, --comments and the sources; use URLs (s3://, gs://, "
    "hdfs://, or file:// on a disk that all of them mount under the same path)"
)


@contextmanager
def spark_session(master: str | None, memory: int, is_default: bool) -> Iterator[Any]:
    """A session with the settings of spark-defaults.conf or spark-submit, where ours do not override them.

    Args:
        master: of --spark_master, which overrides the configuration.
        memory: bytes for the driver.
        is_default: whether the user did not ask for `memory`, so that the configuration overrides it.

    Raises:
        InputError: Spark is not installed, cannot be reached, or fails.
    """
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise InputError(missing_package(error, "pyspark", "spark", "--engine spark")) from error
    existing = SparkSession.getActiveSession()
    try:
        session = existing or _start_session(master, memory, is_default)
    except (PySparkException, Py4JError, RuntimeError, OSError) as error:
        raise InputError(
            f"--engine spark: cannot start a session ({_reason(error)}); Spark needs Java 17 and a reachable master"
        ) from error
    try:
        yield session
    except (PySparkException, Py4JError) as error:
        reason = _reason(error)
        missing = re.search("FileNotFound|PATH_NOT_FOUND|FILE_NOT_EXIST|No such file", reason)
        raise InputError(f"--engine spark: {reason}" + (f"; {SHARED}" if missing else "")) from error
    finally:
        if not existing:
            session.stop()


def _start_session(master: str | None, memory: int, is_default: bool) -> Any:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

    explicit = SparkConf(loadDefaults=False)
    if master:
        explicit.setMaster(master)
    if is_default:
        os.environ.setdefault("SPARK_DRIVER_MEMORY", f"{memory >> 20}m")  # spark-defaults.conf overrides it
    else:
        explicit.set("spark.driver.memory", f"{memory >> 20}m")
    SparkContext._ensure_initialized(conf=explicit)  # starts Java, without which SparkConf knows no defaults
    conf = SparkConf()
    conf.setIfMissing("spark.master", "local[*]")
    if conf.get("spark.app.name", "pyspark-shell") == "pyspark-shell":
        conf.setAppName("convsim")
    if _is_local(conf.get("spark.master") or ""):
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    session = SparkSession.builder.config(conf=conf).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def _reason(error: Exception) -> str:
    """The cause of an error of Java, or of Python on an executor, without the stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    causes = [line for line in lines if re.match(r"(Caused by: )?[\w.]*(Error|Exception)\b.*: ", line)]
    return one_line((causes or lines or [type(error).__name__])[-1], 400)


def _is_local(master: str) -> bool:
    return master.partition("[")[0] == "local"


def check_shared(session: Any, paths: list[Path]) -> None:
    """Refuse paths without a scheme on a cluster: Spark would look for them elsewhere than this process does.

    Raises:
        InputError: a path has no scheme.
    """
    master = session.sparkContext.master
    for path in paths:
        if not _is_local(master) and not is_url(path):
            raise InputError(f"{path}: a local path, but Spark runs at {master}; {SHARED}")


def size_shuffles(session: Any, files: list[Path]) -> None:
    """Set the number of partitions of shuffles by the size of the files, unless the configuration states it."""
    if not session.sparkContext.getConf().contains("spark.sql.shuffle.partitions"):
        number = sum(file.stat().st_size for file in files) // PARTITION_BYTES
        session.conf.set("spark.sql.shuffle.partitions", max(number, session.sparkContext.defaultParallelism))


def read_files(session: Any, files: list[Path]) -> Any:
    """The rows of Parquet files, which have the columns of the first one, as a table of Spark.

    For s3:// and gs://, Spark needs connectors of Hadoop: --packages, or spark.jars.packages in its configuration.
    """
    paths = (re.sub("^s3:", "s3a:", str(file)) if is_url(file) else file.resolve().as_uri() for file in files)
    return session.read.parquet(*paths)


def without_plan(rows: Any) -> Any:
    """The rows of a table of Spark without their query plan: plans of self-joins would grow exponentially."""
    from pyspark.sql.classic.dataframe import DataFrame

    session = rows.sparkSession
    return DataFrame(session._jsparkSession.createDataFrame(rows._jdf.toJavaRDD(), rows._jdf.schema()), session)


def map_sorted(pairs: Any, function: Callable[[Iterator[pa.Table], int, int], Any], count_threads: bool) -> list[Any]:
    """Sort pairs of Spark by thread, then by the other columns, and apply a function on the executors to each part.

    Args:
        pairs: the table. A thread is in one part; the parts hold ranges of the names of threads.
        function: called with the pairs of a part, its number, and how many threads are in the parts before it (0 unless
            `count_threads`); a function of a module, or a `partial` of one. It may be called again, if a machine is
            lost.
        count_threads: whether to count the threads first.

    Returns:
        The results, in order, of the parts that have rows.
    """
    from pyspark import StorageLevel
    from pyspark.sql.functions import count_distinct, spark_partition_id

    pairs = pairs.repartitionByRange(int(pairs.sparkSession.conf.get("spark.sql.shuffle.partitions")), "thread")
    pairs = pairs.sortWithinPartitions("thread", *(name for name in pairs.columns if name != "thread"))
    starts: dict[int, int] = {}
    if count_threads:
        pairs = pairs.persist(StorageLevel.DISK_ONLY)  # so that the parts are the same when they are read again
        counts = sorted(pairs.groupBy(spark_partition_id()).agg(count_distinct("thread")).collect())
        starts = dict(zip((part for part, _ in counts), accumulate((n for _, n in counts), initial=0), strict=False))
    results = pairs.mapInArrow(partial(_map_part, function=function, starts=starts), "result binary").collect()
    return [pickle.loads(row.result) for row in results]  # noqa: S301


def _map_part(batches: Iterable[pa.RecordBatch], function: Callable, starts: dict[int, int]) -> Iterator:
    from pyspark import TaskContext

    tables = (pa.Table.from_batches([batch]) for batch in batches if len(batch))
    if (first := next(tables, None)) is not None:
        number = TaskContext.get().partitionId()
        result = function(chain([first], tables), number, starts.get(number, 0))
        yield pa.RecordBatch.from_pydict({"result": [pickle.dumps(result)]})
