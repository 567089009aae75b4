"""Measurements, each in a process of its own, so that no contender warms another's caches or raises its memory peak."""

import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

import psutil
from tqdm import tqdm

MARK = "measured: "
SAME = "output"  # figures whose names begin so are what contenders must agree on


@dataclass(frozen=True)
class Contender:
    """A function `MODULE.FUNCTION(material, **options) -> {figure: value}` of this package."""

    name: str
    function: str
    options: dict[str, Any] = field(default_factory=dict)


class MeasurementError(Exception):
    """A contender's process ended without a figure."""


def run(size: str, function: str, options: dict[str, Any]) -> dict[str, Any]:
    """Call a function in a fresh process.

    Raises:
        MeasurementError: it failed; the message holds what the process said.
    """
    command = [sys.executable, "-m", "tests.benchmarks.measuring", size, function, json.dumps(options)]
    done = subprocess.run(command, capture_output=True, text=True)
    marked = [line for line in done.stdout.splitlines() if line.startswith(MARK)]
    if done.returncode or not marked:
        raise MeasurementError(f"{function} {options} ended with code {done.returncode}:\n{done.stdout}{done.stderr}")
    return json.loads(marked[-1].removeprefix(MARK))


def alternate(size: str, contenders: list[Contender], repeats: int, name: str) -> list[list[dict[str, Any]]]:
    """Each contender's figures, `repeats` times, taking turns: what else the machine does hits all alike.

    Raises:
        MeasurementError: one failed, or they wrote different things.
    """
    figures: list[list[dict[str, Any]]] = [[] for _ in contenders]
    written: dict[str, tuple[str, str]] = {}
    with tqdm(total=repeats * len(contenders), desc=name, unit=" runs") as progress:
        for _ in range(repeats):
            for contender, found in zip(contenders, figures, strict=True):
                found.append(run(size, contender.function, contender.options))
                for key in filter(lambda key: key.startswith(SAME), found[-1]):
                    other, expected = written.setdefault(key, (contender.name, found[-1][key]))
                    if found[-1][key] != expected:
                        raise MeasurementError(
                            f"{key}: {contender.name} wrote {found[-1][key]}, but {other} wrote {expected}"
                        )
                progress.update()
    return figures


def time_steps(step: Callable[[int], None], warm_up: int, seconds: float) -> tuple[int, float]:
    """How many steps were taken, after `warm_up` untimed ones, in how many seconds: in `seconds` or a step more."""
    for index in range(warm_up):
        step(index)
    started, steps = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - started) < seconds:
        step(warm_up + steps)
        steps += 1
    return steps, elapsed


def peak_megabytes() -> float:
    """Largest resident memory of this process so far (Linux counts in kilobytes)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


SAMPLED_EVERY = 0.5  # seconds
_TIMED_COMMAND = f"""
import sys, time
import data_scripts.sources.reddit
from data_scripts.__main__ import main
started = time.perf_counter()
code = main(sys.argv[1:])
print("\\n{MARK}", time.perf_counter() - started)
sys.exit(code)
"""


def run_data_scripts(arguments: list[str], cores: int) -> tuple[float, float]:
    """Run a command of `data_scripts` in a process of its own, on so many cores.

    Returns:
        Its seconds, imports apart, and the most memory, in MB, that it and the processes which it started held at one
        time: sampled twice a second (more often would slow them down), what they share counted for
        each.

    Raises:
        MeasurementError: it failed; the message holds what it said.
    """
    chosen = sorted(os.sched_getaffinity(0))[:cores]
    with tempfile.TemporaryFile("w+") as said:
        process = psutil.Popen(
            [sys.executable, "-c", _TIMED_COMMAND, *arguments],
            stdout=said, stderr=subprocess.STDOUT, preexec_fn=lambda: os.sched_setaffinity(0, chosen),
        )  # fmt: skip
        peak = 0
        while process.poll() is None:
            peak = max(peak, _resident(process))
            time.sleep(SAMPLED_EVERY)
        said.seek(0)
        lines = said.read().splitlines()
    marked = [line for line in lines if line.startswith(MARK)]
    if process.returncode or not marked:
        raise MeasurementError(f"{arguments} ended with code {process.returncode}:\n" + "\n".join(lines))
    return float(marked[-1].removeprefix(MARK)), peak / 2**20


def _resident(process: psutil.Process) -> int:
    total = 0
    with contextlib.suppress(psutil.NoSuchProcess):  # one that has ended meanwhile
        for one in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += one.memory_info().rss
    return total


def _main(size: str, function: str, options: str) -> None:
    from tests.benchmarks.material import SIZES

    module, _, name = function.rpartition(".")
    measured = getattr(import_module(f"tests.benchmarks.{module}"), name)(SIZES[size], **json.loads(options))
    print(f"\n{MARK}{json.dumps(measured)}")


if __name__ == "__main__":
    _main(*sys.argv[1:])
