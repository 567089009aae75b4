"""Inject faults into every part of the project and print what came of them: `python -m tests.soak [--only NAME …]`."""

import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from data_scripts.command_line import ArgumentParser
from tests.soak.registry import load_scenarios
from tests.soak.report import HERE, print_table, write_results
from tests.soak.runner import run_scenario


def run_soak(names: Sequence[str], smoke: bool, jobs: int, seed: int) -> dict[str, dict[str, Any]]:
    """Run scenarios, each in a new process, and print a line for each; returns their entries by name."""
    results = {}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        running = {pool.submit(run_scenario, name, smoke, seed): name for name in names}
        for number, done in enumerate(as_completed(running), start=1):
            entry = results[running[done]] = done.result()
            print(
                f"[{number}/{len(names)}] {running[done]}: {entry['injected']} faults injected, {entry['handled']} "
                f"handled, {len(entry['lost'])} lost ({entry['seconds']:.0f} s)", flush=True,
            )  # fmt: skip
            for lost in entry["lost"]:
                print(f"  LOST: {lost}", flush=True)
    return {name: results[name] for name in names}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns 1 if something was lost."""
    scenarios = load_scenarios()
    parser = ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--only", nargs="+", choices=scenarios, metavar="NAME", help=", ".join(scenarios))
    parser.add_argument("--smoke", action="store_true", help="inject a few faults of each kind, as the test suite does")
    parser.add_argument("--jobs", type=int, default=2, help="scenarios that run at once (default: 2)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the random moments and places (default: 0)")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="folder of results.json and results.md (default: tests/soak; none with --smoke or --only)",
    )
    options = parser.parse_args(arguments)
    names = options.only or [name for name, one in scenarios.items() if one.smoke or not options.smoke]
    if os.geteuid() != 0:
        for name in [name for name in names if scenarios[name].needs_root]:
            print(f"{name}: skipped: mounting a file system needs root")
            names.remove(name)
    results = run_soak(names, options.smoke, options.jobs, options.seed)
    print_table(results)
    output = options.output or (None if options.smoke or options.only else HERE)
    if output:
        write_results(output, results, options.seed)
    return int(any(entry["lost"] for entry in results.values()))


if __name__ == "__main__":
    sys.exit(main())
