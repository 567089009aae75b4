"""Results: their file, merging, and a printable table."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from modeling_convsim.files.json_files import read_object
from modeling_convsim.files.storage import locked, write_text
from trainer.evaluation.bootstrap import INTERVAL

# Counts; every other number is a proportion or a correlation.
COUNTS = ("candidates", "queries", "pairs")
UPDATE_SECONDS = 60  # how long to wait for another process that updates the same file


def merge_results(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Update `old` with `new`; a part made of parts (splits, baselines) keeps those that `new` does not have."""
    parts = {name for name in old.keys() & new.keys() if _has_parts(old[name]) and _has_parts(new[name])}
    return {**old, **new, **{name: merge_results(old[name], new[name]) for name in parts}}


def _has_parts(part: Any) -> bool:
    return isinstance(part, Mapping) and all(isinstance(value, Mapping) for value in part.values())


def flatten(results: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Every value of nested results by its path: "stsb.dev.all.pearson"."""
    flat: dict[str, Any] = {}
    for key, item in results.items():
        flat |= flatten(item, f"{prefix}{key}.") if isinstance(item, dict) else {f"{prefix}{key}": item}
    return flat


def write_results(path: Path, results: Mapping[str, Any]) -> None:
    """Write results as JSON, atomically.

    Raises:
        InputError: the file cannot be written.
    """
    write_text(path, json.dumps(results, indent=2) + "\n")


def update_results(path: Path, results: Mapping[str, Any]) -> None:
    """Merge results into those of a file. Processes that do so at the same time wait for one another.

    Raises:
        InputError: the file cannot be read or written.
    """
    with locked(path, seconds=UPDATE_SECONDS):
        write_results(path, merge_results(read_object(path), results))


def format_table(results: Mapping[str, Any]) -> str:
    """One line for each number of `results`: its path, its value to four decimals, its interval if it has one.

    The interval of NAME is the value of NAME_interval.
    """
    flat = flatten(results)
    rows = [
        (path.replace(".", " "), _format_number(path, value), _interval(flat, path))
        for path, value in flat.items()
        if not path.endswith(INTERVAL)
    ]
    width = max((len(name) for name, _, _ in rows), default=0)
    return "\n".join(f"{name:<{width}}  {text:>10}{interval}" for name, text, interval in rows)


def _interval(scores: Mapping[str, Any], metric: str) -> str:
    interval = scores.get(f"{metric}{INTERVAL}")
    return f"  [{interval[0]:.4f}, {interval[1]:.4f}]" if interval else ""


def _format_number(path: str, value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    return f"{value:,}" if path.rpartition(".")[2] in COUNTS else str(value)
