"""Invented finished runs, as the plan names them: configs, results, and a stand-in for weights."""

import json
from pathlib import Path
from typing import Any

import yaml

from trainer.report.plan import PlannedRun
from trainer.report.systems import System, open_system


def write_run(
    folder: Path,
    label: str = "DAN, conversations",
    role: str = "conversations",
    settings: dict[str, Any] | None = None,
    results: dict[str, Any] | None = None,
    metrics: list[dict[str, Any]] | None = None,
    method: str = "",
    varied: tuple[str, str] | None = None,
) -> System:
    """A finished run's system; its name is that of its folder, or of this and the one above if a setting is varied."""
    (folder / "model").mkdir(parents=True)
    (folder / "model" / "config.json").write_text("{}")
    (folder / "model" / "model.safetensors").write_text(str(folder))
    (folder / "config.yaml").write_text(yaml.safe_dump(settings or {"seed": 0}))
    (folder / "results.json").write_text(json.dumps(results or {}))
    if metrics:
        (folder / "metrics.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in metrics))
    name = f"{folder.parent.name}/{folder.name}" if varied else folder.name
    return open_system(PlannedRun(name, label, role, folder, [], method=method, varied=varied))
