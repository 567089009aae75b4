"""`make bench` at tiny sizes: every benchmark runs without a GPU, bf16 or a network. Speeds are not checked."""

import json
import math
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.benchmarks.registry import BENCHMARKS
from tests.forking import run_python


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results of one run of all benchmarks in forks of a single process, which has imported all modules."""
    folder = tmp_path_factory.mktemp("benchmarks")
    (done,) = run_python([("-m", "tests.benchmarks", "--smoke", "--output", folder)], seconds=240)
    assert done.returncode == 0, done.stdout[-4000:]
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs(name: str, results: dict[str, Any]) -> None:
    entry = results[name]
    assert math.isfinite(entry["ratio"]) and entry["ratio"] > 0
    assert all(len(runs) == 1 and runs[0] > 0 for runs in entry["runs"].values())


@pytest.mark.parametrize("fork", [False, True])
def test_a_measurement_ends_with_the_benchmark_that_started_it(fork: bool) -> None:
    program = (
        "from tests.benchmarks.processes import call\n"
        f"call('time.sleep', [60], fork={fork}, watch=lambda pid: print(pid, flush=True))"
    )
    root = Path(__file__).parents[1]
    with subprocess.Popen([sys.executable, "-c", program], cwd=root, stdout=subprocess.PIPE, text=True) as benchmark:
        assert benchmark.stdout is not None
        measurement = psutil.Process(int(benchmark.stdout.readline()))
        benchmark.kill()
    for _ in range(100):
        if not measurement.is_running() or measurement.status() == psutil.STATUS_ZOMBIE:
            return
        time.sleep(0.1)
    measurement.kill()
    pytest.fail("the measurement is still running")
