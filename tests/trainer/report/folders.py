"""Invented folders of runs, sweeps and saved models: configs, results, and a stand-in for weights."""

import json
from pathlib import Path
from typing import Any

import yaml


def write_model(folder: Path, config: dict[str, Any], weights: str = "weights") -> Path:
    """A saved model's folder."""
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_text(weights)
    return folder


def write_run(
    folder: Path,
    settings: dict[str, Any],
    config: dict[str, Any] | None = None,
    results: dict[str, Any] | None = None,
    metrics: list[dict[str, Any]] | None = None,
) -> Path:
    """A finished run's folder; `config` is the encoder's."""
    write_model(folder / "model", config or {"model_type": "convsim_dan"}, weights=str(folder))
    (folder / "config.yaml").write_text(yaml.safe_dump(settings))
    (folder / "results.json").write_text(json.dumps(results or {}))
    if metrics:
        (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in metrics))
    return folder


def write_sweep(folder: Path, rows: list[dict[str, Any]]) -> Path:
    """The folder of a sweep, without its runs."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "rows.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return folder
