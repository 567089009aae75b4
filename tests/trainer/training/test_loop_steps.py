"""The steps of a run, with a model, tasks and a plan that record what they are asked for."""

import json
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from trainer.command_line import build_arguments
from trainer.training import loop as loop_module
from trainer.training.context import Progress, RunContext
from trainer.training.loop import TrainingLoop
from trainer.training.schedule import Schedule


class Model:
    """Records learning rates, losses and updates; a loss is the mean of the rows of its batch."""

    def __init__(self) -> None:
        self.wrapped = self
        self.events: list[Any] = []

    def set_learning_rates(self, layers: float, tables: float) -> None:
        self.events.append((layers, tables))

    def backward(self, loss: torch.Tensor) -> None:
        self.events.append(float(loss))

    def apply_gradients(self) -> None:
        self.events.append("applied")

    def update_full(self) -> None:
        pass

    def has_finite_weights(self) -> bool:
        return True


class Task:
    """Its batch holds its rows; it records whether autocast is on in its loss."""

    def __init__(self) -> None:
        self.seen: list[bool] = []

    def batch(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        return {"rows": torch.from_numpy(rows).double()}

    def loss(self, model: Model, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        self.seen.append(torch.is_autocast_enabled("cpu"))
        return batch["rows"].mean(), {"accuracy": batch["rows"].max()}


class Plan:
    def __init__(self, batch_sizes: np.ndarray) -> None:
        self.batch_sizes = batch_sizes

    def batch(self, step: int) -> tuple[str, np.ndarray]:
        return ("even" if step % 2 == 0 else "odd/x"), np.arange(8) + 100 * step


def accelerator() -> Any:
    @contextmanager
    def autocast() -> Any:
        with torch.autocast("cpu", torch.bfloat16):
            yield

    return SimpleNamespace(
        process_index=0, num_processes=1, is_main_process=True, device=torch.device("cpu"),
        mixed_precision="bf16", autocast=autocast, wait_for_everyone=lambda: None,
        gather=lambda values: values, reduce=lambda value, _: value,
    )  # fmt: skip


def build(folder: Path, **options: Any) -> tuple[TrainingLoop, Model, Task]:
    options = {"max_steps": 6, "batch_size": 8, "learning_rate": 0.5, "trackers": ["none"]} | options
    arguments = build_arguments(pairs=["here"], tasks={"response_prediction": 1}, **options)
    context = RunContext(arguments, accelerator(), folder, threads=1)
    model, task, sizes = Model(), Task(), Schedule(arguments).batch_sizes()
    return TrainingLoop(context, model, {"even": task, "odd/x": task}, Plan(sizes)), model, task


def test_a_step_sets_both_learning_rates_and_updates_the_weights_with_the_gradients_of_its_batch(tmp_path):
    options = {"warmup": 0.5, "decay": "linear", "table_learning_rate": 5.0}
    loop, model, task = build(tmp_path, **options)
    for step in range(6):
        loop.step(step)
    arguments = build_arguments(
        pairs=["here"], tasks={"response_prediction": 1}, max_steps=6, batch_size=8, learning_rate=0.5, **options
    )
    rates = [Schedule(arguments).learning_rate(step) for step in range(6)]
    assert len(set(rates)) > 3
    assert model.events == [
        event for step in range(6) for event in ((rates[step], 10 * rates[step]), 100.0 * step + 3.5, "applied")
    ]
    assert task.seen == [True] * 6


class Evaluator:
    """Returns one dev score after the other."""

    def __init__(self, *scores: float) -> None:
        self.scores = list(scores)

    def evaluate(self, split: str, queries: int) -> dict[str, Any]:
        assert split == "dev" and queries == loop_module.DEV_QUERIES
        return {"stsb": {"dev": {"pearson": self.scores.pop(0)}}}


@pytest.fixture
def saved(monkeypatch) -> list[dict[str, Any]]:
    """What each checkpoint saves of the progress."""
    progress: list[dict[str, Any]] = []

    def save(*arguments: Any) -> None:
        (one,) = (argument for argument in arguments if isinstance(argument, Progress))
        progress.append(one.as_dict())

    monkeypatch.setattr(loop_module, "save_checkpoint", save)
    return progress


def test_the_first_of_the_best_dev_scores_after_a_step_is_the_best(tmp_path, saved):
    loop, _, task = build(tmp_path, eval_every=1, best_metric="stsb.dev.pearson")
    progress = loop.run(Evaluator(0.9, 0.3, 0.5, 0.4, 0.5, 0.1, 0.2), lambda: None)
    assert [one["best_step"] for one in saved] == [1, 2, 2, 2, 2, 2]
    assert [one["best"] for one in saved] == [0.3, 0.5, 0.5, 0.5, 0.5, 0.5]
    assert (progress.step, progress.best, progress.best_step, progress.pairs) == (6, 0.5, 2, 48)
    assert len(task.seen) == 6


def test_losses_are_logged_as_means_with_the_rate_of_their_last_step(tmp_path, saved):
    loop, _, _ = build(
        tmp_path, eval_every=4, log_every=4, decay="linear", late_batch_size=16, late_from=0.5,
        best_metric="stsb.dev.pearson",
    )  # fmt: skip
    loop.run(Evaluator(0.1, 0.2, 0.3), lambda: None)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [0, 4, 4, 6, 6]
    assert [row["dev"]["stsb"]["dev"]["pearson"] for row in rows[::2]] == [0.1, 0.2, 0.3]
    first, second = rows[1], rows[3]
    # Steps 0 to 3, then 4 and 5; the rows of a step begin at 100 times its number.
    assert (first["pairs"], second["pairs"]) == (3 * 8 + 16, 3 * 8 + 3 * 16)
    assert first["even/loss"] == 103.5 and first["odd/x/loss"] == 203.5 and first["odd/x/accuracy"] == 207
    assert second["even/loss"] == 403.5 and second["odd/x/loss"] == 503.5
    assert first["learning_rate"] == pytest.approx(0.5 * (1 - 3 / 6))
    assert second["learning_rate"] == pytest.approx(0.5 * (1 - 5 / 6))
    assert [one["step"] for one in saved] == [4, 6]


@pytest.mark.parametrize(("eval_every", "log_every"), [(1, 5), (5, 1)])
def test_a_loss_that_is_not_finite_stops_the_run_at_its_step(tmp_path, saved, eval_every, log_every, monkeypatch):
    loop, _, _ = build(tmp_path, eval_every=eval_every, log_every=log_every, best_metric="last")
    steps: list[int] = []
    monkeypatch.setattr(
        Task,
        "loss",
        lambda self, model, batch: (torch.tensor(steps.append(1) or (torch.nan if len(steps) == 3 else 1.0)), {}),
    )
    with pytest.raises(loop_module.InputError, match="the loss of even is not finite at step 3: lower learning_rate"):
        loop.run(Evaluator(*[0.1] * 7), lambda: None)
    assert len(steps) == 3 and len(saved) == (2 if eval_every == 1 else 0)


def test_weights_that_are_not_finite_are_not_saved(tmp_path, saved, monkeypatch):
    loop, model, _ = build(tmp_path, eval_every=2, best_metric="last")
    monkeypatch.setattr(model, "has_finite_weights", lambda: len(saved) == 0)
    with pytest.raises(loop_module.InputError, match="the weights are not finite after step 4"):
        loop.run(Evaluator(*[0.1] * 7), lambda: None)
    assert [one["step"] for one in saved] == [2]


def test_the_bar_shows_the_mean_loss_of_each_task():
    means = {"captions/a/loss": 1.0, "captions/b/loss": 3.0, "snli/loss": 0.5, "snli/accuracy": 9.0}
    assert loop_module._mean_losses(means) == {"captions": 2.0, "snli": 0.5}


def test_a_measurement_leaves_no_gradient_and_no_metric(tmp_path, monkeypatch):
    loop, model, _ = build(tmp_path)
    cleared = []
    monkeypatch.setattr(model, "zero_gradients", lambda: cleared.append(1), raising=False)
    loop.compute_gradients(0)
    loop._drop_measurement()
    assert cleared == [1] and loop._metrics.take_means() == {}


@pytest.mark.parametrize(("processes", "step", "is_main", "logged"), [
    (2, 0, True, [(2, "size of 16 pairs")]), (2, 0, False, []), (2, 3, True, []), (1, 0, True, []),
])  # fmt: skip
def test_the_traffic_of_a_step_is_logged_once_by_the_main_process(
    tmp_path, monkeypatch, processes, step, is_main, logged
):
    loop, model, task = build(tmp_path, batch_size=32)
    loop._accelerator.num_processes, loop._accelerator.is_main_process = processes, is_main
    loop._progress.step, calls, cleared = step, [], []
    monkeypatch.setattr(loop_module, "log_traffic", lambda *arguments: calls.append(arguments))
    monkeypatch.setattr(model, "measure_step", lambda pairs: f"size of {pairs} pairs", raising=False)
    monkeypatch.setattr(model, "zero_gradients", lambda: cleared.append(1), raising=False)
    loop._log_traffic()
    # Every process measures the first step, because its gradients are exchanged.
    is_measured = processes > 1 and step == 0
    assert calls == logged and len(task.seen) == len(cleared) == is_measured and loop._metrics.take_means() == {}


def test_a_batch_is_moved_to_the_device_of_its_process(tmp_path):
    loop, _, _ = build(tmp_path)
    loop._accelerator.device = torch.device("meta")
    moved = loop._to_device({"a": torch.zeros(2), "b": torch.ones(3)})
    assert {key: (value.device.type, len(value)) for key, value in moved.items()} == {
        "a": ("meta", 2),
        "b": ("meta", 3),
    }


@pytest.mark.parametrize(("finite", "stops"), [(2.0, False), (1.0, True), (0.0, True)])
def test_weights_that_are_not_finite_on_one_process_stop_all(tmp_path, finite, stops):
    loop, _, _ = build(tmp_path)
    loop._accelerator.num_processes = 2
    loop._accelerator.reduce = lambda value, reduction: {("sum", 1.0): torch.tensor(finite)}[reduction, float(value)]
    with pytest.raises(loop_module.InputError, match="not finite") if stops else nullcontext():
        loop._check_weights()


def test_with_interpolation_each_evaluation_keeps_the_best_factor_and_the_lowest_of_equal_ones(tmp_path, saved):
    def ranking(p_at_1: float) -> dict[str, Any]:
        return {"response_prediction": {"p_at_1": p_at_1, "p_at_3": 0.5, "p_at_10": 0.9}}

    class Interpolation:
        factors = (0.5, 1.0)
        scores = iter([(0.1, 0.3), (0.4, 0.4), (0.2, 0.1)])

        def evaluate(self, model: Any, evaluate: Any) -> list[Any]:
            return [(ranking(score), factor) for score, factor in zip(next(self.scores), self.factors, strict=True)]

    evaluator = SimpleNamespace(model=None, evaluate=lambda split, queries: ranking(0.2))
    loop, _, _ = build(tmp_path, max_steps=3, eval_every=1, best_metric="response_prediction.p_at_n")
    loop._interpolation = Interpolation()
    progress = loop.run(evaluator, lambda: None)
    assert (progress.best_step, progress.best_factor, progress.best) == (2, 0.5, pytest.approx((0.4 + 0.5 + 0.9) / 3))
    assert (progress.base_ranking["p_at_1"], progress.best_ranking["p_at_1"]) == (0.2, 0.4)
    assert [one["best_factor"] for one in saved] == [1.0, 0.5, 0.5]
