"""What a fuzzing harness is, and the list of all harnesses: those that the files of `harnesses/` register."""

import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Harness:
    """Feeds bytes to one reader of the project.

    Attributes:
        covers: what it reads, for the table.
        seeds: makes small valid documents, from which the fuzzer starts. One that the reader refuses is a mistake.
        check: takes an input and an empty folder. Returns True if the reader accepts the input and its records are
            valid, False if it refuses the input with the documented error; any other exception is a crash.
        max_bytes: length of the longest input.
    """

    name: str
    covers: str
    seeds: Callable[[], list[bytes]]
    check: Callable[[bytes, Path], bool]
    max_bytes: int


HARNESSES: dict[str, Harness] = {}


def harness(
    covers: str, seeds: Callable[[], list[bytes]], max_bytes: int = 4096
) -> Callable[[Callable[[bytes, Path], bool]], Callable[[bytes, Path], bool]]:
    """Register the decorated function, under its own name; see `Harness`."""

    def register(check: Callable[[bytes, Path], bool]) -> Callable[[bytes, Path], bool]:
        assert check.__name__ not in HARNESSES, check.__name__
        HARNESSES[check.__name__] = Harness(check.__name__, covers, seeds, check, max_bytes)
        return check

    return register


def load_harnesses() -> dict[str, Harness]:
    """Import all files of `harnesses/`; returns the harnesses by name."""
    for module in sorted(one.name for one in pkgutil.iter_modules([str(HERE / "harnesses")])):
        import_module(f"tests.fuzzing.harnesses.{module}")
    return HARNESSES
