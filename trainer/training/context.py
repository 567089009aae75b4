"""The context of a run (settings, processes, folder, hook), and its progress."""

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from transformers import PreTrainedTokenizerFast

from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.arguments import Arguments
from trainer.data.datasets import RunData
from trainer.data.dev_split import complete_dev_split
from trainer.tasks import Task
from trainer.training.interruption import Interruption
from trainer.training.model_evaluator import DEV_QUERIES, ModelEvaluator


class Hook:
    """The steps of a run that a caller of `train` can replace. These are the steps of an ordinary run."""

    def complete_splits(self, data: RunData) -> None:
        """Complete the splits of the datasets. Every process calls this."""
        if data.of_kind("pairs"):
            complete_dev_split(data)

    def prepare(
        self,
        context: "RunContext",
        model: ConvSimForMultitask,
        tokenizer: PreTrainedTokenizerFast,
        tasks: Mapping[str, Task],
    ) -> Arguments:
        """Prepare the model that training starts from; return the settings, with their `max_steps`.

        Every process calls this.
        """
        arguments = context.arguments
        if not arguments.epochs:
            return arguments
        rows = arguments.epochs * sum(len(task) for task in tasks.values())
        return replace(arguments, max_steps=math.ceil(rows / arguments.batch_size))

    def evaluate(self, evaluator: ModelEvaluator, step: int, score: Callable[[dict], float]) -> dict[str, Any]:
        """Evaluate the model on dev after a step; `score` gives the score of results, by which the best is selected."""
        return evaluator.evaluate("dev", queries=DEV_QUERIES)

    def finish(self, context: "RunContext", evaluator: ModelEvaluator, progress: "Progress") -> dict[str, Any]:
        """Change the model of the best checkpoint, which `evaluator` has; return further parts of results.json."""
        return {}


@dataclass(frozen=True)
class RunContext:
    """The constant context of a run."""

    arguments: Arguments
    accelerator: Accelerator
    folder: Path
    started: float = field(default_factory=time.monotonic)
    """`time.monotonic()` at the start of this process's part of the run."""
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    """Fingerprints of the datasets and the tokenizer, on the first process of each machine only."""
    interruption: Interruption = field(default_factory=Interruption)
    hook: Hook = field(default_factory=Hook)


@dataclass
class Progress:
    """The progress of a run; each checkpoint stores it as `progress.json`."""

    step: int = 0
    """Number of steps taken."""
    pairs: int = 0
    """Number of pairs trained on, over all processes."""
    seconds: float = 0.0
    """Seconds spent in the training loop, including dev evaluations."""
    best: float | None = None
    """Highest dev score so far, and the step that reached it; both on the main process only."""
    best_step: int | None = None
    threads: int | None = None
    """Number of threads that training uses; None on a GPU."""
    mixed_precision: str | None = None
    """Precision of the computations; never `auto`."""
    device: str | None = None
    """Type of the device."""
    processes: int = 1
    fingerprints: dict[str, str] = field(default_factory=dict)
    """Fingerprints of the datasets and the tokenizer, on the first process of each machine only."""

    @classmethod
    def at_start(cls, context: RunContext) -> "Progress":
        """Return the progress of a run that has not taken a step."""
        accelerator = context.accelerator
        return cls(
            mixed_precision=accelerator.mixed_precision,
            device=accelerator.device.type,
            threads=torch.get_num_threads() if accelerator.device.type == "cpu" else None,
            processes=accelerator.num_processes,
            fingerprints=dict(context.fingerprints),
        )
