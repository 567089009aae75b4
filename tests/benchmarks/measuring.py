"""Measurements, each in a process of its own, so that no contender warms another's caches or raises its memory peak."""

import contextlib
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any

import psutil
from tqdm import tqdm

from tests.benchmarks.processes import call

if TYPE_CHECKING:  # it imports torch, which must not be in the memory of `time_data_scripts`
    from tests.benchmarks.material import Material

SAME = "output"  # values whose names begin so must be the same for every contender


@dataclass(frozen=True)
class Contender:
    """A function `MODULE.FUNCTION(material, **options) -> {unit: value}` of this package."""

    name: str
    function: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """Equal for contenders that do the same."""
        return f"{self.function} {json.dumps(self.options, sort_keys=True)}"


class MeasurementError(Exception):
    """Two contenders that must write the same output wrote different ones."""


def run(material: "Material", contender: Contender) -> dict[str, Any]:
    """The values that a contender returns.

    Raises:
        ProcessError: it failed.
    """
    arguments = [material.to_json(), contender.function, contender.options]
    return call("tests.benchmarks.measuring.measure_here", arguments, fork=material.forks)


def measure_here(material: dict[str, Any], function: str, options: dict[str, Any]) -> dict[str, Any]:
    """What `run` does, in this process."""
    from tests.benchmarks.material import Material  # see the top of this file

    module, _, name = function.rpartition(".")
    measured = getattr(import_module(f"tests.benchmarks.{module}"), name)
    return measured(Material.from_json(material), **options)


def alternate(
    material: "Material", contenders: Sequence[Contender], repeats: int, name: str
) -> list[list[dict[str, Any]]]:
    """Measure each contender `repeats` times in alternation, so that other load on the machine affects all alike.

    Raises:
        MeasurementError: contenders wrote different outputs.
        ProcessError: a contender failed.
    """
    measured: list[list[dict[str, Any]]] = [[] for _ in contenders]
    written: dict[str, tuple[str, str]] = {}
    with tqdm(total=repeats * len(contenders), desc=name, unit=" runs") as progress:
        for _ in range(repeats):
            for contender, runs in zip(contenders, measured, strict=True):
                values = run(material, contender)
                runs.append(values)
                for key in filter(lambda key: key.startswith(SAME), values):
                    other, expected = written.setdefault(key, (contender.name, values[key]))
                    if values[key] != expected:
                        raise MeasurementError(
                            f"{key}: {contender.name} wrote {values[key]}, but {other} wrote {expected}"
                        )
                progress.update()
    return measured


def time_steps(step: Callable[[int], None], warm_up: int, seconds: float) -> tuple[int, float]:
    """Take `warm_up` untimed steps, then as many as start within `seconds`; returns their number and seconds."""
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


def use_cores(count: int) -> None:
    """Restrict this process, and those that it starts, to some of its cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def run_data_scripts(material: "Material", arguments: Sequence[str], cores: int) -> tuple[float, float]:
    """Run a command of `data_scripts` in a process of its own, on so many cores.

    Returns:
        Its seconds, without imports, and its peak memory in MB: the sum over it and the processes that it started,
        sampled twice a second (more often would slow them down), with shared pages counted for each.

    Raises:
        ProcessError: it failed.
    """
    peaks = [0]
    seconds = call(
        "tests.benchmarks.measuring.time_data_scripts",
        [cores, *arguments],
        fork=material.forks,
        watch=lambda pid: peaks.append(_resident_bytes(pid)),
    )
    return seconds, max(peaks) / 2**20


def time_data_scripts(cores: int, *arguments: str) -> float:
    """The seconds that a command of `data_scripts` takes in this process, without imports."""
    use_cores(cores)
    import data_scripts.sources.reddit  # noqa: F401 (not timed)
    from data_scripts.__main__ import main

    started = time.perf_counter()
    if code := main(arguments):
        sys.exit(code)
    return time.perf_counter() - started


def _resident_bytes(pid: int) -> int:
    total = 0
    with contextlib.suppress(psutil.NoSuchProcess):  # it has ended meanwhile
        process = psutil.Process(pid)
        for one in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += one.memory_info().rss
    return total
