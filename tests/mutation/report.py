"""Writes the results of mutation testing: results.json, and results.md for readers."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
DETECTED = ("killed", "timed out")


def summarize(path: str, tests: int, mutants: list[dict[str, Any]], seconds: float) -> dict[str, Any]:
    """Return the entry of a module in results.json."""
    outcomes = [one["outcome"] for one in mutants]
    return {
        "tests": tests,
        "mutants": len(mutants),
        "killed": sum(outcome in DETECTED for outcome in outcomes),
        "timed_out": outcomes.count("timed out"),
        "not_executed": outcomes.count("not executed"),
        "seconds": round(seconds, 1),
        "survivors": [
            {"file": path, "line": one["line"], "change": one["change"], "outcome": one["outcome"]}
            for one in mutants
            if one["outcome"] not in DETECTED
        ],
    }


def build_table(modules: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a Markdown table: the mutation score of each module."""
    yield "| module | tests | mutants | killed | survived | score | commit |"
    yield "|---|---|---|---|---|---|---|"
    for path, entry in sorted(modules.items()):
        yield _row(path, entry)
    totals = {name: sum(entry[name] for entry in modules.values()) for name in ("mutants", "killed")}
    yield _row("all", totals | {"tests": "", "commit": ""})


def _row(name: str, entry: dict[str, Any]) -> str:
    mutants, killed = entry["mutants"], entry["killed"]
    score = f"{killed / mutants:.0%}" if mutants else ""
    return f"| {name} | {entry['tests']} | {mutants} | {killed} | {mutants - killed} | {score} | {entry['commit']} |"


def name_commit() -> str:
    """The commit that is tested; it ends with -dirty if files were changed after it."""
    describe = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    return subprocess.run(describe, capture_output=True, text=True).stdout.strip()


def read_results(folder: Path, settings: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Read the modules of an earlier results.json; none if there is none.

    Raises:
        ValueError: it is of other settings.
    """
    path = folder / "results.json"
    facts = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {**settings, "modules": {}}
    if any(facts[name] != value for name, value in settings.items()):
        raise ValueError(f"{path} has other settings than {settings}: give another --output, or test all modules")
    return facts["modules"]


def write_results(folder: Path, modules: dict[str, dict[str, Any]], settings: dict[str, Any]) -> None:
    """Write results.json and results.md to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = {**settings, "cores": os.cpu_count(), "modules": dict(sorted(modules.items()))}
    (folder / "results.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    survivors = [one for _, entry in sorted(modules.items()) for one in entry["survivors"]]
    lines = [
        f"Mutants that the fast tests of each module detect (seed {settings['seed']}, at most {settings['sample']} "
        "mutants of a module), at the commit of its row. Written by `make mutants`.",
        "",
        *build_table(modules),
        "",
        *(["Mutants that survived:", ""] if survivors else []),
    ]
    for one in survivors:
        lines += [f"`{one['file']}`, line {one['line']} ({one['outcome']})", "", "```diff", one["change"], "```", ""]
    (folder / "results.md").write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
