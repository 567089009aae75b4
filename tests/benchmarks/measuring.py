"""Measurements, each in a process of its own, so that no contender warms another's caches or raises its memory peak."""

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from tqdm import tqdm

MARK = "measured: "


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


def alternate(size: str, contenders: list[Contender], repeats: int, name: str) -> list[list[dict[str, float]]]:
    """Each contender's figures, `repeats` times, taking turns: what else the machine does hits all alike."""
    figures: list[list[dict[str, float]]] = [[] for _ in contenders]
    with tqdm(total=repeats * len(contenders), desc=name, unit=" runs") as progress:
        for _ in range(repeats):
            for contender, found in zip(contenders, figures, strict=True):
                found.append(run(size, contender.function, contender.options))
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


def _main(size: str, function: str, options: str) -> None:
    from tests.benchmarks.material import SIZES

    module, _, name = function.rpartition(".")
    measured = getattr(import_module(f"tests.benchmarks.{module}"), name)(SIZES[size], **json.loads(options))
    print(f"\n{MARK}{json.dumps(measured)}")


if __name__ == "__main__":
    _main(*sys.argv[1:])
