"""Which task a step trains and which rows it reads: a pure function of (seed, step), so resuming needs one number."""

import numpy as np

from data_scripts.errors import InputError


class BatchPlan:
    """The batches of a whole run.

    Each step draws its task with the given odds; each task goes through its rows in an order that is drawn anew for
    every epoch. Every process of a distributed run computes the same plan and reads its own part of a batch.
    """

    def __init__(
        self,
        seed: int,
        rows: dict[str, int],
        odds: dict[str, float],
        batch_sizes: np.ndarray,
        late_from: int | None = None,
        late_odds: dict[str, float] | None = None,
    ) -> None:
        """Plan a run.

        Args:
            seed: what the draws start from.
            rows: number of training rows of each task.
            odds: how often each task is drawn, relative to the others; tasks of odds 0 never are.
            batch_sizes: (steps,) rows a step, over all processes.
            late_from: the first step that is drawn with `late_odds`; by default none is.
            late_odds: odds of the steps from there on.

        Raises:
            InputError: if a task has fewer rows than a batch.
        """
        late_odds = late_odds or odds
        self.tasks = [task for task in odds | late_odds if odds.get(task, 0) > 0 or late_odds.get(task, 0) > 0]
        for task in self.tasks:
            if rows[task] < batch_sizes.max():
                raise InputError(
                    f"{task} has {rows[task]} training pairs, fewer than a batch of {batch_sizes.max()}: "
                    "bring more pairs or lower batch_size (and late_batch_size)"
                )
        self._seed, self._rows, self._batch_sizes = seed, rows, batch_sizes
        draws = np.random.default_rng([seed, 0]).random(len(batch_sizes))
        parts = np.split(draws, [len(draws) if late_from is None else late_from])
        self._task_of_step = np.concatenate(
            [self._draw(part, each) for part, each in zip(parts, (odds, late_odds), strict=True)]
        )
        # How many rows of its task were read before each step.
        self._start_of_step = np.zeros(len(batch_sizes), dtype=np.int64)
        for index in range(len(self.tasks)):
            steps = np.flatnonzero(self._task_of_step == index)
            sizes = batch_sizes[steps]
            self._start_of_step[steps] = np.cumsum(sizes, dtype=np.int64) - sizes
        self._orders: dict[str, tuple[int, np.ndarray]] = {}

    def _draw(self, draws: np.ndarray, odds: dict[str, float]) -> np.ndarray:
        """The number, in `tasks`, of the task of each of some steps, from draws (steps,) in [0, 1)."""
        shares = np.cumsum([odds.get(task, 0) for task in self.tasks])
        return np.searchsorted(shares / shares[-1], draws, side="right").astype(np.int16)

    def batch(self, step: int) -> tuple[str, np.ndarray]:
        """The task of a step (counted from 0) and its rows, (batch,), of all processes."""
        index = int(self._task_of_step[step])
        task, start, size = self.tasks[index], int(self._start_of_step[step]), int(self._batch_sizes[step])
        epoch, first = divmod(start, self._rows[task])
        chosen = self._order(task, index, epoch)[first : first + size]
        if len(chosen) < size:  # the batch goes on in the next epoch
            chosen = np.concatenate([chosen, self._order(task, index, epoch + 1)[: size - len(chosen)]])
        return task, chosen

    def _order(self, task: str, index: int, epoch: int) -> np.ndarray:
        kept = self._orders.get(task)
        if kept is None or kept[0] != epoch:
            dtype = np.uint32 if self._rows[task] < 2**32 else np.int64
            order = np.arange(self._rows[task], dtype=dtype)
            np.random.default_rng([self._seed, 1, index, epoch]).shuffle(order)
            kept = self._orders[task] = (epoch, order)
        return kept[1]
