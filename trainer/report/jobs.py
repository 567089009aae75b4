"""Processes: commands that run side by side, each after the ones it needs."""

import os
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from graphlib import TopologicalSorter
from pathlib import Path

from tqdm import tqdm

from modeling_convsim.modeling_averaging import allowed_threads

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
    by_name = {job.name: job for job in jobs}
    order = TopologicalSorter({name: by_name.keys() & job.needs for name, job in by_name.items()})
    order.prepare()
    ready, running, failures = list[str](), dict[Job, subprocess.Popen](), dict[str, str]()
    bar = tqdm(total=len(by_name), unit=" runs", smoothing=0, disable=not by_name)
    try:
        while order.is_active():
            ready = sorted([*ready, *order.get_ready()], key=list(by_name).index)
            while ready and len(running) < at_a_time:
                job = by_name[ready.pop(0)]
                if failed := [need for need in job.needs if need in failures]:
                    failures[job.name] = f"not run: {', '.join(failed)} failed"
                    order.done(job.name)
                    bar.update()
                else:
                    running[job] = _start(job, threads)
            for job in [job for job, process in running.items() if process.poll() is not None]:
                if code := running.pop(job).returncode:
                    failures[job.name] = f"failed (exit code {code}): {last_line(job.log)}"
                tqdm.write(f"{job.name}: {failures.get(job.name, 'done')}")
                order.done(job.name)
                bar.update()
            time.sleep(POLL_SECONDS)
    finally:
        bar.close()
        for process in running.values():
            process.terminate()
        for process in running.values():
            process.wait()
    return failures


def _start(job: Job, threads: int) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}
    with job.log.open("ab") as log:
        return subprocess.Popen(
            job.command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment
        )


def threads_per_job(at_a_time: int) -> int:
    """Threads for each of `at_a_time` jobs: its share of OMP_NUM_THREADS if that is set, else of the cores."""
    return max(1, allowed_threads() // at_a_time)


def last_line(log: Path) -> str:
    """The last line that a command printed; "" if it printed nothing."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()  # also at "\r", which progress bars print
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
