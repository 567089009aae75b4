"""Test the tests: change the code in small ways, one at a time, and print which changes the tests detect.

Every change is made in a copy of the repository, in a temporary folder.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import yaml

from data_scripts.command_line import ArgumentParser
from tests.mutation.mutants import sample_mutants
from tests.mutation.report import HERE, build_table, name_commit, read_results, summarize, write_results

ROOT = HERE.parents[1]
TARGETS = HERE / "targets.yaml"


class Worker:
    """A process that tests mutants in its own copy of the repository."""

    def __init__(self, folder: Path) -> None:
        self._tree = folder / "tree"
        listing = subprocess.run(
            ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        for name in filter(None, listing.stdout.split("\0")):
            if (ROOT / name).is_file():
                (self._tree / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, self._tree / name)
        settings = {
            "PYTHONPATH": str(self._tree),
            "OMP_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",
            "MUTANTS_TEMPORARY": str(folder / "temporary"),
            "CONVSIM_DATA": os.environ.get("CONVSIM_DATA", str(ROOT.parent / "shared" / "data")),
        }
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.mutation.worker"],
            cwd=self._tree, env=os.environ | settings, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    def test(self, path: str, tests: list[str], count: int | None, seed: int) -> dict[str, Any]:
        """Test the mutants of a module; return its entry of results.json."""
        assert self._process.stdin and self._process.stdout
        started = time.monotonic()
        mutants = [vars(one) for one in sample_mutants(ROOT, path, count, seed)]
        print(json.dumps({"path": path, "tests": tests, "mutants": mutants}), file=self._process.stdin, flush=True)
        first = json.loads(self._process.stdout.readline())
        if first["problem"]:
            raise RuntimeError(f"{path}: {first['problem']}")
        outcomes = [json.loads(self._process.stdout.readline()) for _ in mutants]
        results = [one | outcome for one, outcome in zip(mutants, outcomes, strict=True)]
        return summarize(path, first["tests"], results, time.monotonic() - started)

    def close(self) -> None:
        """End the process."""
        self._process.communicate()


def run(
    targets: dict[str, list[str]], count: int | None, seed: int, jobs: int, minutes: float
) -> dict[str, dict[str, Any]]:
    """Test the mutants of some modules, and print a line for each; return their entries by path.

    After `minutes` no further module is begun.
    """
    modules: dict[str, dict[str, Any]] = {}
    commit = name_commit()
    deadline = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory(prefix="mutants_") as folder:
        workers: SimpleQueue[Worker] = SimpleQueue()
        for number in range(jobs):
            workers.put(Worker(Path(folder) / str(number)))

        def test(path: str) -> None:
            if time.monotonic() > deadline:
                return
            worker = workers.get()
            try:
                entry = modules[path] = worker.test(path, targets[path], count, seed) | {"commit": commit}
            except RuntimeError as error:  # the other modules are tested
                print(error, file=sys.stderr)
                return
            finally:
                workers.put(worker)
            print(f"{path}: {entry['killed']} of {entry['mutants']} killed ({entry['seconds']:.0f} s)", flush=True)
            for one in entry["survivors"]:
                print(f"  line {one['line']} {one['outcome']}\n    {one['change'].replace(chr(10), chr(10) + '    ')}")

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(test, targets))
        for _ in range(jobs):
            workers.get().close()
    return modules


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns 1 if a module was left out, for lack of time or because its tests fail."""
    targets: dict[str, list[str]] = yaml.safe_load(TARGETS.read_text(encoding="utf-8"))
    parser = ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--only", nargs="+", metavar="MODULE", help="modules, or folders of modules (default: all)")
    parser.add_argument("--all", action="store_true", help="test every mutant, not a sample")
    parser.add_argument("--sample", type=int, default=40, help="mutants of a module (default: 40)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample (default: 0)")
    parser.add_argument("--jobs", type=int, default=2, help="modules that are tested at once (default: 2)")
    parser.add_argument("--minutes", type=float, default=55, help="begin no module after this time (default: 55)")
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FOLDER",
        help="folder of results.json and results.md; --only keeps the results of the other modules there (default: "
        "tests/mutation; none with --only)",
    )
    options = parser.parse_args(arguments)
    names = [
        path for path in targets if not options.only or any(path.startswith(one.rstrip("/")) for one in options.only)
    ]
    if not names:
        parser.error(f"--only: expected modules among {', '.join(targets)}")
    count = None if options.all else options.sample
    settings = {"seed": options.seed, "sample": count or "all"}
    output = options.output or (None if options.only else HERE)
    try:
        before = read_results(output, settings) if options.only and output else {}
    except ValueError as error:
        parser.error(str(error))
    minutes = float("inf") if options.all else options.minutes
    modules = run({name: targets[name] for name in names}, count, options.seed, options.jobs, minutes)
    print("\n" + "\n".join(build_table(modules)))
    if output:
        write_results(output, {path: before[path] for path in before if path in targets} | modules, settings)
    left = [name for name in names if name not in modules]
    if left:
        print(f"not tested: {', '.join(left)}", file=sys.stderr)
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
