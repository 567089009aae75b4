"""A Spark standalone cluster on this machine against DuckDB: the same shards, also if a worker is killed meanwhile.

    python -m tests.benchmarks.spark_cluster [DUMP...] [--comments 200000 2000000] [--s3]

starts a master and two workers on the loopback interface, each with a scratch folder of its own, and runs `data_scripts
reddit` with DuckDB and on the cluster. With the smallest number of comments, it runs once more on the cluster, where
one worker and its executors are killed after half of the jobs. Without dumps, it makes them. A table shows the time,
the share of it in which Spark ran no query and no job, the memory of the driver, and the bytes that shuffles wrote; the
second and the last are from Spark's event log. With several numbers of comments, the ratio of the driver's memory
between the largest and the smallest follows. The exit code is 1 if a shard differs from DuckDB's, or if this ratio is
above 1.1.

With --s3, the cluster reads and writes object storage, a server on the loopback interface that holds all in memory.

The folders are in TMPDIR; what a run wrote is removed after it.
"""

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.benchmarks import synthetic_dumps
from tests.benchmarks.material import ROOT
from tests.loopback_s3 import BUCKET, LoopbackS3

HOST, WORKERS, START_SECONDS = "127.0.0.1", 2, 300
LABELS = {"duckdb": "DuckDB", "spark": "Spark, two workers", "killed": "Spark, one of two workers killed"}
DEPLOY = "org.apache.spark.deploy"
DRIVER = "512MiB"  # the heap of the driver; it bounds the garbage that Java keeps
DEFAULTS = "spark-defaults.conf"
MAX_RATIO = 1.1  # of the driver's memory


