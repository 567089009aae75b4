"""The option `adapt`: numbers of steps, folds of whole threads, and the base if adapting does not help."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from datasets import Dataset, DatasetDict

from data_scripts.errors import InputError
from tests.modeling_convsim.tiny_models import build
from trainer.command_line import build_arguments
from trainer.data.datasets import RunData
from trainer.training.adaptation import Adaptation, Choice, _average, _FoldPlan, _folds, scale_schedule, split_pairs
from trainer.training.context import Progress
from trainer.training.interpolation import Interpolation


def arguments(**options: Any) -> Any:
    adapt = {"adapt": True, "initialize_from": "m", "pairs": ["p"], "tasks": {"response_prediction": 1}}
    return build_arguments(**(adapt | options))


@pytest.mark.parametrize(
    ("pairs", "batch_size", "steps"),
    [(100, 128, 150), (12_800, 128, 150), (20_000, 128, 235), (20_001, 512, 150), (1_000_000, 512, 2930)],
)
def test_batch_size_and_steps_follow_from_the_number_of_pairs(pairs, batch_size, steps):
    scaled = scale_schedule(arguments(), pairs)
    assert (scaled.batch_size, scaled.max_steps) == (batch_size, steps)
    assert scaled.eval_every == -(-steps // 6)
    assert steps * batch_size >= 1.5 * pairs


def test_a_given_number_of_steps_is_kept():
    assert scale_schedule(arguments(max_steps=30), 500).max_steps == 30


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"initialize_from": None}, "adapt needs a model to start from"),
        ({"tasks": {"response_prediction": 0.9, "snli": 0.1}, "snli": "s"}, "adapt trains on conversations alone"),
        ({"epochs": 3}, "epochs has no effect with adapt"),
        ({"sharded": True}, "adapt interpolates whole models: drop sharded"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        arguments(**options)


def test_folds_have_whole_threads_and_about_the_same_size():
    threads = np.repeat(np.arange(90), np.random.default_rng(0).integers(1, 8, size=90))
    folds = _folds(np.random.default_rng(1).permutation(threads))
    folds_of = [set(folds[np.random.default_rng(1).permutation(threads) == thread]) for thread in range(90)]
    assert all(len(each) == 1 for each in folds_of)
    sizes = np.bincount(folds)
    assert len(sizes) == 5 and sizes.min() > 0.85 * len(threads) / 5


def test_too_few_threads_are_refused():
    with pytest.raises(InputError, match=r"the 60 pairs are in 4 threads, expected 5 or more.*--gap"):
        _folds(np.arange(60) % 4)


def test_a_fold_trains_on_the_rows_of_the_other_folds():
    selected = np.array([3, 5, 8, 9, 20])
    plan = _FoldPlan(0, selected, np.full(10, 4))
    rows = np.concatenate([plan.batch(step)[1] for step in range(10)])
    assert np.bincount(rows)[selected].tolist() == [8] * 5 and set(rows) == set(selected)


@pytest.mark.parametrize(("pairs", "splits"), [(999, ["test"]), (1000, ["test", "validation"])])
def test_a_few_pairs_have_no_dev_split(pairs, splits):
    rows = [{"input": f"{row}", "response": "r", "thread": f"{row}", "source": "s"} for row in range(pairs)]
    data = RunData({"pairs": Dataset.from_list(rows)}, {"pairs": DatasetDict(test=Dataset.from_list(rows[:9]))})
    split_pairs(data)
    assert sorted(data.evaluation["pairs"]) == splits
    held_out = data.evaluation["pairs"].get("validation", [])
    assert len(data.training["pairs"]) + len(held_out) == pairs and len(held_out) in (0, 200)


def ranking(p_at_1: float, p_at_3: float = 0.5) -> dict[str, float]:
    return {"p_at_1": p_at_1, "p_at_3": p_at_3}


@pytest.mark.parametrize(
    ("adapted", "factor", "p_at_1"),
    [
        (ranking(0.3), 0.5, 0.3),
        (ranking(0.2, 0.6), 0.5, 0.2),
        (ranking(0.2), 0.0, 0.2),
        (ranking(0.1), 0.0, 0.2),
        (ranking(0.19, 0.9), 0.0, 0.2),  # better on average, but not at P@1
    ],
)
@pytest.mark.parametrize("method", ["dev", "5-fold cross-validation"])
def test_the_base_is_kept_if_adapting_does_not_help(adapted, factor, p_at_1, method):
    model = build("dan_best")
    name = "encoder.embed_tokens.weight"
    base = model.get_parameter(name).detach().clone()
    interpolation = Interpolation(model)
    with torch.no_grad():
        model.get_parameter(name).add_(1)
    choice = None if method == "dev" else Choice(9, factor, 0.0, ranking(0.2), adapted if factor else ranking(0.2))
    progress = Progress(best_step=9, best_factor=0.5, base_ranking=ranking(0.2), best_ranking=adapted)
    part = Adaptation(arguments(), interpolation, 90, choice).finish(SimpleNamespace(model=model), progress)
    assert part == {
        "factor": factor, "lexical_share": 0.0, "selected_on": method,
        "queries": 90, "base_p_at_1": 0.2, "p_at_1": p_at_1,
    }  # fmt: skip
    torch.testing.assert_close(model.get_parameter(name).data, base + factor)


def test_cross_validation_averages_over_the_queries_of_all_folds():
    folds = [{"p_at_1": 0.5, "p_at_3": 1.0, "queries": 10}, {"p_at_1": 0.2, "queries": 30}]
    assert _average(folds) == {"p_at_1": pytest.approx(0.275)}
