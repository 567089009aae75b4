"""Helpers of the tests of whole runs: a vocabulary, and functions that write datasets and read a run's files."""

import json
from pathlib import Path

from datasets import Dataset

THINGS = ["dog", "cat", "car", "house", "boat", "tree", "horse", "train", "garden", "kitchen", "piano", "bicycle"]
COLORS = ["red", "green", "blue", "black", "white", "yellow", "brown", "gray", "pink", "purple"]


def write(folder: Path, split: str, rows: list[dict]) -> None:
    """Write a split as Parquet."""
    folder.mkdir(parents=True, exist_ok=True)
    Dataset.from_list(rows).to_parquet(folder / f"{split}-00000-of-00001.parquet")


def read_results(run_folder: Path) -> dict:
    """The contents of results.json."""
    return json.loads((run_folder / "results.json").read_text())


def read_metrics(run_folder: Path) -> list[dict]:
    """The rows of metrics.jsonl."""
    return [json.loads(line) for line in (run_folder / "metrics.jsonl").read_text().splitlines()]


def values_of(metric: str, run_folder: Path) -> list[float]:
    """The logged values of one training metric, such as "captions/captions/loss"."""
    return [row[metric] for row in read_metrics(run_folder) if metric in row]
