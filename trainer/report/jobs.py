"""Processes: commands that run side by side, each after the ones it needs."""

import os
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm

POLL_SECONDS = 0.1


@dataclass(frozen=True, eq=False)
class Job:
    """A command.

    Attributes:
        name: distinct among the jobs of a pool.
        command: program and arguments.
        log: the file that its output is appended to.
        needs: names of jobs that must succeed before it starts.
    """

    name: str
    command: list[str]
    log: Path
    needs: tuple[str, ...] = ()


def run_jobs(jobs: Iterable[Job], at_a_time: int, threads: int) -> dict[str, str]:
    """Run jobs in their order, as far as their needs allow, and show what ended. An exception terminates them all.

    Args:
        jobs: the jobs; a need that is not among them counts as met.
        at_a_time: how many run side by side.
        threads: OMP_NUM_THREADS of each.

    Returns:
        Name -> error message of each job that failed or could not run.
    """
    waiting, running, failures = list(jobs), dict[Job, subprocess.Popen](), dict[str, str]()
    total = len(waiting)
    bar = tqdm(total=total, unit=" runs", smoothing=0, disable=not waiting)
    try:
        while waiting or running:
            _start_ready(waiting, running, failures, at_a_time, threads)
            for job in [job for job, process in running.items() if process.poll() is not None]:
                code = running.pop(job).returncode
                if code:
                    failures[job.name] = f"failed (exit code {code}): {last_line(job.log)}"
                tqdm.write(f"{job.name}: {failures.get(job.name, 'done')}")
            if done := total - len(waiting) - len(running) - bar.n:
                bar.update(done)
            time.sleep(POLL_SECONDS)
    finally:
        bar.close()
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()
    return failures


def _start_ready(
    waiting: list[Job], running: dict[Job, subprocess.Popen], failures: dict[str, str], at_a_time: int, threads: int
) -> None:
    """Start the jobs whose needs are met, and give up those that need a failed one."""
    for job in list(waiting):
        not_done = {other.name for other in [*waiting, *running]}
        if failed := [need for need in job.needs if need in failures]:
            waiting.remove(job)
            failures[job.name] = f"not run: {', '.join(failed)} failed"
        elif len(running) < at_a_time and not not_done & set(job.needs):
            waiting.remove(job)
            running[job] = _start(job, threads)


def _start(job: Job, threads: int) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    with job.log.open("ab") as log:
        return subprocess.Popen(
            job.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment
        )


def threads_per_job(at_a_time: int) -> int:
    """Threads for each of `at_a_time` jobs: its share of OMP_NUM_THREADS if that is set, else of the cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = os.environ.get("OMP_NUM_THREADS", "")
    return max(1, (int(given) if given.isdecimal() else cores) // at_a_time)  # it may be a list


def last_line(log: Path) -> str:
    """The last line that a command printed; "" if it printed nothing."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()  # also at "\r", which progress bars print
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