@contextmanager
def cluster(folder: Path) -> Iterator[tuple[str, list[subprocess.Popen]]]:
    """A master and its workers: (URL, workers); all of their processes end with the context."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        port = free.getsockname()[1]
    master = f"spark://{HOST}:{port}"
    with ExitStack() as stack:
        _start(stack, folder / "master.log", f"{DEPLOY}.master.Master", "--host", HOST, "--port", str(port))
        _wait_for(folder / "master.log", "I have been elected leader")
        workers = []
        for number in range(WORKERS):
            log, scratch = folder / f"worker-{number}.log", folder / f"scratch-{number}"
            options = ["--host", HOST, "--cores", "1", "--memory", "2g", "--work-dir", str(scratch), master]
            workers.append(_start(stack, log, f"{DEPLOY}.worker.Worker", *options))
            _wait_for(log, "Successfully registered with master")
        yield master, workers


def _start(stack: ExitStack, log: Path, *words: str) -> subprocess.Popen:
    import pyspark  # only here, so that the tests do not need it

    home = Path(pyspark.__file__).parent
    environment = {**os.environ, "SPARK_HOME": str(home), "SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": sys.executable}
    command = [str(home / "bin" / "spark-class"), *words]
    output = stack.enter_context(log.open("w"))
    process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, env=environment)
    stack.callback(kill_tree, process)
    return process


def _wait_for(log: Path, text: str) -> None:
    for _ in range(START_SECONDS):
        if text in log.read_text(errors="replace"):
            return
        time.sleep(1)
    raise SystemExit(f"Spark did not start within {START_SECONDS} s:\n{log.read_text(errors='replace')[-2000:]}")


def kill_tree(process: subprocess.Popen) -> None:
    """Kill a process and all that it started."""
    if process.poll() is None:
        for one in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
            one.kill()
    process.wait()


@dataclass
class Run:
    """What a run of `data_scripts reddit` took.

    Attributes:
        seconds: wall time.
        python_mb: peak memory of the process.
        java_mb: peak memory of its Java, 0 with DuckDB.
        outside: the share of the time in which Spark ran no query and no task.
        shuffled_mb: bytes that shuffles wrote.
        shards: name of a shard -> its SHA-256.
    """

    seconds: float
    python_mb: float
    java_mb: float
    outside: float = 0
    shuffled_mb: float = 0
    shards: dict[str, str] | None = None


def run(words: list[str], settings: Path | None = None, kill: subprocess.Popen | None = None, jobs: int = 0) -> Run:
    """Run `data_scripts reddit`, and measure its time and memory.

    Args:
        words: the command line.
        settings: the folder of spark-defaults.conf, to which Spark writes its events.
        kill: a process to kill with all that it started.
        jobs: the number of jobs after which it is killed.
    """
    started = time.monotonic()
    result = Run(0, 0, 0)
    environment = {**os.environ, "SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": sys.executable}
    if settings:
        environment["SPARK_CONF_DIR"] = str(settings)
    command = [sys.executable, "-m", "data_scripts", "reddit", *words]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        time.sleep(0.5)
        if kill and settings and finished_jobs(settings) >= jobs:
            print(f"killing a worker after {jobs} jobs, {time.monotonic() - started:.0f} s", flush=True)
            kill_tree(kill)
            kill = None
        python, java = _memory(process)
        result.python_mb, result.java_mb = max(result.python_mb, python), max(result.java_mb, java)
    if process.returncode:
        raise SystemExit(f"data_scripts reddit {' '.join(words)} ended with exit code {process.returncode}")
    if kill:
        raise SystemExit("the command ended before a worker was killed")
    result.seconds = time.monotonic() - started
    return result


def _memory(process: subprocess.Popen) -> tuple[float, float]:
    """The memory of a process and of its Java, in MB; without Java, with the processes that read dumps."""
    try:
        own = psutil.Process(process.pid)
        sizes = [(child.name(), child.memory_info().rss / 1e6) for child in own.children(recursive=True)]
        python = own.memory_info().rss / 1e6
    except psutil.NoSuchProcess:
        return 0, 0
    # Not their sum: a process that is about to start another one is there twice for a moment.
    java = max((size for name, size in sizes if name == "java"), default=0.0)
    return (python, java) if java else (python + sum(size for _, size in sizes), 0.0)


def finished_jobs(settings: Path) -> int:
    """The number of jobs that have ended, from the event log beside a spark-defaults.conf; 0 before there is one."""
    logs = (path for path in settings.iterdir() if path.name != DEFAULTS)
    return sum(log.read_text(encoding="utf-8").count('"Event":"SparkListenerJobEnd"') for log in logs)


def read_events(log: Path) -> tuple[float, int]:
    """The seconds in which Spark ran a query or a job, and the bytes that shuffles wrote, from an event log."""
    starts: dict[tuple[str, int], int] = {}
    busy: list[tuple[int, int]] = []
    shuffled = 0
    for line in log.open(encoding="utf-8"):
        event = json.loads(line)
        match event["Event"].rpartition(".")[2]:
            case "SparkListenerJobStart":
                starts["job", event["Job ID"]] = event["Submission Time"]
            case "SparkListenerJobEnd":
                busy.append((starts.pop(("job", event["Job ID"])), event["Completion Time"]))
            case "SparkListenerSQLExecutionStart":
                starts["query", event["executionId"]] = event["time"]
            case "SparkListenerSQLExecutionEnd":
                busy.append((starts.pop(("query", event["executionId"])), event["time"]))
            case "SparkListenerTaskEnd":
                written = (event.get("Task Metrics") or {}).get("Shuffle Write Metrics", {})
                shuffled += written.get("Shuffle Bytes Written", 0)
    return union_length(busy) / 1000, shuffled


def union_length(intervals: list[tuple[int, int]]) -> int:
    """The length of the union of intervals."""
    total, end = 0, 0
    for first, last in sorted(intervals):
        total += max(last - max(first, end), 0)
        end = max(end, last)
    return total


def shards(checksums: str) -> dict[str, str]:
    """The SHA-256 of each shard of a dataset, from its SHA256SUMS."""
    lines = [line.split() for line in checksums.splitlines()]
    return {name: digest for digest, name in lines if name.endswith(".parquet")}


def compare(dumps: list[Path], folder: Path, names: Sequence[str], server: LoopbackS3 | None = None) -> dict[str, Run]:
    """Run `data_scripts reddit` on dumps as `names` say, with DuckDB first; what a run writes is removed after it.

    Args:
        dumps: on a disk.
        folder: a new folder.
        names: keys of `LABELS`.
        server: where the cluster reads and writes; None for the disk.
    """
    runs: dict[str, Run] = {}
    jobs = 0
    for name in names:
        (folder / name).mkdir(parents=True)
        output = folder / name / "pairs"
        if name == "duckdb":
            runs[name] = run([*map(str, dumps), "--output", str(output)])
        else:
            # A new cluster each time: the killed worker does not return.
            with cluster(folder / name) as (master, workers):
                storage = f"s3://{BUCKET}" if server else (folder / name).as_uri()
                if server:
                    server.objects = {f"dumps/{dump.name}": dump.read_bytes() for dump in dumps}
                sources = [f"{storage}/dumps"] if server else [dump.as_uri() for dump in dumps]
                words = [*sources, "--output", f"{storage}/pairs", "--comments", f"{storage}/comments"]
                words += ["--engine", "spark", "--spark_master", master, "--memory_limit", DRIVER]
                killed = workers[0] if name == "killed" else None
                settings = _event_settings(folder / name / "events")
                runs[name] = run(words, settings, killed, jobs // 2)
            jobs = finished_jobs(settings)
            [log] = (path for path in settings.iterdir() if path.name != DEFAULTS)
            busy, shuffled = read_events(log)
            runs[name].outside, runs[name].shuffled_mb = 1 - busy / runs[name].seconds, shuffled / 1e6
        on_server = server if name != "duckdb" else None
        checksums = on_server.objects["pairs/SHA256SUMS"] if on_server else (output / "SHA256SUMS").read_bytes()
        runs[name].shards = shards(checksums.decode())
        shutil.rmtree(folder / name)
    return runs


def _event_settings(folder: Path) -> Path:
    """A folder with a spark-defaults.conf, to which Spark writes its events."""
    folder.mkdir()
    settings = {"enabled": "true", "dir": folder.as_uri(), "rolling.enabled": "false", "compress": "false"}
    (folder / DEFAULTS).write_text("".join(f"spark.eventLog.{name} {value}\n" for name, value in settings.items()))
    return folder


def print_table(runs: dict[str, dict[str, Run]]) -> bool:
    """Print the runs by comments and name; returns whether all of their shards are those of DuckDB."""
    print("| comments | | seconds | outside the engine | MB of the driver: Python, Java | MB shuffled | shards |")
    print("|---|---|---|---|---|---|---|")
    same = True
    for comments, parts in runs.items():
        expected = parts["duckdb"].shards or {}
        for name, each in parts.items():
            equal = each.shards == expected
            same = same and equal
            spark = name != "duckdb"
            outside, shuffled = (f"{each.outside:.0%}", f"{each.shuffled_mb:.0f}") if spark else ("", "")
            memory = f"{each.python_mb:.0f}" + (f", {each.java_mb:.0f}" if spark else "")
            state = "the same" if equal else "DIFFERENT"
            cells = [comments, LABELS[name], f"{each.seconds:.0f}", outside, memory, shuffled]
            print("|", " | ".join([*cells, f"{len(each.shards or {})}, {state}"]), "|")
    return same


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.spark_cluster", description=__doc__)
    parser.add_argument("dumps", type=Path, nargs="*", metavar="DUMP", help="dumps of comments")
    parser.add_argument(
        "--comments",
        type=int,
        nargs="+",
        default=[200_000],
        metavar="N",
        help="without dumps: make them, with this many comments in all (default: 200000)",
    )
    parser.add_argument("--s3", action="store_true", help="the cluster reads and writes object storage")
    options = parser.parse_args(arguments)
    runs: dict[str, dict[str, Run]] = {}
    with tempfile.TemporaryDirectory() as temporary, ExitStack() as stack:
        folder, server = Path(temporary), None
        if options.s3:
            server = stack.enter_context(LoopbackS3())
            os.environ.update(server.environment())  # of the commands and the workers
        if options.dumps:
            dumps = [dump.resolve() for dump in options.dumps]
            runs["real"] = compare(dumps, folder / "real", list(LABELS), server)
        for comments in [] if options.dumps else sorted(options.comments):
            synthetic_dumps.main([str(folder / "dumps"), "--comments", str(comments)])
            names = LABELS if not runs else ("duckdb", "spark")
            dumps = sorted((folder / "dumps").iterdir())
            runs[f"{comments:,}"] = compare(dumps, folder / str(comments), list(names), server)
            shutil.rmtree(folder / "dumps")
    same = print_table(runs)
    if len(runs) == 1:
        return 0 if same else 1
    memory = [parts["spark"].python_mb + parts["spark"].java_mb for parts in runs.values()]
    ratio = memory[-1] / memory[0]
    print(f"memory of the driver, most comments over fewest: {ratio:.2f} (at most {MAX_RATIO})")
    return 0 if same and ratio <= MAX_RATIO else 1


if __name__ == "__main__":
    raise SystemExit(main())
