"""A Spark standalone cluster on this machine against DuckDB: the same shards, also if a worker is killed meanwhile.

    python -m tests.benchmarks.spark_cluster [DUMP...] [--comments 200000]

starts a master and two workers on the loopback interface, each with a scratch folder of its own, and runs `data_scripts
reddit` with DuckDB, on the cluster, and on the cluster while one worker and its executors are killed. It prints a table
of seconds and of the driver's memory, and ends with exit code 1 if a shard differs. Without dumps, it makes them.
"""

import argparse
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pyspark

from tests.benchmarks import synthetic_dumps
from tests.benchmarks.material import ROOT

HOST, WORKERS, START_SECONDS = "127.0.0.1", 2, 90
LABELS = {"duckdb": "DuckDB", "spark": "Spark, two workers", "killed": "Spark, one of two workers killed"}
DEPLOY = "org.apache.spark.deploy"


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


def run(words: list[str], kill: subprocess.Popen | None = None, after: float = 0) -> tuple[float, float]:
    """Run `data_scripts reddit`; returns seconds and the largest memory of the process and its Java, in MB.

    Args:
        words: the command line.
        kill: a process to kill with all that it started.
        after: seconds after which it is killed.
    """
    started, peak = time.monotonic(), 0.0
    environment = {**os.environ, "SPARK_LOCAL_IP": HOST, "PYSPARK_PYTHON": sys.executable}
    command = [sys.executable, "-m", "data_scripts", "reddit", *words]
    process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.DEVNULL)
    while process.poll() is None:
        time.sleep(0.5)
        if kill and time.monotonic() - started > after:
            print(f"killing a worker after {time.monotonic() - started:.0f} s")
            kill_tree(kill)
            kill = None
        peak = max(peak, _memory(process))
    if process.returncode:
        raise SystemExit(f"data_scripts reddit {' '.join(words)} ended with exit code {process.returncode}")
    if kill:
        raise SystemExit("the command ended before a worker was killed")
    return time.monotonic() - started, peak / 1e6


def _memory(process: subprocess.Popen) -> float:
    total = 0
    try:
        for one in [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]:
            total += one.memory_info().rss
    except psutil.NoSuchProcess:
        return 0
    return total


def shards(folder: Path) -> dict[str, str]:
    """The SHA-256 of each shard of a dataset, from its checksums."""
    lines = [line.split() for line in (folder / "SHA256SUMS").read_text().splitlines()]
    return {name: digest for digest, name in lines if name.endswith(".parquet")}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the comparison; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.spark_cluster", description=__doc__)
    parser.add_argument("dumps", type=Path, nargs="*", metavar="DUMP", help="dumps of comments")
    parser.add_argument("--comments", type=int, default=200_000, help="without dumps (default: %(default)s)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        dumps = [dump.resolve() for dump in options.dumps]
        if not dumps:
            synthetic_dumps.main([str(folder / "dumps"), "--comments", str(options.comments)])
            dumps = sorted((folder / "dumps").iterdir())
        rows = {"duckdb": run([*map(str, dumps), "--output", str(folder / "duckdb")])}
        for name in ("spark", "killed"):
            # A new cluster each time: the killed worker does not return.
            (folder / name).mkdir()
            with cluster(folder / name) as (master, workers):
                output, comments = ((folder / name / part).as_uri() for part in ("pairs", "comments"))
                words = [*(dump.as_uri() for dump in dumps), "--output", output, "--comments", comments]
                words += ["--engine", "spark", "--spark_master", master]
                killed = workers[0] if name == "killed" else None
                rows[name] = run(words, killed, after=rows["spark"][0] / 2 if killed else 0)
        expected = shards(folder / "duckdb")
        print("| | seconds | MB of the driver | shards |\n|---|---|---|---|")
        same = True
        for name, (seconds, megabytes) in rows.items():
            found = expected if name == "duckdb" else shards(folder / name / "pairs")
            same = same and found == expected
            state = "the same" if found == expected else "DIFFERENT"
            print(f"| {LABELS[name]} | {seconds:.0f} | {megabytes:.0f} | {len(found)}, {state} |")
    return 0 if same else 1


if __name__ == "__main__":
    raise SystemExit(main())
