"""Run the benchmarks and write results.json and results.md: `python -m tests.benchmarks [--only NAME …]`.

The files that the benchmarks read are built once, in runs/benchmarks; delete that folder to rebuild them. CONVSIM_DATA
names the folder of real data (default: ../shared/data); without real data, the text is synthetic.
"""

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from modeling_convsim.files.command_line import ArgumentParser

if TYPE_CHECKING:
    from tests.benchmarks.measuring import Benchmark

HERE = Path(__file__).resolve().parent
AREAS = ("training", "encoding", "extracting", "suggesting", "adapting")


def load_benchmarks() -> dict[str, "Benchmark"]:
    """The benchmarks of all areas; those of one module are measured together."""
    from importlib import import_module  # the measured processes import this file: each loads its own area only

    return {name: one for area in AREAS for name, one in import_module(f"tests.benchmarks.{area}").BENCHMARKS.items()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    parser = ArgumentParser(prog="python -m tests.benchmarks", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="benchmarks, or first words of their names: train")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each contender (default: 3)")
    options = parser.parse_args(arguments)
    from tests.benchmarks.material import FULL, prepare
    from tests.benchmarks.measuring import Contender, alternate, build_entry, run

    benchmarks = load_benchmarks()
    wanted = tuple(options.only or benchmarks)
    chosen = {name: one for name, one in benchmarks.items() if f"{name}_".startswith(tuple(f"{w}_" for w in wanted))}
    if not chosen:
        parser.error(f"--only: no such benchmark; there are {', '.join(benchmarks)}")
    print("preparing pairs, vocabularies and a saved model", flush=True)
    machine = run(FULL, Contender("preparation", prepare))
    results = read_results(HERE / "results.json")
    commit = current_commit()
    for module in AREAS:
        group = {
            name: one
            for name, one in chosen.items()
            if one.ours.measure.__module__.endswith(module) and (one.needs is None or machine[one.needs])
        }
        measured = alternate(FULL, list(group.values()), options.repeats)
        for name, one in group.items():
            entry = results[name] = build_entry(one, measured, commit)
            print(f"{name}: {entry['ratio']:.3g} of {entry['peer_name']} ({'met' if entry['met'] else 'NOT met'})")
        write_results(HERE, {name: results[name] for name in benchmarks if name in results}, machine["machine"])
    return 0


def current_commit() -> str:
    """The measured commit, with `-dirty` if files other than the results differ from it."""
    git = ["git", "-C", str(HERE)]
    head = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    status = [*git, "status", "--porcelain", "--", ":/", ":(exclude,top)tests/benchmarks/results.*"]
    return f"{head}-dirty" if subprocess.run(status, capture_output=True, text=True).stdout else head


def read_results(file: Path) -> dict[str, dict[str, Any]]:
    """The entries of earlier runs, by benchmark."""
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def write_results(folder: Path, results: dict[str, dict[str, Any]], machine: str) -> None:
    """Write results.json, a line for each benchmark, and results.md."""
    lines = (f"  {json.dumps(name)}: {json.dumps(entry)}" for name, entry in results.items())
    (folder / "results.json").write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")
    (folder / "results.md").write_text(format_results(results, machine), encoding="utf-8")


def format_results(results: dict[str, dict[str, Any]], machine: str) -> str:
    """A row for each comparison and each bound."""
    from tests.benchmarks.measuring import BOUND

    benchmarks = load_benchmarks()
    lines = [
        "# Speed and memory", "",
        "Medians of up to three alternating runs, each in its own process, with the 95% interval of their ratio.",
        f"`make bench` writes this file; last run on: {machine}.",
        f"Measured commits: {', '.join(dict.fromkeys(entry['commit'] for entry in results.values()))}.", "",
        "| name | description | ours | peer | peer's name | unit | ratio | required | met |", "|" + "---|" * 9,
    ]  # fmt: skip
    bounds = [
        "", "## Required bounds", "", "These benchmarks have no peer.", "",
        "| name | description | ours | required | unit | met |", "|" + "---|" * 6,
    ]  # fmt: skip
    for name, entry in results.items():
        sign, is_met = "≥" if entry["better"] == "higher" else "≤", "yes" if entry["met"] else "no"
        begin = f"| {name} | {benchmarks[name].what} | {_format(entry['ours'])} |"
        if entry["peer_name"] == BOUND:
            bounds.append(f"{begin} {sign} {_format(entry['peer'])} | {entry['unit']} | {is_met} |")
        else:
            low, high = entry.get("ratio_interval", (None, None))
            interval = f" ({low:.3g} to {high:.3g})" if low else ""
            lines.append(
                f"{begin} {_format(entry['peer'])} | {entry['peer_name']} | {entry['unit']} "
                f"| {entry['ratio']:.3g}{interval} | {sign} {entry['bar']:g} | {is_met} |"
            )
    return "\n".join([*lines, *bounds]) + "\n"


def _format(value: float) -> str:
    return f"{value:,.0f}" if value >= 1000 else f"{value:.4g}"


if __name__ == "__main__":
    sys.exit(main())
