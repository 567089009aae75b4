"""The training loop with a fake model: random states, parts of a batch, evaluations, and the best checkpoint."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from data_scripts.errors import InputError
from trainer.arguments import Arguments
from trainer.training.context import RunContext
from trainer.training.loop import TrainingLoop
from trainer.training.model_evaluator import select_score


class FakeTask:
    """Remembers the rows of its batches and a random number of each of its losses."""

    def __init__(self) -> None:
        self.rows: list[list[int]] = []
        self.random: list[float] = []

    def batch(self, rows: np.ndarray) -> dict[str, torch.Tensor]:
        self.rows.append(rows.tolist())
        return {}

    def loss(self, model: Any, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        self.random.append(torch.rand(()).item())
        return torch.tensor(0.5), {}


@pytest.fixture
def accelerator() -> Accelerator:
    AcceleratorState._reset_state(reset_partial_state=True)
    return Accelerator(cpu=True)


def make_loop(accelerator: Any, folder: Path, **options: Any) -> tuple[TrainingLoop, FakeTask]:
    arguments = Arguments(trackers=["none"], max_steps=9, best_metric="snli.accuracy", **options)
    task, plan = FakeTask(), SimpleNamespace(batch=lambda step: ("task", np.arange(12) + 100 * step))
    model = SimpleNamespace(wrapped=None, backward=lambda loss: None, update_full=lambda: None)
    return TrainingLoop(RunContext(arguments, accelerator, folder), model, {"task": task}, plan), task  # type: ignore[arg-type, dict-item]


def with_rank(accelerator: Accelerator, rank: int, processes: int) -> Any:
    """An accelerator that says that it is one of several processes."""
    names = ("device", "autocast", "mixed_precision", "is_main_process")
    values = {name: getattr(accelerator, name) for name in names}
    return SimpleNamespace(process_index=rank, num_processes=processes, **values)


def test_the_random_state_of_a_step_depends_on_seed_step_and_rank_only(accelerator: Any, tmp_path: Path) -> None:
    def draw(seed: int, step: int, rank: int) -> float:
        loop, task = make_loop(with_rank(accelerator, rank, 3), tmp_path, seed=seed)
        torch.rand(seed + 5 * rank)  # numbers that were drawn before have no effect
        loop.compute_gradients(step)
        return task.random[0]

    keys = [(seed, step, rank) for seed in range(3) for step in range(3) for rank in range(3)]
    drawn = {key: draw(*key) for key in keys}
    assert len(set(drawn.values())) == len(keys)
    assert drawn == {key: draw(*key) for key in reversed(keys)}


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_each_process_takes_its_part_of_the_batch_in_the_order_of_the_ranks(
    accelerator: Any, tmp_path: Path, processes: int
) -> None:
    parts = []
    for rank in range(processes):
        loop, task = make_loop(with_rank(accelerator, rank, processes), tmp_path)
        loop.compute_gradients(4)
        parts += task.rows
    assert [len(part) for part in parts] == [12 // processes] * processes
    assert [row for part in parts for row in part] == list(range(400, 412))


def test_evaluations_during_training_read_dev_and_a_limited_number_of_queries(accelerator: Any, tmp_path: Path) -> None:
    asked = []

    class Evaluator:
        def evaluate(self, *split: str, **options: Any) -> dict[str, Any]:
            asked.append((split, options))
            return {"snli": {"accuracy": 0.5}}

    loop, _ = make_loop(accelerator, tmp_path)
    assert loop._evaluate(Evaluator()) == {"snli": {"accuracy": 0.5}}  # type: ignore[arg-type]
    assert asked == [(("dev",), {"queries": 2000})]


@pytest.mark.parametrize(
    ("scores", "best", "best_step"),
    [
        ([0.9, 0.1, 0.3, 0.2], 0.3, 2),  # the score before the first step is not one of a checkpoint
        ([0.0, 0.4, 0.4, 0.4], 0.4, 1),  # the first of equal scores
        ([0.0, 0.1, 0.2, 0.3], 0.3, 3),
        ([0.0, -0.3, -0.1, -0.2], -0.1, 2),
        ([0.0, np.nan, np.nan, 0.0], 0.0, 3),
        ([0.0, np.nan, np.nan, np.nan], -np.inf, 1),
    ],
)
def test_the_best_checkpoint_is_the_first_with_the_highest_score_on_dev(
    accelerator: Any, tmp_path: Path, scores: list[float], best: float, best_step: int
) -> None:
    loop, _ = make_loop(accelerator, tmp_path)
    for step, score in enumerate(scores):
        loop._progress.step = step
        loop._record({"snli": {"accuracy": score}})
    assert (loop._progress.best, loop._progress.best_step) == (best, best_step)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [0, 1, 2, 3]
    np.testing.assert_array_equal([row["dev"]["snli"]["accuracy"] for row in rows], scores)


def test_a_metric_is_named_by_its_path_in_the_results() -> None:
    results = {"stsb": {"dev": {"all": {"pearson": 0.25, "spearman": 0.5}}}, "snli": {"accuracy": 0.75, "pairs": 3}}
    assert select_score(results, "stsb.dev.all.spearman", 7) == 0.5
    assert select_score(results, "last", 7) == 7 > select_score(results, "last", 6)
    scores = "stsb.dev.all.pearson, stsb.dev.all.spearman, snli.accuracy, last"
    with pytest.raises(
        InputError, match=rf"'snli' is not among the dev results of this run.*; set best_metric to one of {scores}$"
    ):
        select_score(results, "snli", 7)
    with pytest.raises(InputError, match=r"no dev data, .*prepare more data, or keep .* --best_metric last"):
        select_score({}, "response_prediction.p_at_1", 7)
