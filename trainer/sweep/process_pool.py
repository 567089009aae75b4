"""A pool of processes: commands that run side by side, each after the ones it needs."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
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


def run_jobs(
    jobs: Iterable[Job], at_a_time: int, threads: int, on_end: Callable[[Job, str], str], unit: str
) -> dict[str, str]:
    """Run jobs in their order, as far as their needs allow; show a progress bar.

    SIGTERM and Ctrl-C terminate all running jobs.

    Args:
        jobs: the jobs; a need that is not among them counts as met.
        at_a_time: how many run side by side.
        threads: OMP_NUM_THREADS of each.
        on_end: called when a job ends, with "" or its error message; its return value replaces that message.
        unit: what the progress bar counts.

    Returns:
        Name -> error message of each job that failed or could not run.
    """
    pool = _Pool(list(jobs), at_a_time, threads, on_end)
    bar = tqdm(total=len(pool.waiting), unit=f" {unit}", smoothing=0, disable=not pool.waiting)
    with _exit_on_sigterm(), pool, bar:
        while pool.waiting or pool.running:
            bar.update(pool.skip_jobs_after_failures())
            pool.start_ready_jobs()
            bar.update(pool.collect_ended_jobs())
            time.sleep(POLL_SECONDS)
    return pool.failures


class _Pool:
    """The state of `run_jobs`; leaving its context terminates what still runs."""

    def __init__(self, jobs: list[Job], at_a_time: int, threads: int, on_end: Callable[[Job, str], str]) -> None:
        self.waiting, self.at_a_time, self.threads, self.on_end = jobs, at_a_time, threads, on_end
        self.running: dict[Job, subprocess.Popen] = {}
        self.failures: dict[str, str] = {}

    def __enter__(self) -> "_Pool":
        return self

    def __exit__(self, *exception: object) -> None:
        for process in self.running.values():
            process.terminate()
        for process in self.running.values():
            process.wait()

    def skip_jobs_after_failures(self) -> int:
        """Skip the jobs that need a failed one; returns how many."""
        skipped = [job for job in self.waiting if set(job.needs) & set(self.failures)]
        for job in skipped:
            self.waiting.remove(job)
            failed = ", ".join(need for need in job.needs if need in self.failures)
            self.failures[job.name] = f"not run: {failed} failed"
        return len(skipped)

    def start_ready_jobs(self) -> None:
        """Start jobs whose needs are met, up to the limit of simultaneous jobs."""
        not_done = {job.name for job in [*self.waiting, *self.running]} | set(self.failures)
        ready = [job for job in self.waiting if not set(job.needs) & not_done]
        for job in ready[: self.at_a_time - len(self.running)]:
            self.waiting.remove(job)
            self.running[job] = _start(job, self.threads)

    def collect_ended_jobs(self) -> int:
        """Record the jobs that have ended; returns how many."""
        ended = [job for job, process in self.running.items() if process.poll() is not None]
        for job in ended:
            code = self.running.pop(job).returncode
            message = self.on_end(job, f"failed (exit code {code}): {last_line(job.log)}" if code else "")
            if message:
                self.failures[job.name] = message
        return len(ended)


@contextmanager
def _exit_on_sigterm() -> Iterator[None]:
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def threads_per_job(at_a_time: int) -> int:
    """Threads for each of `at_a_time` jobs: its share of OMP_NUM_THREADS if that is set, else of the cores."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, int(os.environ.get("OMP_NUM_THREADS") or cores) // at_a_time)


def _start(job: Job, threads: int) -> subprocess.Popen:
    with job.log.open("ab") as log:
        return subprocess.Popen(
            job.command,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "OMP_NUM_THREADS": str(threads)},
        )


def last_line(log: Path) -> str:
    """The last line that a command printed; "" if it printed nothing."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()  # also at "\r", which progress bars print
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
