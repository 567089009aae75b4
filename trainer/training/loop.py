"""The training loop: steps, logs, evaluations and checkpoints."""

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from data_scripts.files.errors import InputError
from data_scripts.files.folders import write_checksums
from trainer.distributed import wait_for_all
from trainer.tasks import Task
from trainer.training.checkpoints import load_checkpoint, save_checkpoint
from trainer.training.context import Progress, RunContext
from trainer.training.metrics_log import MetricsLog
from trainer.training.model_evaluator import DEV_QUERIES, ModelEvaluator, select_score
from trainer.training.run_folder import CONFIG
from trainer.training.schedule import BatchPlan, Schedule
from trainer.training.trainable_model import TrainableModel

logger = logging.getLogger(__name__)


class TrainingLoop:
    """Trains a model on the batches of a plan, from the first step or the last checkpoint to the last step.

    `step(index)` takes a single training step, for measurements without evaluations and checkpoints.
    """

    def __init__(self, context: RunContext, model: TrainableModel, tasks: Mapping[str, Task], plan: BatchPlan) -> None:
        self._arguments, self._accelerator = context.arguments, context.accelerator
        self._context, self._model, self._tasks, self._plan = context, model, tasks, plan
        self._schedule = Schedule(context.arguments)
        self._metrics = MetricsLog(context)
        self._progress = Progress.at_start(context)

    def run(self, evaluator: ModelEvaluator, begin: Callable[[], None]) -> Progress:
        """Train to the last step; return the progress of the run, with its best checkpoint.

        `begin` prepares the folder of a new run; the main process calls it once the settings are known to be right.

        Raises:
            InputError: a loss or a weight is not finite, the run cannot be resumed, or the dev results lack
                `best_metric`.
        """
        arguments, progress = self._arguments, self._progress
        if arguments.resume:
            self._resume()
        # A mistake in the settings of the evaluation shows now, before an earlier run is deleted.
        results = self._evaluate(evaluator) if progress.step == 0 else None
        wait_for_all()
        if self._accelerator.is_main_process and not arguments.resume:
            begin()
        wait_for_all()
        self._metrics.start_trackers()
        self._record(results)
        started = time.monotonic() - progress.seconds
        # A signal during a step, an evaluation or a save takes effect after it.
        with self._progress_bar() as bar, self._context.interruption.deferred():
            for index in range(progress.step, self._schedule.steps):
                self.step(index)
                pairs = int(self._plan.batch_sizes[index])
                progress.step = index + 1
                progress.pairs += pairs
                progress.seconds = time.monotonic() - started
                bar.update(pairs)

                # once in a while: log the losses
                is_evaluated = progress.step % arguments.eval_every == 0 or progress.step == self._schedule.steps
                if progress.step % arguments.log_every == 0 or is_evaluated:
                    self._log(bar)

                # less often: evaluate on dev and save a checkpoint
                if is_evaluated:
                    self._check_weights()
                    self._record(self._evaluate(evaluator))
                    self._save()
                    progress.seconds = time.monotonic() - started

                # at most once: save a checkpoint and leave, because of a signal
                if self._context.interruption.is_requested():
                    if not is_evaluated:
                        self._log(bar)
                        self._check_weights()
                        self._model.update_full()
                        self._save()
                    self._context.interruption.stop()
        return progress

    def step(self, index: int) -> None:
        """Take the training step `index`, counted from 0: sample a batch, compute its gradients, apply them."""
        self._model.set_learning_rates(
            layers=self._schedule.learning_rate(index), tables=self._schedule.table_learning_rate(index)
        )
        # Dropout is a function of (seed, step, rank): a resumed run repeats it.
        seeds = np.random.SeedSequence([self._arguments.seed, index, self._accelerator.process_index])
        self._set_seed(int(seeds.generate_state(1)[0]))
        name, rows = self._plan.batch(index)  # (batch,)
        batch = self._to_device(self._tasks[name].batch(self._own_part(rows)))
        with self._accelerator.autocast():
            loss, metrics = self._tasks[name].loss(self._model.wrapped, batch)  # (), of this process's rows
        self._accelerator.backward(loss)
        self._model.apply_gradients()
        if self._schedule.is_averaged(index):
            self._model.average_weights()
        self._metrics.add(index + 1, name, {"loss": loss.detach(), **metrics})

    def _own_part(self, rows: np.ndarray) -> np.ndarray:
        """Return this process's part of the rows of a batch: (batch,) -> (batch / processes,)."""
        size = len(rows) // self._accelerator.num_processes
        return rows[self._accelerator.process_index * size :][:size]

    def _to_device(self, batch: dict[str, Tensor]) -> dict[str, Tensor]:
        return {key: value.to(self._accelerator.device, non_blocking=True) for key, value in batch.items()}

    def _set_seed(self, seed: int) -> None:
        """Seed torch without `torch.manual_seed`, which collects a stack trace for `torch.compile` at every call."""
        torch.default_generator.manual_seed(seed)
        if self._accelerator.device.type == "cuda":
            torch.cuda.manual_seed(seed)

    def _save(self) -> None:
        save_checkpoint(self._context, self._model, self._metrics, self._progress)

    def _resume(self) -> None:
        with load_checkpoint(self._context, self._model, self._progress) as checkpoint:
            if self._accelerator.is_main_process:
                write_checksums(self._context.folder, [CONFIG])  # without those of files that are written again
            self._metrics.load(checkpoint)
        if self._progress.threads:  # with another number, results can differ in the last bits
            torch.set_num_threads(self._progress.threads)
        if self._accelerator.is_main_process:
            logger.info("resuming %s at step %d", self._context.folder, self._progress.step)

    def _progress_bar(self) -> tqdm:
        return tqdm(
            total=int(self._plan.batch_sizes.sum(dtype=np.int64)),
            initial=self._progress.pairs,
            unit=" examples",
            unit_scale=True,
            smoothing=0.05,
            desc=self._context.folder.name,
            disable=not self._accelerator.is_main_process,
        )

    def _log(self, bar: tqdm) -> None:
        """Write the mean losses and metrics since the last log, and show the losses beside the progress bar.

        Raises:
            InputError: a loss is not finite; neither the log nor a checkpoint has its step.
        """
        if (diverged := self._metrics.first_step_not_finite()) is not None:
            raise self._diverged(f"the loss of {self._plan.batch(diverged - 1)[0]} is not finite at step {diverged}")
        means, step = self._metrics.take_means(), self._progress.step
        if not means:  # logged already
            return
        rate = self._schedule.learning_rate(step - 1)
        self._metrics.write({"step": step, "pairs": self._progress.pairs, "learning_rate": rate, **means})
        bar.set_postfix({task: f"{loss:.3f}" for task, loss in _mean_losses(means).items()}, refresh=False)

    def _check_weights(self) -> None:
        """Stop before weights that are not finite reach a checkpoint: the loss of their step may be finite."""
        finite = torch.tensor(float(self._model.has_finite_weights()), device=self._accelerator.device)
        if self._accelerator.reduce(finite, "sum") < self._accelerator.num_processes:
            raise self._diverged(f"the weights are not finite after step {self._progress.step}")

    def _diverged(self, what: str) -> InputError:
        saved = self._context.interruption.saved
        state = f"the checkpoint of an earlier step, {saved.name}" if saved else "no checkpoint"
        remedy = "lower learning_rate or set max_grad_norm, and start again with --overwrite true"
        return InputError(f"{what}: {remedy}; {self._context.folder} has {state}")

    def _evaluate(self, evaluator: ModelEvaluator) -> dict[str, Any] | None:
        """Evaluate on dev; None on the other processes than the main one."""
        self._model.update_full()
        if not self._accelerator.is_main_process:
            return None
        results = evaluator.evaluate("dev", queries=DEV_QUERIES)
        self._score(results)  # refuses results without `best_metric`
        return results

    def _score(self, results: dict[str, Any]) -> float:
        return select_score(results, self._arguments.best_metric, self._progress.step)

    def _record(self, results: dict[str, Any] | None) -> None:
        """Log results on dev; after the first step, update the best score."""
        if results is None:
            return
        arguments, progress = self._arguments, self._progress
        self._metrics.write({"step": progress.step, "dev": results})
        score = self._score(results)
        if progress.step and (progress.best is None or score > progress.best):
            progress.best, progress.best_step = score, progress.step
        if arguments.best_metric != "last":
            tqdm.write(f"step {progress.step}: dev {arguments.best_metric} {score:.4f}")


def _mean_losses(means: Mapping[str, float]) -> dict[str, float]:
    """Return task -> mean loss over its datasets, from "TASK/METRIC" or "TASK/DATASET/METRIC" -> mean."""
    losses: dict[str, list[float]] = {}
    for name, value in means.items():
        if name.endswith("/loss"):
            losses.setdefault(name.partition("/")[0], []).append(value)
    return {task: float(np.mean(values)) for task, values in losses.items()}
