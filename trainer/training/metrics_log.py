"""The log of a run: mean metrics of its training steps, in metrics.jsonl and in the trackers."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from data_scripts.files.storage import new_file, report_write_errors
from trainer.evaluation.results import flatten
from trainer.training.context import RunContext

METRICS = "metrics.jsonl"


class MetricsLog:
    """Collects the metrics of training steps and writes rows to metrics.jsonl and to the trackers."""

    def __init__(self, context: RunContext) -> None:
        self._accelerator, self._file = context.accelerator, context.folder / METRICS
        self._trackers = [tracker for tracker in context.arguments.trackers if tracker != "none"]
        self._values: dict[str, list[Tensor]] = {}
        self._steps: dict[str, list[int]] = {}

    def start_trackers(self) -> None:
        """Start the trackers of the run."""
        if self._trackers:
            self._accelerator.init_trackers("tensorboard" if self._trackers == ["tensorboard"] else "convsim")

    def save(self, checkpoint: Path) -> None:
        """Copy the log to a checkpoint, on the main process. What was collected must be in it."""
        if self._accelerator.is_main_process:
            self._file.touch()  # before the first row
            shutil.copyfile(self._file, checkpoint / self._file.name)

    def load(self, checkpoint: Path) -> None:
        """Go back to the log of a checkpoint, on the main process: a resumed run repeats the later steps."""
        if self._accelerator.is_main_process:
            with new_file(self._file) as temporary:
                shutil.copyfile(checkpoint / self._file.name, temporary)

    def add(self, step: int, task: str, metrics: dict[str, Tensor]) -> None:
        """Collect the metrics, scalars, of a step (counted from 1) of a task on this process."""
        for name, value in metrics.items():
            self._values.setdefault(f"{task}/{name}", []).append(value)
            self._steps.setdefault(f"{task}/{name}", []).append(step)

    def first_step_not_finite(self) -> int | None:
        """Return the first collected step with a metric that is not finite, over all processes; None without one."""
        none = first = 2**62
        for name, values in self._values.items():
            if not_finite := (~torch.stack(values).isfinite()).nonzero().flatten().tolist():
                first = min(first, self._steps[name][not_finite[0]])
        steps = self._accelerator.gather(torch.tensor([first], device=self._accelerator.device))  # (processes,)
        first = int(steps.min())
        return None if first == none else first

    def take_means(self) -> dict[str, float]:
        """Return the mean of each metric since the last call, over all processes: "TASK/METRIC" -> mean."""
        means = {
            name: float(self._accelerator.reduce(torch.stack(values).mean(), "mean"))
            for name, values in self._values.items()
        }
        self._values.clear()
        self._steps.clear()
        return means

    def write(self, row: dict[str, Any]) -> None:
        """Write a row, which has the key "step", on the main process."""
        if not self._accelerator.is_main_process:
            return
        with report_write_errors(self._file, self._file), self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if self._trackers:
            values = flatten(row)
            numbers = {k: v for k, v in values.items() if isinstance(v, (int, float)) and k != "step"}
            self._accelerator.log(numbers, step=row["step"])
