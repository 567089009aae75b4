"""The systems that a report compares: the finished runs of its plan, with their settings and results."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modeling_convsim.files.errors import InputError
from modeling_convsim.files.records import read_records
from modeling_convsim.files.texts import BrokenLines
from trainer.data.datasets import source_name
from trainer.report.plan import PlannedRun
from trainer.runs import METRICS, Run


@dataclass(frozen=True, eq=False)
class System(PlannedRun):
    """A trained model: a finished run of the plan.

    Attributes:
        settings: config.yaml of its run.
        results: results.json of its run.
        metrics: the rows of metrics.jsonl of its run.
    """

    settings: dict[str, Any] = field(default_factory=dict)
    results: dict[str, Any] = field(default_factory=dict)
    metrics: list[dict[str, Any]] = field(default_factory=list)

    @property
    def model(self) -> Path:
        """The folder of the saved model."""
        return self.folder / "model"

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
        InputError: the folder does not contain a finished run, or a line of its metrics.jsonl is damaged.
    """
    finished, metrics = Run(run.folder), run.folder / METRICS
    finished.check_finished()
    broken = BrokenLines()
    rows = [row for _, row in read_records(metrics).rows((), broken)] if metrics.is_file() else []
    if broken.examples:
        raise InputError(f"{broken.examples[0]}; delete the line")
    return System(**vars(run), settings=finished.settings, results=finished.results, metrics=rows)
