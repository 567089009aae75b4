"""Commands that run beside each other, as many at a time as there is room for."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from tqdm import tqdm


@dataclass(frozen=True, eq=False)
class Job:
    """A command, where its output goes (added to what is there), and the jobs that must have ended well before it."""

    name: str
    command: list[str]
    log: Path
    needs: tuple[str, ...] = ()


def run_jobs(
    jobs: Iterable[Job], at_a_time: int, threads: int, ended: Callable[[Job, str], str], unit: str
) -> dict[str, str]:
    """Run jobs, `at_a_time` at a time with so many threads each, in order where what they need allows.

    Args:
        jobs: their names are distinct; a need that is none of them is met.
        at_a_time: how many run at once.
        threads: OMP_NUM_THREADS of each.
        ended: called after each with what went wrong, or ""; what it returns takes that place.
        unit: what the progress bar counts.

    Returns:
        Name -> what went wrong, of those that failed or could not run. A signal to stop stops all that run.
    """
    waiting = list(jobs)
    running: dict[Job, subprocess.Popen] = {}
    failures: dict[str, str] = {}
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        with tqdm(total=len(waiting), unit=f" {unit}", smoothing=0, disable=not waiting) as bar:
            while waiting or running:
                for job in [job for job in waiting if set(job.needs) & set(failures)]:
                    waiting.remove(job)
                    missing = ", ".join(need for need in job.needs if need in failures)
                    failures[job.name] = f"not run: {missing} failed"
                    bar.update()
                not_done = {job.name for job in [*waiting, *running]} | set(failures)
                ready = [job for job in waiting if not set(job.needs) & not_done]
                for job in ready[: at_a_time - len(running)]:
                    waiting.remove(job)
                    running[job] = _start(job, threads)
                for job in [job for job, process in running.items() if process.poll() is not None]:
                    code = running.pop(job).returncode
                    failed = ended(job, f"failed (exit code {code}): {last_line(job.log)}" if code else "")
                    if failed:
                        failures[job.name] = failed
                    bar.update()
                time.sleep(0.1)
    finally:
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()
        signal.signal(signal.SIGTERM, before)
    return failures


def threads_each(at_a_time: int) -> int:
    """Threads of each of so many jobs: its part of OMP_NUM_THREADS, where that is set, else of the cores."""
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
    """The last line that a command printed."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()  # at "\r" too, as progress bars have
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
