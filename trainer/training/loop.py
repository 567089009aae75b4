"""The training loop: steps, their log, evaluations and checkpoints."""

import json
import logging
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm

from modeling_convsim.files.errors import InputError
from modeling_convsim.files.storage import report_write_errors
from trainer.evaluation.results import flatten
from trainer.processes import wait_for_all, world_size
from trainer.runs import METRICS, Run, RunContext
from trainer.tasks import Task
from trainer.training.checkpoints import Progress, load_checkpoint, save_checkpoint
from trainer.training.model_evaluator import DEV_QUERIES, ModelEvaluator, select_score
from trainer.training.schedule import BatchPlan, Schedule
from trainer.training.signals import Interrupted, NotedSignals
from trainer.training.trainable_model import TrainableModel

logger = logging.getLogger(__name__)


class TrainingLoop:
    """Trains a model on the batches of a plan, from the first step or the last checkpoint to the last step.

    `step(index)` takes a single training step, for measurements without evaluations and checkpoints.
    """

    def __init__(
        self,
        context: RunContext,
        model: TrainableModel,
        tasks: Mapping[str, Task],
        plan: BatchPlan,
        fingerprints: Mapping[str, str] | None = None,
    ) -> None:
        self._settings, self._accelerator = context.settings, context.accelerator
        self._context, self._model, self._tasks, self._plan = context, model, tasks, plan
        self._schedule = Schedule(context.settings)
        self._metrics = MetricsLog(context)
        self._progress = Progress.at_start(context.accelerator, fingerprints)

    def run(self, evaluator: ModelEvaluator, begin: Callable[[], None]) -> Progress:
        """Train to the last step; return the progress of the run, with its best checkpoint.

        `begin` prepares the folder of a new run; the main process calls it once the settings have been checked.

        Raises:
            InputError: a loss or a weight is not finite, the run cannot be resumed, or the dev results lack
                `best_metric`.
            Interrupted: a signal has stopped the training after a step; its checkpoint is saved.
        """
        settings, progress = self._settings, self._progress
        if settings.resume:
            load_checkpoint(self._context, self._model, progress)
            if progress.threads:  # with another number, results can differ in the last bits
                torch.set_num_threads(progress.threads)
            if self._accelerator.is_main_process:
                logger.info("resuming %s at step %d", self._context.folder, progress.step)
        # This finds mistakes in the settings of the evaluation before an earlier run is deleted.
        results = self._evaluate(evaluator) if progress.step == 0 else None
        wait_for_all()
        if self._accelerator.is_main_process and not settings.resume:
            begin()
        wait_for_all()
        self._metrics.start_trackers()
        self._record(results)
        started = time.monotonic() - progress.seconds
        # A signal during a step, an evaluation or a save takes effect after it.
        signals = NotedSignals()
        with self._progress_bar() as bar, signals.noting():
            for index in range(progress.step, self._schedule.steps):
                self.step(index)
                pairs = int(self._plan.batch_sizes[index])
                progress.step = index + 1
                progress.pairs += pairs
                progress.seconds = time.monotonic() - started
                bar.update(pairs)

                # once in a while: log the losses
                is_evaluated = progress.step % settings.eval_every == 0 or progress.step == self._schedule.steps
                is_logged = progress.step % settings.log_every == 0 or is_evaluated
                if is_logged:
                    self._log(bar)

                # less often: evaluate on dev and save a checkpoint
                if is_evaluated:
                    self._check_weights()
                    self._record(self._evaluate(evaluator))
                    save_checkpoint(self._context, self._model, progress)
                    progress.seconds = time.monotonic() - started

                # at most once: save a checkpoint and leave, because of a signal; several processes wait for one another
                # to agree, and not after every step
                if (is_logged or world_size() == 1) and (number := signals.agree()):
                    if not is_evaluated:
                        self._log(bar)
                        self._check_weights()
                        self._model.update_full()
                        save_checkpoint(self._context, self._model, progress)
                    saved = Run(self._context.folder).checkpoint(progress.step)
                    raise Interrupted(number, f"{saved} is saved: continue with --resume true")
        return progress

    def step(self, index: int) -> None:
        """Take the training step `index`, counted from 0: sample a batch, compute its gradients, apply them."""
        self._model.set_learning_rates(
            layers=self._schedule.learning_rate(index), tables=self._schedule.table_learning_rate(index)
        )
        # Dropout is a function of (seed, step, rank): a resumed run repeats it.
        seeds = np.random.SeedSequence([self._settings.seed, index, self._accelerator.process_index])
        seed = int(seeds.generate_state(1)[0])
        # Without `torch.manual_seed`, which collects a stack trace for `torch.compile` at every call.
        torch.default_generator.manual_seed(seed)
        if self._accelerator.device.type == "cuda":
            torch.cuda.manual_seed(seed)
        name, rows = self._plan.batch(index)  # (batch,)
        own = len(rows) // self._accelerator.num_processes
        rows = rows[self._accelerator.process_index * own :][:own]  # (batch / processes,): this process's part
        batch = {
            key: value.to(self._accelerator.device, non_blocking=True)
            for key, value in self._tasks[name].batch(rows).items()
        }
        with self._accelerator.autocast():
            loss, metrics = self._tasks[name].loss(self._model.wrapped, batch)  # (), of this process's rows
        self._accelerator.backward(loss)
        self._model.apply_gradients()
        if self._schedule.is_averaged(index):
            self._model.average_weights()
        self._metrics.add(index + 1, name, {"loss": loss.detach(), **metrics})

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
        saved = Run(self._context.folder).checkpoints
        state = f"the checkpoint of an earlier step, {saved[-1].name}" if saved else "no checkpoint"
        remedy = "lower learning_rate or set max_grad_norm, and start again with --overwrite true"
        return InputError(f"{what}: {remedy}; {self._context.folder} has {state}")

    def _evaluate(self, evaluator: ModelEvaluator) -> dict[str, Any] | None:
        """Evaluate on dev; None on all processes but the main one."""
        self._model.update_full()
        if not self._accelerator.is_main_process:
            return None
        results = evaluator.evaluate("dev", queries=DEV_QUERIES)
        self._score(results)  # refuses results without `best_metric`
        return results

    def _score(self, results: dict[str, Any]) -> float:
        return select_score(results, self._settings.best_metric, self._progress.step)

    def _record(self, results: dict[str, Any] | None) -> None:
        """Log results on dev; after the first step, update the best score."""
        if results is None:
            return
        settings, progress = self._settings, self._progress
        self._metrics.write({"step": progress.step, "dev": results})
        score = self._score(results)
        if progress.step and (progress.best is None or score > progress.best):
            progress.best, progress.best_step = score, progress.step
        if settings.best_metric != "last":
            tqdm.write(f"step {progress.step}: dev {settings.best_metric} {score:.4f}")


