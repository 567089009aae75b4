"""What a soak scenario is, and the list of all scenarios: those that the files of `scenarios/` register."""

import pkgutil
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Fault:
    """A fault that was injected, and its result.

    Attributes:
        what: the fault, e.g. "killed after 3.1 of 8.0 s, while a checkpoint was written".
        lost: what was lost or wrong without a message; empty if the fault was handled.
    """

    what: str
    lost: str = ""


@dataclass(frozen=True)
class Scenario:
    """Injects faults of one kind into one part of the project.

    Attributes:
        kind: the kind of fault, a row of the table: "SIGKILL", "SIGTERM and SIGINT", "disk full", …
        part: what it is injected into, e.g. "training, one process".
        run: takes an empty folder, a seeded random generator and the number of faults, and yields the faults.
        faults: number of faults in a full run.
        smoke: number of faults in a smoke run, which is part of the test suite; 0 if other tests inject the same.
        needs_root: whether it mounts file systems; without that right it is skipped.
    """

    name: str
    kind: str
    part: str
    run: Callable[[Path, random.Random, int], Iterator[Fault]]
    faults: int
    smoke: int
    needs_root: bool = False


SCENARIOS: dict[str, Scenario] = {}


def scenario(kind: str, part: str, faults: int, smoke: int, needs_root: bool = False) -> Callable[[Callable], Callable]:
    """Register the decorated generator function, under its own name; see `Scenario`."""

    def register(run: Callable[[Path, random.Random, int], Iterator[Fault]]) -> Callable:
        assert run.__name__ not in SCENARIOS, run.__name__
        SCENARIOS[run.__name__] = Scenario(run.__name__, kind, part, run, faults, smoke, needs_root)
        return run

    return register


def load_scenarios() -> dict[str, Scenario]:
    """Import all files of `scenarios/`; returns the scenarios by name."""
    for module in sorted(one.name for one in pkgutil.iter_modules([str(HERE / "scenarios")])):
        import_module(f"tests.soak.scenarios.{module}")
    return SCENARIOS
