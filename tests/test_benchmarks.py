"""`make bench` at tiny sizes: every benchmark runs without a GPU, bf16 or a network. Speeds are not checked."""

import json
import math
from typing import Any

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
