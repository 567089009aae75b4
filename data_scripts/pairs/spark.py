"""Spark: a session with the user's configuration, tasks on its executors, its errors in one line."""

import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from data_scripts.files.errors import InputError, one_line
from data_scripts.files.storage import is_url, readable

PARTITION_BYTES = 1 << 26  # of the files of comments, for each partition of a shuffle
MIN_THREADS = 16  # that wait for tasks
SHARED = (
    "all machines of Spark must share the folders of --output, --comments and the sources: name URLs (s3://, gs://, "
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
        from pyspark import SparkConf, SparkContext
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise InputError(f"--engine spark: {error}; pip install 'convsim[spark]'") from error
    if existing := SparkSession.getActiveSession():
        yield existing
        return
    try:
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
        conf.setIfMissing("spark.sql.parquet.compression.codec", "zstd")
        if _is_local(conf.get("spark.master") or ""):
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        session = SparkSession.builder.config(conf=conf).getOrCreate()
    except (PySparkException, Py4JError, RuntimeError, OSError) as error:
        raise InputError(
            f"--engine spark: no session ({_reason(error)}); it needs Java 17 and a master that can be reached"
        ) from error
    try:
        session.sparkContext.setLogLevel("ERROR")
        yield session
    except (PySparkException, Py4JError) as error:
        reason = _reason(error)
        missing = re.search("FileNotFound|PATH_NOT_FOUND|FILE_NOT_EXIST|No such file", reason)
        raise InputError(f"--engine spark: {reason}" + (f"; {SHARED}" if missing else "")) from error
    finally:
        session.stop()


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
            raise InputError(f"{path}: a path without a scheme, but Spark runs at {master}; {SHARED}")


def size_shuffles(session: Any, files: list[Path]) -> None:
    """Set the number of partitions of shuffles by the size of the files, unless the configuration states it."""
    if not session.sparkContext.getConf().contains("spark.sql.shuffle.partitions"):
        number = sum(file.stat().st_size for file in files) // PARTITION_BYTES
        session.conf.set("spark.sql.shuffle.partitions", max(number, session.sparkContext.defaultParallelism))


def spark_path(path: Path) -> str:
    """A path or URL as Spark takes it; Hadoop's name for S3 is s3a."""
    return re.sub("^s3:", "s3a:", str(path)) if is_url(path) else path.resolve().as_uri()


def check_rows(files: list[Path], rows: int, folder: Path) -> None:
    """Compare the number of rows in files with the number that was written.

    Raises:
        InputError: they differ, because a machine wrote its files to its own disk.
    """
    found = sum(pq.read_metadata(readable(file)).num_rows for file in files)
    if found != rows:
        raise InputError(f"--engine spark: wrote {rows:,} rows to {folder}, but {found:,} are there; {SHARED}")


class SparkTasks(Executor):
    """Runs functions of this package on Spark's executors; a task whose machine is lost runs again on another one."""

    def __init__(self, session: Any) -> None:
        self.context = session.sparkContext
        self.threads = ThreadPoolExecutor(max(MIN_THREADS, 2 * self.context.defaultParallelism))
        # Executors fetch the code from here, also later ones.
        self.folder = tempfile.TemporaryDirectory(prefix="convsim-")
        if not _is_local(self.context.master):
            package = Path(__file__).parents[1]
            archive = shutil.make_archive(f"{self.folder.name}/convsim", "zip", package.parent, package.name)
            self.context.addPyFile(archive)

    def submit(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future:
        """Run a function of a module; its arguments and its result are pickled."""
        return self.threads.submit(self._run, function, args, kwargs)

    def _run(self, function: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        result = self.context.parallelize([(function, args, kwargs)], 1).map(_call).collect()[0]
        if isinstance(result, InputError):
            raise result
        return result

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Start no more tasks, and wait for those that run."""
        self.threads.shutdown(wait, cancel_futures=cancel_futures)
        if wait:  # tasks that run may need the code
            self.folder.cleanup()


def _call(task: tuple[Callable[..., Any], tuple, dict[str, Any]]) -> Any:
    function, args, kwargs = task
    try:
        return function(*args, **kwargs)
    except InputError as error:  # Spark would run the task again
        return error
