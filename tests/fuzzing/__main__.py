"""Fuzz the readers with atheris and print a table: `python -m tests.fuzzing [HARNESS ...] [--seconds N]`.

Inputs that crash a reader are written to the folder of --crashes, with their tracebacks.
"""

import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from data_scripts.command_line import ArgumentParser
from tests.fuzzing.fuzzer import COUNTS
from tests.fuzzing.registry import load_harnesses
from tests.fuzzing.report import HERE, build_table, write_results

CRASHES = HERE / "crashes"
RESTARTS = 5  # of a fuzzer whose process died


def fuzz(name: str, seconds: int, seed: int, crashes: Path) -> dict[str, Any]:
    """Fuzz one harness in processes of its own; returns its entry of results.json."""
    started, deaths, peak = time.monotonic(), 0, 0
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(prefix=f"fuzz_{name}_", dir=memory if memory.is_dir() else None) as path:
        folder = Path(path)
        while (left := round(seconds - (time.monotonic() - started))) > 0 and deaths < RESTARTS:
            command = [sys.executable, "-m", "tests.fuzzing.fuzzer", name, path, str(left), str(seed + deaths)]
            with (folder / "log").open("ab") as log:
                process = subprocess.Popen(command, stdout=log, stderr=log, env=os.environ | {"OMP_NUM_THREADS": "1"})
                _, status, usage = os.wait4(process.pid, 0)
                process.returncode = os.waitstatus_to_exitcode(status)
            peak = max(peak, usage.ru_maxrss // 1024)
            if process.returncode == 0:
                break
            deaths += 1
            shutil.copy(folder / "log", crashes_of(folder) / f"process-{deaths}.txt")
        counts = folder / "counts"
        tried, accepted, refused, crashed = COUNTS.unpack(
            counts.read_bytes() if counts.exists() else bytes(COUNTS.size)
        )
        found = sorted(file.name for file in crashes_of(folder).iterdir())
        if found:
            shutil.copytree(crashes_of(folder), crashes / name, dirs_exist_ok=True)
    return {
        **{"covers": load_harnesses()[name].covers, "tried": tried, "accepted": accepted, "refused": refused},
        **{
            "crashed": crashed + deaths,
            "peak_mb": peak,
            "seconds": round(time.monotonic() - started),
            "crashes": found,
        },
    }


def crashes_of(folder: Path) -> Path:
    """The folder to which a fuzzer writes the inputs that crash."""
    (folder / "crashes").mkdir(exist_ok=True)
    return folder / "crashes"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns 1 if a reader crashed."""
    harnesses = load_harnesses()
    parser = ArgumentParser(prog="python -m tests.fuzzing", description=__doc__.splitlines()[0])
    parser.add_argument("harness", nargs="*", help=f"all by default: {', '.join(harnesses)}")
    parser.add_argument("--seconds", type=int, default=600, help="in total (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the mutations (default: %(default)s)")
    parser.add_argument(
        "--crashes", type=Path, default=CRASHES, help="folder for inputs that crash (default: %(default)s)"
    )
    parser.add_argument(
        "--output", type=Path, help="folder of results.json and results.md (default: do not write them)"
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.harness) - harnesses.keys():
        parser.error(f"no harness {', '.join(sorted(unknown))}; there are {', '.join(harnesses)}")
    if importlib.util.find_spec("atheris") is None:
        parser.error("atheris is not installed, which Python 3.11 to 3.13 have: pip install -e '.[check]'")
    names = options.harness or list(harnesses)
    results = {}
    for name in names:
        entry = results[name] = fuzz(name, max(options.seconds // len(names), 1), options.seed, options.crashes)
        print(f"{name}: {entry['tried']:,} inputs, {entry['crashed']} crashed ({entry['seconds']} s)", flush=True)
        for crash in entry["crashes"]:
            print(f"  {options.crashes / name / crash}", flush=True)
    print("\n" + "\n".join(build_table(results)))
    if options.output:
        write_results(options.output, results, options.seed)
    return int(any(entry["crashed"] for entry in results.values()))


if __name__ == "__main__":
    sys.exit(main())
