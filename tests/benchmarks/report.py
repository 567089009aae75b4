"""Write results.json, and results.md for readers."""

import json
import os
import statistics
import subprocess
from pathlib import Path
from typing import Any

from tests.benchmarks.measuring import Contender
from tests.benchmarks.registry import BENCHMARKS, Benchmark, Facts

HERE = Path(__file__).resolve().parent
RESULTS = "results.json"
INTRODUCTION = "Medians of several alternating runs, each in a separate process; written by `make bench`."


def build_entry(benchmark: Benchmark, runs: dict[str, list[dict[str, Any]]], facts: Facts) -> dict[str, Any]:
    """Build a benchmark's entry of results.json; `runs` maps a contender's key to the values of its runs."""

    def values(contender: Contender) -> list[float]:
        return [returned[benchmark.unit] for returned in runs[contender.key]]

    ours, peer = (statistics.median(values(contender)) for contender in (benchmark.ours, benchmark.peer))
    ratio = ours / peer
    bar = benchmark.bar(facts) if callable(benchmark.bar) else benchmark.bar
    return {
        "ours": ours,
        "peer": peer,
        "peer_name": benchmark.peer.name,
        "unit": benchmark.unit,
        "ratio": ratio,
        "bar": bar,
        "better": benchmark.better,
        "met": ratio >= bar if benchmark.better == "higher" else ratio <= bar,
        "commit": _commit(),
        "what": benchmark.what,
        "beside": {contender.name: statistics.median(values(contender)) for contender in benchmark.beside},
        "runs": {contender.name: values(contender) for contender in benchmark.contenders},
        "text": facts[benchmark.reads],
        "machine": facts["gpu"] if benchmark.needs == "gpu" else facts["machine"],
    }


def _commit() -> str:
    """Return the measured commit, with `-dirty` if files other than the results differ from it."""
    git = ["git", "-C", str(HERE)]
    head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    status = [*git, "status", "--porcelain", "--", ":/", ":(exclude,top)tests/benchmarks/results.*"]
    return f"{head}-dirty" if subprocess.run(status, capture_output=True, text=True).stdout else head


def read_results(folder: Path) -> dict[str, Any]:
    """Read the entries of earlier runs from a folder, by benchmark."""
    file = folder / RESULTS
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def write_results(folder: Path, results: dict[str, Any], skipped: dict[str, str]) -> None:
    """Write results.json and results.md; `skipped` maps a benchmark to the reason why it was skipped."""
    ordered = {name: results[name] for name in BENCHMARKS if name in results}
    folder.mkdir(parents=True, exist_ok=True)
    _replace(folder / RESULTS, json.dumps(ordered, indent=2) + "\n")
    lines = ["# Speed and memory", "", INTRODUCTION, "", *_table(ordered), "", *_notes(ordered)]
    lines += [f"- **{name}** was skipped: {reason}." for name, reason in skipped.items() if name not in ordered]
    lines += ["", "Measured on:", "", *_circumstances(ordered)]
    _replace(folder / "results.md", "\n".join(lines) + "\n")


def _table(results: dict[str, Any]) -> list[str]:
    lines = ["| name | ours | peer | unit | ratio | bar | met |", "|---|---|---|---|---|---|---|"]
    for name, entry in results.items():
        sign = "≥" if entry["better"] == "higher" else "≤"
        lines.append(
            f"| {name} | {entry['ours']:,.4g} | {entry['peer']:,.4g} | {entry['unit']} | {entry['ratio']:.3g} "
            f"| {sign} {entry['bar']:g} | {'yes' if entry['met'] else 'no'} |"
        )
    return lines


def _notes(results: dict[str, Any]) -> list[str]:
    lines = []
    for name, entry in results.items():
        others = "; ".join(f"{label}: {value:,.4g}" for label, value in entry["beside"].items())
        also = f" Also measured: {others}." if others else ""
        lines.append(f"- **{name}**: {entry['what']}. Peer: {entry['peer_name']}.{also}")
    return lines


def _circumstances(results: dict[str, Any]) -> list[str]:
    names: dict[str, list[str]] = {}
    for name, entry in results.items():
        names.setdefault(f"{entry['text']}; {entry['machine']}; commit {entry['commit']}", []).append(name)
    return [f"- {circumstances}: {', '.join(measured)}" for circumstances, measured in names.items()]


def _replace(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_text(text, encoding="utf-8")
    os.replace(temporary, path)
