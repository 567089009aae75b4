"""`make bench` at tiny sizes: every benchmark runs without a GPU, bf16 or a network. Speeds are not checked."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks.registry import BENCHMARKS

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Results of one run of all benchmarks in forks of a single process, which has imported all modules."""
    folder = tmp_path_factory.mktemp("benchmarks")
    done = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", "--smoke", "--output", folder],
        cwd=ROOT, env={**os.environ, "HF_HUB_OFFLINE": "1"}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads((folder / "results.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_runs(name: str, results: dict[str, Any]) -> None:
    entry = results[name]
    assert math.isfinite(entry["ratio"]) and entry["ratio"] > 0
    assert all(len(runs) == 1 and runs[0] > 0 for runs in entry["runs"].values())
