"""The log of a run: mean metrics of its training steps, in metrics.jsonl and in the trackers."""

import json
import shutil
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from data_scripts.errors import InputError
from data_scripts.write.files import new_file, report_write_errors
from trainer.distributed import gather
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
        """Save the log in a checkpoint, and each process's metrics since its last row. Every process must call this."""
        collected = {
            name: {"steps": self._steps[name], "values": torch.stack(values).tolist()}
            for name, values in self._values.items()
        }
        of_processes = gather(collected)
        if self._accelerator.is_main_process:
            for process, metrics in enumerate(of_processes):
                _collected_file(checkpoint, process).write_text(json.dumps(metrics), encoding="utf-8")
            self._file.touch()  # before the first row
            shutil.copyfile(self._file, checkpoint / self._file.name)

    def load(self, checkpoint: Path) -> None:
        """Go back to the log that `save` saved: a resumed run repeats the later steps. Every process must call this.

        Raises:
            InputError: the checkpoint has no log.
        """
        if self._accelerator.is_main_process:
            if not (checkpoint / self._file.name).is_file():
                raise InputError(
                    f"resume: {checkpoint} has no {self._file.name}: an earlier version wrote it; start again with "
                    "--overwrite true"
                )
            with new_file(self._file) as temporary:
                shutil.copyfile(checkpoint / self._file.name, temporary)
        file = _collected_file(checkpoint, self._accelerator.process_index)
        if not file.is_file():  # the run had fewer processes
            return
        for name, metric in json.loads(file.read_text(encoding="utf-8")).items():
            values = torch.tensor(metric["values"], device=self._accelerator.device)
            self._values[name], self._steps[name] = list(values), metric["steps"]

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

    def clear(self) -> None:
        """Drop the collected metrics."""
        self._values.clear()
        self._steps.clear()

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
        with report_write_errors(self._file, self._file), self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if self._trackers:
            values = flatten(row)
            numbers = {k: v for k, v in values.items() if isinstance(v, (int, float)) and k != "step"}
            self._accelerator.log(numbers, step=row["step"])


def _collected_file(checkpoint: Path, process: int) -> Path:
    return checkpoint / f"metrics_{process}.json"
