"""The training loop with a model, tasks and a plan that record what they are asked for; its evaluations and its log."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from modeling_convsim.files.errors import InputError
from tests.modeling_convsim.tiny_models import build
from tests.trainer.evaluation.invented_data import evaluation_data
from trainer.runs import RunContext
from trainer.settings import Settings, build_settings
from trainer.training import loop as loop_module
from trainer.training.checkpoints import Progress
from trainer.training.loop import MetricsLog, TrainingLoop
from trainer.training.model_evaluator import ModelEvaluator, evaluators_to_skip, select_score
from trainer.training.schedule import Schedule


class Accelerator(SimpleNamespace):
    """One of several processes; the mean of the other ones is 5, and their first step that is not finite is 300."""

    device, mixed_precision = torch.device("cpu"), "bf16"

    def __init__(self, rank: int = 0, processes: int = 1) -> None:
        super().__init__(process_index=rank, num_processes=processes, is_main_process=rank == 0, calls=[])

    def autocast(self) -> Any:
        return torch.autocast("cpu", torch.bfloat16)

    def backward(self, loss: torch.Tensor) -> None:
        self.calls.append(float(loss))

    def gather(self, value: torch.Tensor) -> torch.Tensor:
        return torch.cat([value, torch.tensor([300])]) if self.num_processes > 1 else value

    def reduce(self, value: torch.Tensor, reduction: str) -> torch.Tensor:
        return value if self.num_processes == 1 else value + 5 if reduction == "sum" else (value + 5) / 2


class Task:
    """Its batch holds its rows; it records them, and a random number and whether autocast is on in each loss."""

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.random: list[float] = []
        self.autocast: list[bool] = []

    def batch(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        self.rows += rows.tolist()
        return {"rows": torch.from_numpy(rows).double()}

    def loss(self, model: Any, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        self.random.append(torch.rand(()).item())
        self.autocast.append(torch.is_autocast_enabled("cpu"))
        return batch["rows"].mean(), {"accuracy": batch["rows"].max()}


class Model:
    """Records learning rates and updates."""

    def __init__(self, calls: list[Any]) -> None:
        self.wrapped, self.calls, self.is_finite = self, calls, True

    def set_learning_rates(self, layers: float, tables: float) -> None:
        self.calls.append((layers, tables))

    def apply_gradients(self) -> None:
        self.calls.append("applied")

    def update_full(self) -> None:
        self.calls.append("updated")

    def has_finite_weights(self) -> bool:
        return self.is_finite


class Evaluator:
    """Returns one dev score after the other."""

    def __init__(self, *scores: float) -> None:
        self.scores = list(scores)

    def evaluate(self, split: str, queries: int) -> dict[str, Any]:
        assert split == "dev" and queries == 2000
        return {"stsb": {"dev": {"pearson": self.scores.pop(0)}}}


def build_loop(folder: Path, accelerator: Any = None, **options: Any) -> tuple[TrainingLoop, Model, Task]:
    options = {"max_steps": 6, "batch_size": 8, "learning_rate": 0.5, "trackers": ["none"]} | options
    options = {"best_metric": "stsb.dev.pearson"} | options
    settings = build_settings(pairs=["here"], tasks={"response_prediction": 1}, **options)
    accelerator = accelerator or Accelerator()
    plan = SimpleNamespace(
        batch_sizes=Schedule(settings).batch_sizes(),
        batch=lambda step: ("even" if step % 2 == 0 else "odd/x", np.arange(12) + 100 * step),
    )
    model, task = Model(accelerator.calls), Task()
    tasks, context = {"even": task, "odd/x": task}, RunContext(settings, accelerator, folder)
    return TrainingLoop(context, model, tasks, plan), model, task


def read_rows(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture
def saved(monkeypatch) -> list[tuple[int, int | None, float | None]]:
    """Step, best step and best score of each checkpoint."""
    progress: list[tuple[int, int | None, float | None]] = []

    def save(context: Any, model: Any, now: Progress) -> None:
        progress.append((now.step, now.best_step, now.best))

    monkeypatch.setattr(loop_module, "save_checkpoint", save)
    return progress


def test_a_step_sets_both_learning_rates_and_updates_the_weights_with_the_gradients_of_its_batch(tmp_path):
    options = {"warmup": 0.5, "decay": "linear", "table_learning_rate": 5.0}
    loop, model, task = build_loop(tmp_path, **options)
    for step in range(6):
        loop.step(step)
    rates = [loop._schedule.learning_rate(step) for step in range(6)]
    assert len(set(rates)) > 3 and task.autocast == [True] * 6
    assert model.calls == [
        event for step in range(6) for event in ((rates[step], 10 * rates[step]), 100.0 * step + 5.5, "applied")
    ]


def test_the_random_state_of_a_step_depends_on_seed_step_and_rank_only(tmp_path):
    def draw(seed: int, step: int, rank: int) -> float:
        loop, _, task = build_loop(tmp_path, Accelerator(rank, 3), seed=seed)
        torch.rand(seed + 5 * rank)  # numbers that were drawn before have no effect
        loop.step(step)
        return task.random[0]

    keys = [(seed, step, rank) for seed in range(3) for step in range(3) for rank in range(3)]
    drawn = {key: draw(*key) for key in keys}
    assert len(set(drawn.values())) == len(keys)
    assert drawn == {key: draw(*key) for key in reversed(keys)}


@pytest.mark.parametrize(
    ("scores", "best", "best_steps"),
    [
        ([0.9, 0.1, 0.3, 0.2], 0.3, [1, 2, 2]),  # the score before the first step is not one of a checkpoint
        ([0.0, 0.4, 0.4, 0.4], 0.4, [1, 1, 1]),  # the first of equal scores
        ([0.0, -0.3, -0.1, -0.2], -0.1, [1, 2, 2]),
        ([0.0, np.nan, np.nan, 0.0], 0.0, [1, 1, 3]),
    ],
)
def test_the_best_checkpoint_is_the_first_with_the_highest_score_on_dev(tmp_path, saved, scores, best, best_steps):
    loop, _, _ = build_loop(tmp_path, max_steps=3, eval_every=1)
    progress = loop.run(Evaluator(*scores), lambda: None)
    assert [each[:2] for each in saved] == list(enumerate(best_steps, start=1))
    assert (progress.step, progress.best, progress.best_step, progress.pairs) == (3, best, best_steps[-1], 24)
    rows = [row for row in read_rows(tmp_path) if "dev" in row]
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    np.testing.assert_array_equal([row["dev"]["stsb"]["dev"]["pearson"] for row in rows], scores)


def test_losses_are_logged_as_means_with_the_rate_of_their_last_step(tmp_path, saved):
    late = {"late_batch_size": 16, "late_from": 0.5}
    loop, _, _ = build_loop(tmp_path, eval_every=4, log_every=4, decay="linear", **late)
    loop.run(Evaluator(0.1, 0.2, 0.3), lambda: None)
    rows = read_rows(tmp_path)
    assert [row["step"] for row in rows] == [0, 4, 4, 6, 6] and [each[0] for each in saved] == [4, 6]
    first, second = rows[1], rows[3]
    # Steps 0 to 3, then 4 and 5; the rows of a step begin at 100 times its number.
    assert (first["pairs"], second["pairs"]) == (3 * 8 + 16, 3 * 8 + 3 * 16)
    assert (first["even/loss"], first["odd/x/loss"], first["odd/x/accuracy"]) == (105.5, 205.5, 211)
    assert (second["even/loss"], second["odd/x/loss"]) == (405.5, 505.5)
    assert first["learning_rate"] == pytest.approx(0.5 * (1 - 3 / 6))
    assert second["learning_rate"] == pytest.approx(0.5 * (1 - 5 / 6))


@pytest.mark.parametrize("processes", [1, 2])
def test_weights_that_are_not_finite_on_a_process_are_not_saved(tmp_path, saved, processes):
    loop, model, _ = build_loop(tmp_path, eval_every=2, best_metric="last")
    model.is_finite = processes == 2
    if processes == 2:  # the other process has one that is not finite
        loop._accelerator.num_processes, loop._accelerator.reduce = 2, lambda value, reduction: value
        loop._accelerator.gather = lambda value: value
    with pytest.raises(InputError, match="the weights are not finite after step 2"):
        loop.run(Evaluator(*[0.1] * 7), lambda: None)
    assert not saved


def test_a_metric_is_named_by_its_path_in_the_results():
    results = {"stsb": {"dev": {"all": {"pearson": 0.25, "spearman": 0.5}}}, "snli": {"accuracy": 0.75, "pairs": 3}}
    assert select_score(results, "stsb.dev.all.spearman", 7) == 0.5
    assert select_score(results, "last", 7) == 7 > select_score(results, "last", 6)
    scores = "stsb.dev.all.pearson, stsb.dev.all.spearman, snli.accuracy, last"
    with pytest.raises(
        InputError, match=rf"'snli' is not among the dev results .*; set best_metric to one of {scores}$"
    ):
        select_score(results, "snli", 7)
    with pytest.raises(InputError, match=r"no dev data .*; prepare more data, or keep .* --best_metric last"):
        select_score({}, "response_prediction.p_at_1", 7)


@pytest.mark.parametrize(("final_split", "evaluated"), [("dev", False), ("both", True)])
def test_a_run_on_dev_does_not_evaluate_the_semeval_test_sets(tiny_tokenizer, final_split, evaluated):
    skip = evaluators_to_skip(["response_prediction"], final_split)
    evaluator = ModelEvaluator(build("dan"), tiny_tokenizer, evaluation_data(), skip)
    results = evaluator.evaluate("dev")
    assert ("sts" in results) == evaluated and "snli" not in results  # whose head is not trained
    assert set(results["stsb"]) == {"dev"} and results["response_prediction"]["split"] == "dev"
    assert evaluators_to_skip(["response_prediction/x", "captions/y"], "both") == {"snli"}


@pytest.fixture
def log(tmp_path) -> MetricsLog:
    return MetricsLog(RunContext(Settings(trackers=["none"]), Accelerator(), tmp_path))


def test_means_and_first_steps_are_those_of_all_processes(tmp_path):
    log = MetricsLog(RunContext(Settings(trackers=["none"]), Accelerator(1, 2), tmp_path))
    log.add(1, "snli", {"loss": torch.tensor(1.0), "accuracy": torch.tensor(9.0)})
    log.add(2, "snli", {"loss": torch.tensor(5.0)})
    assert log.first_step_not_finite() == 300  # of the other process
    assert log.take_means() == {"snli/loss": 4.0, "snli/accuracy": 7.0} and log.take_means() == {}


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_the_first_step_that_is_not_finite_is_found_among_all_tasks(log, value):
    steps = [("snli", 3, 1.0, None), ("snli", 40_000_000, value, 40_000_000), ("a", 2, 3e38, 40_000_000)]
    for task, step, loss, first in (*steps, ("a", 4, value, 4), ("a", 6, value, 4)):
        log.add(step, task, {"loss": torch.tensor(loss)})
        assert log.first_step_not_finite() == first
