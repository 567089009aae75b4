"""Runs that are killed at random moments and run again write the same files as an uninterrupted run.

This file is also the process that runs the command: it imports the libraries once, and forks for each run.
"""

import gzip
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
KILLS = 10
COMMENTS = (9_000, 2_000, 5_000, 3_000)  # per dump; with two workers the second dump is finished before the first


class Command:
    """Runs `python -m data_scripts reddit` repeatedly, each time in a new process group."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
        )

    def run(self, arguments: list[str], kill_after: float | None = None) -> tuple[int, float]:
        """Run the command; returns its exit code, -9 if it was killed, and its seconds."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write(json.dumps([arguments, kill_after]) + "\n")
        self.process.stdin.flush()
        code, seconds = json.loads(self.process.stdout.readline())
        return code, seconds


@pytest.fixture(scope="module")
def command() -> Iterator[Command]:
    command = Command()
    yield command
    command.process.kill()
    command.process.wait()


@pytest.fixture(scope="module")
def dumps(tmp_path_factory) -> Path:
    folder, draws = tmp_path_factory.mktemp("dumps"), random.Random(0)
    words = ["".join(draws.choices("abcdefghijklmnopqrstuvwxyz", k=draws.randrange(2, 9))) for _ in range(2_000)]
    for month, count in enumerate(COMMENTS, start=1):
        lines, first = [], sum(COMMENTS[: month - 1])
        for number in range(first, first + count):
            # A quarter of the comments begin a thread; the others answer a recent comment.
            answered = number - draws.randrange(1, 200)
            fields = {
                "id": f"c{number}",
                "parent_id": f"t1_c{answered}" if number % 4 else f"t3_s{number}",
                "link_id": f"t3_s{number // 100}",
                "author": "reader",
                "body": " ".join(draws.choices(words, k=draws.randrange(3, 40))),
                "subreddit": "pictures",
                "created_utc": 1136074029 + number,
            }
            # Broken lines must be reported in the same order, whichever run reads the dump.
            lines.append("broken" if number % 499 == 0 else json.dumps(fields))
        (folder / f"RC_2001-{month:02}.gz").write_bytes(gzip.compress("\n".join(lines).encode(), 1))
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def arguments(dumps: Path, folder: Path, workers: int) -> list[str]:
    files = map(str, sorted(dumps.iterdir()))
    options = ["--comments", str(folder / "comments"), "--output", str(folder / "pairs"), "--workers", str(workers)]
    return ["reddit", *files, *options, "--overwrite"]


@pytest.fixture(scope="module")
def never_killed(command, dumps, tmp_path_factory) -> dict[int, tuple[dict[str, bytes], float]]:
    """Number of workers -> the files of an uninterrupted run, and its seconds."""
    runs = {}
    for workers in (1, 2):
        folder = tmp_path_factory.mktemp("never_killed")
        code, seconds = command.run(arguments(dumps, folder, workers))
        assert code == 0
        runs[workers] = contents(folder), seconds
        assert "pairs/report.json" in runs[workers][0] and "comments/RC_2001-04.parquet" in runs[workers][0]
    return runs


def moments(seconds: float, seed: int) -> list[float]:
    """A random moment in each tenth of the time."""
    draws = random.Random(seed)
    return [(part + draws.random()) * seconds / KILLS for part in range(KILLS)]


def test_a_run_after_a_killed_run_writes_the_files_of_an_uninterrupted_run(command, dumps, never_killed, tmp_path):
    killed = 0
    for number in range(KILLS):
        folder, workers = tmp_path / str(number), 1 + number % 2
        folder.mkdir()
        expected, seconds = never_killed[workers]
        moment = moments(seconds, seed=0)[number]
        killed += command.run(arguments(dumps, folder, workers), moment)[0] == -signal.SIGKILL
        assert command.run(arguments(dumps, folder, workers))[0] == 0
        assert contents(folder) == expected, f"{workers} workers, killed after {moment:.3f} of {seconds:.3f} seconds"
        shutil.rmtree(folder)
    assert killed >= KILLS // 2


def test_a_run_after_ten_killed_runs_writes_the_files_of_an_uninterrupted_run(command, dumps, never_killed, tmp_path):
    expected, seconds = never_killed[2]
    # Each run reuses the files of the earlier runs, so that it ends sooner than the first.
    ends = [command.run(arguments(dumps, tmp_path, 2), moment)[0] for moment in moments(seconds, seed=1)]
    assert command.run(arguments(dumps, tmp_path, 2))[0] == 0
    assert contents(tmp_path) == expected
    assert ends.count(-signal.SIGKILL) >= 2 and set(ends) <= {-signal.SIGKILL, 0}


def test_the_number_of_workers_does_not_change_the_files(never_killed):
    assert never_killed[1][0] == never_killed[2][0]


def _serve() -> None:
    import matplotlib.backends.backend_agg
    import matplotlib.figure  # noqa: F401 (for the card)

    # Inherited by the forks, which otherwise take seconds to import them.
    import data_scripts.join.engines
    import data_scripts.join.replies
    import data_scripts.sources.reddit
    import data_scripts.write.pairs  # noqa: F401
    from data_scripts.__main__ import main
    from data_scripts.write import comments

    comments.WORTH_WORKERS = 0  # small dumps are otherwise read without workers
    for line in sys.stdin:
        arguments, kill_after = json.loads(line)
        started = time.monotonic()
        child = os.fork()
        if child == 0:
            os.setpgid(0, 0)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(2, 1)
            os._exit(main(arguments))
        code: Any = None
        while code is None:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
            elif kill_after is not None and time.monotonic() - started >= kill_after:
                os.killpg(child, signal.SIGKILL)
                kill_after = None
            else:
                time.sleep(0.002)
        print(json.dumps([code, time.monotonic() - started]), flush=True)


if __name__ == "__main__":
    _serve()
