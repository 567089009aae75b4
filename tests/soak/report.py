"""Write the results of a soak run: results.json, and results.md for readers."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent


def build_table(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a Markdown table: for each kind of fault and each part, the numbers of faults."""
    yield "| fault | injected into | injected | handled | lost | seconds |"
    yield "|---|---|---|---|---|---|"
    for entry in sorted(results.values(), key=lambda one: (one["kind"], one["part"])):
        counts = f"{entry['injected']} | {entry['handled']} | {len(entry['lost'])} | {entry['seconds']:.0f}"
        yield f"| {entry['kind']} | {entry['part']} | {counts} |"
    injected, handled = (sum(entry[count] for entry in results.values()) for count in ("injected", "handled"))
    lost, seconds = (
        sum(len(entry["lost"]) for entry in results.values()),
        sum(entry["seconds"] for entry in results.values()),
    )
    yield f"| all | | {injected} | {handled} | {lost} | {seconds:.0f} |"


def build_summary(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a Markdown table with one line for each kind of fault."""
    yield "| fault | injected | handled | lost |"
    yield "|---|---|---|---|"
    kinds = sorted({entry["kind"] for entry in results.values()})
    parts = {kind: [entry for entry in results.values() if entry["kind"] == kind] for kind in kinds}
    for kind, entries in (parts | {"all": list(results.values())}).items():
        injected, handled = (sum(entry[count] for entry in entries) for count in ("injected", "handled"))
        yield f"| {kind} | {injected} | {handled} | {sum(len(entry['lost']) for entry in entries)} |"


def print_table(results: dict[str, dict[str, Any]]) -> None:
    """Print the table."""
    print("\n" + "\n".join(build_table(results)))


def write_results(folder: Path, results: dict[str, dict[str, Any]], seed: int) -> None:
    """Write results.json and results.md to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    head = ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True).stdout.strip()
    facts = {"commit": commit, "seed": seed, "cores": os.cpu_count(), "scenarios": results}
    (folder / "results.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    lines = [
        f"Faults that `make soak` injected (commit {commit}, seed {seed}), and how many of them lost something or gave "
        "a wrong result without a message. Written by `make soak`.",
        "",
        *build_summary(results),
        "",
        *build_table(results),
    ]
    (folder / "results.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
