"""The systems that a report compares: the finished runs of its plan, with their settings and results."""

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data_scripts.files.errors import InputError
from trainer.data.datasets import source_name
from trainer.report.plan import PlannedRun
from trainer.runs import METRICS, Run


@dataclass(frozen=True, eq=False)
class System:
    """A trained model.

    Attributes:
        run: its entry in the plan.
        settings: config.yaml of its run.
        results: results.json of its run.
        metrics: the rows of metrics.jsonl of its run.
    """

    run: PlannedRun
    settings: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    metrics: list[dict[str, Any]] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The name of its run."""
        return self.run.name

    @property
    def label(self) -> str:
        """Its name in tables."""
        return self.run.label

    @property
    def role(self) -> str:
        """What it is trained on: one of `trainer.report.plan.ROLES`."""
        return self.run.role

    @property
    def model(self) -> Path:
        """The folder of the saved model."""
        return self.run.folder / "model"

    @property
    def encoder(self) -> str:
        """The first part of its label, such as DAN."""
        return self.label.partition(",")[0]

    @property
    def is_plain(self) -> bool:
        """Whether it is one of the papers' models and not a variation of one: its label is "ENCODER, ROLE"."""
        return self.label == f"{self.encoder}, {self.role}"

    @property
    def sources(self) -> str:
        """Names of the datasets of word vectors or neighboring sentences."""
        return ", ".join(map(source_name, self.settings.get("documents") or []))


def open_system(run: PlannedRun) -> System:
    """The system in a run's folder.

    Raises:
        InputError: the folder holds no finished run.
    """
    finished, metrics = Run(run.folder), run.folder / METRICS
    finished.check_finished()
    rows = _read_json_lines(metrics) if metrics.is_file() else []
    return System(run, finished.settings, finished.results, rows)


def _read_json_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON objects in the lines of a file.

    Raises:
        InputError: the file cannot be read, or a line is not a JSON object.
    """
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            rows.append(dict(json.loads(line)))
        except (ValueError, TypeError) as error:
            raise InputError(f"{path}, line {number}: expected a JSON object ({error}); delete the line") from error
    return rows
