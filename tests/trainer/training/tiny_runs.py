"""Helpers of the tests of whole runs: training, and reading a run's files."""

import json
import sys
from pathlib import Path

import pytest
from accelerate.state import AcceleratorState

from tests.forking import run_ranks
from trainer import run

ROOT = Path(__file__).resolve().parents[3]
RUN = ROOT / "trainer" / "run.py"


def run_trainer(*argv: str) -> int:
    """Run `python trainer/run.py …` in this process, as a user would; returns its exit code."""
    AcceleratorState._reset_state(reset_partial_state=True)  # as in a new process
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["trainer/run.py", *argv])
        try:
            return run.main()
        except SystemExit as stopped:  # from the parser
            return int(stopped.code or 0)


def read_results(run_folder: Path) -> dict:
    """The contents of results.json."""
    return json.loads((run_folder / "results.json").read_text())


def read_metrics(run_folder: Path) -> list[dict]:
    """The rows of metrics.jsonl."""
    return [json.loads(line) for line in (run_folder / "metrics.jsonl").read_text().splitlines()]


def values_of(metric: str, run_folder: Path) -> list[float]:
    """The logged values of one training metric, such as "captions/captions/loss"."""
    return [row[metric] for row in read_metrics(run_folder) if metric in row]


def losses(preset: Path, output: Path, *options: str, ranks: int = 1) -> list[float]:
    """Train in one process or several; return the logged losses of response prediction."""
    done = run_ranks(RUN, preset, "--output_dir", output, *options, ranks=ranks)
    assert done.returncode == 0, done.stdout
    return read_losses(output)


def read_losses(folder: Path) -> list[float]:
    """The logged losses of response prediction."""
    return values_of("response_prediction/loss", folder)
