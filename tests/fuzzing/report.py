"""Write the results of a fuzzing run: results.json, and results.md for readers."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
COUNTS = ("tried", "accepted", "refused", "crashed")


def build_table(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Yield the lines of a Markdown table with a row for each harness."""
    yield "| harness | reads | inputs tried | accepted | refused | crashed | peak MB | seconds |"
    yield "|---|---|---|---|---|---|---|---|"
    for name, entry in results.items():
        counts = " | ".join(f"{entry[count]:,}" for count in COUNTS)
        yield f"| {name} | {entry['covers']} | {counts} | {entry['peak_mb']:,} | {entry['seconds']} |"
    totals = " | ".join(f"{sum(entry[count] for entry in results.values()):,}" for count in COUNTS)
    peak, seconds = max(entry["peak_mb"] for entry in results.values()), sum(e["seconds"] for e in results.values())
    yield f"| all | | {totals} | {peak:,} | {seconds} |"


def write_results(folder: Path, results: dict[str, dict[str, Any]], seed: int) -> None:
    """Write results.json and results.md to a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    head = ["git", "-C", str(HERE), "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(head, capture_output=True, text=True).stdout.strip()
    facts = {"commit": commit, "seed": seed, "harnesses": results}
    (folder / "results.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    lines = [
        f"Inputs that `make fuzz` gave to the readers (commit {commit}, seed {seed}), and what came of them. Accepted: "
        "read, with valid records. Refused: one line names the file and the problem. Crashed: any other exception, an "
        "invalid record, a process that died, took too much memory or did not end. Peak MB: of the whole process, with "
        "its libraries. Written by `make fuzz`.",
        "",
        *build_table(results),
    ]
    (folder / "results.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
