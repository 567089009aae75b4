"""The log of a run: mean metrics of its training steps, in metrics.jsonl and in the trackers."""

import json
import logging
from typing import Any

import torch
from torch import Tensor

from data_scripts.write.files import write_text
from trainer.evaluation.results import flatten
from trainer.training.context import RunContext

logger = logging.getLogger(__name__)


class MetricsLog:
    """Collects the metrics of training steps and writes rows to metrics.jsonl and to the trackers."""

    def __init__(self, context: RunContext) -> None:
        self._accelerator, self._file = context.accelerator, context.folder / "metrics.jsonl"
        self._trackers = [tracker for tracker in context.arguments.trackers if tracker != "none"]
        self._values: dict[str, list[Tensor]] = {}
        self._steps: dict[str, list[int]] = {}

    def start_trackers(self) -> None:
        """Start the trackers of the run."""
        if self._trackers:
            self._accelerator.init_trackers("tensorboard" if self._trackers == ["tensorboard"] else "convsim")

    def drop_rows_after(self, step: int) -> None:
        """Remove the rows of later steps from metrics.jsonl: a resumed run repeats these steps.

        Lines that are damaged, such as the last line that a killed run was writing, are removed too, and logged.
        """
        if not self._accelerator.is_main_process:
            return
        if not self._file.is_file():
            logger.warning("%s is missing: it will have the rows after step %d only", self._file, step)
            return
        kept = []
        for number, line in enumerate(self._file.read_text(encoding="utf-8", errors="replace").split("\n"), 1):
            row_step = _step_of(line)
            if row_step is not None and row_step <= step:
                kept.append(f"{line}\n")
            elif row_step is None and line:
                logger.warning("%s, line %d: removed, because it is damaged: %.60s", self._file, number, line)
        write_text(self._file, "".join(kept))

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
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
        if self._trackers:
            values = flatten(row)
            numbers = {k: v for k, v in values.items() if isinstance(v, (int, float)) and k != "step"}
            self._accelerator.log(numbers, step=row["step"])


def _step_of(line: str) -> int | None:
    """Return the step of a row of metrics.jsonl; None if the line is damaged."""
    try:
        step = json.loads(line)["step"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    return step if isinstance(step, int) else None
