"""Batch size and learning rate of every step."""

import math

import numpy as np

from trainer.arguments import Arguments, table_learning_rate_ratio

AVERAGED = 10  # steps between averaged weights: those of successive steps hardly differ


class Schedule:
    """The schedule of a run; steps are counted from 0.

    The paper divides its training into two parts with different batch sizes and learning rates. `late_from` and the
    late_ options do the same; `late_from` is a share of the run, so that it applies to runs of any length.
    """

    def __init__(self, arguments: Arguments) -> None:
        self._arguments = arguments
        assert arguments.max_steps is not None  # `train` computes it from `epochs`
        self.steps = arguments.max_steps
        self.first_averaged_step = math.ceil(arguments.average_from * arguments.max_steps)
        """The first step whose weights may be averaged; `steps` if none are."""
        self.first_late_step = math.ceil(arguments.late_from * arguments.max_steps)
        """The first step to which the late_ options apply; `steps` if there is none."""

    def batch_size(self, step: int) -> int:
        """Return the batch size of a step, over all processes."""
        late = self._arguments.late_batch_size
        return late if late and step >= self.first_late_step else self._arguments.batch_size

    def batch_sizes(self) -> np.ndarray:
        """Return the `batch_size` of every step, (steps,) int32, without a loop over the paper's 40 million steps."""
        sizes = np.full(self.steps, self._arguments.batch_size, dtype=np.int32)
        sizes[self.first_late_step :] = self._arguments.late_batch_size or self._arguments.batch_size
        return sizes

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of the layers: warm-up, then constant or decay; `late_learning_rate` replaces it."""
        arguments = self._arguments
        if step >= self.first_late_step and arguments.late_learning_rate:
            return arguments.late_learning_rate
        progress = (step + 1) / self.steps
        if progress < arguments.warmup:
            return arguments.learning_rate * progress / arguments.warmup
        left = (1 - step / self.steps) / (1 - arguments.warmup) if arguments.warmup < 1 else 1.0
        if arguments.decay == "linear":
            return arguments.learning_rate * min(1.0, left)
        if arguments.decay == "cosine":
            return arguments.learning_rate * (1 - math.cos(math.pi * min(1.0, left))) / 2
        return arguments.learning_rate

    def is_averaged(self, step: int) -> bool:
        """Return whether the weights after a step belong to the average: every `AVERAGED`-th step, and the last."""
        return step >= self.first_averaged_step and (self.steps - 1 - step) % AVERAGED == 0

    def table_learning_rate(self, step: int) -> float:
        """Return the learning rate of the embedding matrices."""
        return self.learning_rate(step) * table_learning_rate_ratio(self._arguments)
