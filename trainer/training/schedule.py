"""The batch, its task and the learning rate of every step, as functions of the settings, the seed and the step."""

import math

import numpy as np

from modeling_convsim.files.errors import InputError
from trainer.settings import MAX_STEPS, Settings

AVERAGED = 10  # steps between averaged weights: those of successive steps hardly differ


class Schedule:
    """The schedule of a run; steps are counted from 0.

    The paper divides its training into two parts with different batch sizes and learning rates. `late_from` and the
    late_ options do the same; `late_from` is a share of the run, so that it applies to runs of any length.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        assert settings.max_steps is not None  # `train` computes it from `epochs`
        if settings.max_steps > MAX_STEPS:
            steps = f"epochs is {settings.epochs}, which takes {settings.max_steps:,} steps"
            raise InputError(f"{steps}; expected {MAX_STEPS:,} steps or fewer")
        self.steps = settings.max_steps
        self.first_averaged_step = math.ceil(settings.average_from * settings.max_steps)
        """The first step whose weights may be averaged; `steps` if none are."""
        self.first_late_step = math.ceil(settings.late_from * settings.max_steps)
        """The first step to which the late_ options apply; `steps` if there is none."""

    def batch_sizes(self) -> np.ndarray:
        """Return the batch size of every step, over all processes: (steps,) int32."""
        sizes = np.full(self.steps, self._settings.batch_size, dtype=np.int32)
        sizes[self.first_late_step :] = self._settings.late_batch_size or self._settings.batch_size
        return sizes

    def learning_rate(self, step: int) -> float:
        """Return the learning rate of the layers: warm-up, then constant or decay; `late_learning_rate` replaces it."""
        settings = self._settings
        if step >= self.first_late_step and settings.late_learning_rate:
            return settings.late_learning_rate
        progress = (step + 1) / self.steps
        if progress < settings.warmup:
            return settings.learning_rate * progress / settings.warmup
        left = (1 - step / self.steps) / (1 - settings.warmup) if settings.warmup < 1 else 1.0
        if settings.decay == "linear":
            return settings.learning_rate * min(1.0, left)
        if settings.decay == "cosine":
            return settings.learning_rate * (1 - math.cos(math.pi * min(1.0, left))) / 2
        return settings.learning_rate

    def is_averaged(self, step: int) -> bool:
        """Return whether the weights after a step belong to the average: every `AVERAGED`-th step, and the last."""
        return step >= self.first_averaged_step and (self.steps - 1 - step) % AVERAGED == 0

    def table_learning_rate(self, step: int) -> float:
        """Return the learning rate of the embedding matrices."""
        return self.learning_rate(step) * self._settings.table_learning_rate_ratio()


class BatchPlan:
    """The batches of a whole run.

    Each step samples its task with the given weights. Each task shuffles its rows in every epoch. All processes of a
    distributed run compute the same plan, and each reads its own part of a batch.
    """

    def __init__(
        self,
        seed: int,
        rows: dict[str, int],
        weights: dict[str, float],
        batch_sizes: np.ndarray,
        divisor: int = 1,
    ) -> None:
        """Plan a run.

        Args:
            seed: random seed of the tasks and of the shuffled rows.
            rows: number of training rows of each task.
            weights: sampling weight of each task, relative to the others; a task of weight 0 is never sampled.
            batch_sizes: (steps,) rows in each step, over all processes. A task with fewer rows uses all in each batch.
            divisor: the number of processes, by which the size of every batch is divisible.

        Raises:
            InputError: a task has fewer than two rows.
        """
        self.tasks = [task for task, weight in weights.items() if weight > 0]
        for task in self.tasks:
            if rows[task] < max(2, divisor):
                raise InputError(
                    f"{task} has {rows[task]} training pairs, expected {max(2, divisor)} or more: prepare more data, "
                    f"or leave {task} out of tasks"
                )
        self._seed, self._rows = seed, rows
        uniform = np.random.default_rng([seed, 0]).random(len(batch_sizes))  # (steps,) in [0, 1)
        cumulative = np.cumsum([weights[task] for task in self.tasks])  # (tasks,)
        # The index in `tasks` of each step's task, (steps,).
        self._task_of_step = np.searchsorted(cumulative / cumulative[-1], uniform, side="right").astype(np.int16)
        largest = np.array([rows[task] // divisor * divisor for task in self.tasks])  # (tasks,)
        self.batch_sizes = np.minimum(batch_sizes, largest[self._task_of_step])  # (steps,)
        # The number of rows of each step's task that the earlier steps read, (steps,).
        self._start_of_step = np.zeros(len(self.batch_sizes), dtype=np.int64)
        for index in range(len(self.tasks)):
            steps = np.flatnonzero(self._task_of_step == index)
            sizes = self.batch_sizes[steps]
            self._start_of_step[steps] = np.cumsum(sizes, dtype=np.int64) - sizes
        self._orders: dict[str, tuple[int, np.ndarray]] = {}

    def batch(self, step: int) -> tuple[str, np.ndarray]:
        """Return the task of a step (counted from 0) and its rows, (batch,), of all processes."""
        index = int(self._task_of_step[step])
        task, start, size = self.tasks[index], int(self._start_of_step[step]), int(self.batch_sizes[step])
        epoch, first = divmod(start, self._rows[task])
        rows = self._order(task, index, epoch)[first : first + size]  # (batch,), or fewer at the end of an epoch
        if len(rows) < size:
            # The batch continues in the next epoch.
            rows = np.concatenate([rows, self._order(task, index, epoch + 1)[: size - len(rows)]])
        return task, rows

    def _order(self, task: str, index: int, epoch: int) -> np.ndarray:
        """Return the shuffled rows of a task in an epoch, (rows,); the last order of each task is cached."""
        cached = self._orders.get(task)
        if cached is None or cached[0] != epoch:
            dtype = np.uint32 if self._rows[task] < 2**32 else np.int64
            order = np.arange(self._rows[task], dtype=dtype)
            np.random.default_rng([self._seed, 1, index, epoch]).shuffle(order)
            cached = self._orders[task] = (epoch, order)
        return cached[1]
