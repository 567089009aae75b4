"""Reads what the commands that write pairs have written."""

import json
from pathlib import Path

import pyarrow.parquet as pq

SPLITS = ("train", "validation", "test")


def read_split(output: Path, split: str) -> list[dict]:
    path = output / f"{split}-00000-of-00001.parquet"
    return pq.read_table(path).to_pylist() if path.exists() else []


def read(output: Path) -> list[dict]:
    return [row for split in SPLITS for row in read_split(output, split)]


def report(output: Path) -> dict:
    return json.loads((output / "report.json").read_text(encoding="utf-8"))
