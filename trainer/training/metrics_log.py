"""The log of a run: mean metrics of its training steps, in metrics.jsonl and in the trackers."""

import json
from typing import Any

import torch
from torch import Tensor

from data_scripts.write.files import write_text
from trainer.evaluation.results import flatten
from trainer.training.context import RunContext


class MetricsLog:
    """Collects the metrics of training steps and writes rows to metrics.jsonl and to the trackers."""

    def __init__(self, context: RunContext) -> None:
        self._accelerator, self._file = context.accelerator, context.folder / "metrics.jsonl"
        self._trackers = [tracker for tracker in context.arguments.trackers if tracker != "none"]
        self._values: dict[str, list[Tensor]] = {}

    def start_trackers(self) -> None:
        """Start the trackers of the run."""
        if self._trackers:
            self._accelerator.init_trackers("tensorboard" if self._trackers == ["tensorboard"] else "convsim")

    def drop_rows_after(self, step: int) -> None:
        """Remove the rows of later steps from metrics.jsonl: a resumed run repeats these steps."""
        if self._accelerator.is_main_process:
            lines = self._file.read_text(encoding="utf-8").splitlines()
            rows = [line for line in lines if json.loads(line)["step"] <= step]
            write_text(self._file, "".join(f"{row}\n" for row in rows))

    def add(self, task: str, metrics: dict[str, Tensor]) -> None:
        """Collect the metrics, scalars, of one step of a task on this process."""
        for name, value in metrics.items():
            self._values.setdefault(f"{task}/{name}", []).append(value)

    def clear(self) -> None:
        """Drop the collected metrics."""
        self._values.clear()

    def take_means(self) -> dict[str, float]:
        """Return the mean of each metric since the last call, over all processes: "TASK/METRIC" -> mean."""
        means = {
            name: float(self._accelerator.reduce(torch.stack(values).mean(), "mean"))
            for name, values in self._values.items()
        }
        self.clear()
        return means

    def write(self, row: dict[str, Any]) -> None:
        """Write a row, which has the key "step", on the main process."""
        if not self._accelerator.is_main_process:
            return
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if self._trackers:
            values = flatten(row)
            numbers = {k: v for k, v in values.items() if isinstance(v, (int, float)) and k != "step"}
            self._accelerator.log(numbers, step=row["step"])
