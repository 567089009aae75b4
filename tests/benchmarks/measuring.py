"""Measurements in separate processes, so that no contender warms another's caches or raises its peak memory."""

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

if TYPE_CHECKING:  # it imports torch, which `time_data_scripts` must not hold in memory
    from tests.benchmarks.material import Material

SAME = "output"  # prefix of the values that must be equal for all contenders


@dataclass(frozen=True)
class Contender:
    """A function `MODULE.FUNCTION(material, **options) -> {unit: value}` of this package."""

    name: str
    function: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def key(self) -> str:
        """The function and its options: equal for contenders that measure the same."""
        return f"{self.function} {json.dumps(self.options, sort_keys=True)}"


class MeasurementError(Exception):
    """Two contenders that must write the same output wrote different ones."""


def run(material: "Material", contender: Contender) -> dict[str, Any]:
    """Run a contender in another process; return its values.

    Raises:
        ProcessError: the contender failed.
    """
    arguments = [material.to_json(), contender.function, contender.options]
    return call("tests.benchmarks.measuring.measure_here", arguments, fork=material.forks)


def measure_here(material: dict[str, Any], function: str, options: dict[str, Any]) -> dict[str, Any]:
    """Run a contender in this process; see `run`."""
    from tests.benchmarks.material import Material  # see the top of this file

    module, _, name = function.rpartition(".")
    measure = getattr(import_module(f"tests.benchmarks.{module}"), name)
    return measure(Material.from_json(material), **options)


def alternate(
    material: "Material", contenders: Sequence[Contender], repeats: int, name: str
) -> list[list[dict[str, Any]]]:
    """Measure each contender `repeats` times in alternation, so that other load on the machine affects all equally.

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
    """Take `warm_up` untimed steps, then steps until `seconds` have passed; return their number and duration."""
    for index in range(warm_up):
        step(index)
    started, steps = time.perf_counter(), 0
    while (elapsed := time.perf_counter() - started) < seconds:
        step(warm_up + steps)
        steps += 1
    return steps, elapsed


def peak_megabytes() -> float:
    """Return the peak resident memory of this process in MB (Linux reports kilobytes)."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def use_cores(count: int) -> None:
    """Restrict this process and its child processes to `count` cores."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])


def run_data_scripts(material: "Material", arguments: Sequence[str], cores: int) -> tuple[float, float]:
    """Run a command of `data_scripts` in a separate process, on `cores` cores.

    Returns:
        Its duration in seconds, without imports, and its peak memory in MB: the sum over the process and its children,
        sampled twice per second (more often would slow them down). Shared pages count once for each process.

    Raises:
        ProcessError: the command failed.
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
    """Run a command of `data_scripts` in this process; return its duration in seconds, without imports."""
    use_cores(cores)
    # Not timed: what the command imports when it starts to read and to write.
    import pandas  # noqa: F401

    import data_scripts.join.replies
    import data_scripts.sources.reddit
    import data_scripts.write.pairs  # noqa: F401
    from data_scripts.__main__ import main

    started = time.perf_counter()
    if code := main(arguments):
        sys.exit(code)
    return time.perf_counter() - started


def _resident_bytes(pid: int) -> int:
    total = 0
    with contextlib.suppress(psutil.NoSuchProcess):  # the process has ended meanwhile
        process = psutil.Process(pid)
        for member in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += member.memory_info().rss
    return total