def _mean_losses(means: Mapping[str, float]) -> dict[str, float]:
    """Return task -> mean loss over its datasets, from "TASK/METRIC" or "TASK/DATASET/METRIC" -> mean."""
    losses: dict[str, list[float]] = {}
    for name, value in means.items():
        if name.endswith("/loss"):
            losses.setdefault(name.partition("/")[0], []).append(value)
    return {task: float(np.mean(values)) for task, values in losses.items()}


class MetricsLog:
    """Collects the metrics of training steps and writes rows to metrics.jsonl and to the trackers."""

    def __init__(self, context: RunContext) -> None:
        self._accelerator, self._file = context.accelerator, context.folder / METRICS
        self._trackers = [tracker for tracker in context.settings.trackers if tracker != "none"]
        self._values: dict[str, dict[int, Tensor]] = {}  # name -> step -> value

    def start_trackers(self) -> None:
        """Start the trackers of the run."""
        if self._trackers:
            self._accelerator.init_trackers("tensorboard" if self._trackers == ["tensorboard"] else "convsim")

    def add(self, step: int, task: str, metrics: dict[str, Tensor]) -> None:
        """Collect the metrics, scalars, of a step (counted from 1) of a task on this process."""
        for name, value in metrics.items():
            self._values.setdefault(f"{task}/{name}", {})[step] = value

    def first_step_not_finite(self) -> int | None:
        """Return the first collected step with a metric that is not finite, over all processes; None without one."""
        none = first = 2**62
        for values in self._values.values():
            if not_finite := (~torch.stack([*values.values()]).isfinite()).nonzero().flatten().tolist():
                first = min(first, [*values][not_finite[0]])
        steps = self._accelerator.gather(torch.tensor([first], device=self._accelerator.device))  # (processes,)
        first = int(steps.min())
        return None if first == none else first

    def take_means(self) -> dict[str, float]:
        """Return the mean of each metric since the last call, over all processes: "TASK/METRIC" -> mean."""
        means = {
            name: float(self._accelerator.reduce(torch.stack([*values.values()]).mean(), "mean"))
            for name, values in self._values.items()
        }
        self._values.clear()
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
