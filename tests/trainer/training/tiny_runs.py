"""Helpers of the tests of whole runs: training, and reading a run's files."""

import json
from pathlib import Path

from tests.forking import run_ranks

ROOT = Path(__file__).resolve().parents[3]
RUN = ROOT / "trainer" / "run.py"


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
