"""Folds of whole threads, and the step and the factor that rank best over all of them."""

from collections.abc import Callable
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from datasets import Dataset

from data_scripts.errors import InputError
from modeling_convsim.encoding import Encoder
from tests.modeling_convsim.tiny_models import build
from trainer.adapt import cross_validation as module
from trainer.adapt.cross_validation import MRR, Choice, _choose, cross_validate, is_better, split_into_folds
from trainer.adapt.interpolation import Interpolation
from trainer.adapt.start import Start
from trainer.command_line import build_arguments
from trainer.evaluation.response_prediction import build_queries, score_candidates
from trainer.training.context import RunContext

TASK = "response_prediction"


def test_folds_have_whole_threads_and_about_the_same_size():
    threads = np.random.default_rng(1).permutation(
        np.repeat(np.arange(90), np.random.default_rng(0).integers(1, 8, size=90))
    )
    folds = split_into_folds(threads)
    assert all(len(set(folds[threads == thread])) == 1 for thread in range(90))
    sizes = np.bincount(folds)
    assert len(sizes) == 3 and sizes.min() > 0.85 * len(threads) / 3
    assert np.bincount(split_into_folds(np.arange(60) % 3)).tolist() == [20] * 3  # as few threads as folds
    with pytest.raises(InputError, match=r"the 60 pairs are in 2 threads, expected 3 or more.*--gap"):
        split_into_folds(np.arange(60) % 2)


@pytest.mark.parametrize(
    ("long", "others", "is_held_out"), [(20, 40, True), (101, 202, True), (110, 199, True), (1500, 2000, False)]
)
def test_a_thread_longer_than_a_fold_is_always_trained_on_if_the_others_are_enough(long, others, is_held_out):
    threads = np.concatenate([np.arange(1, others + 1), np.zeros(long, int)])
    folds = split_into_folds(threads)
    assert ((folds == -1) == ((threads == 0) & (not is_held_out))).all()
    sizes = np.bincount(folds[folds >= 0], minlength=3)
    assert sizes.sum() == (folds >= 0).sum() and sizes.max() - sizes.min() <= (long if is_held_out else 1)


def ranking(p_at_1: float, mrr: float) -> dict[str, float]:
    return {"p_at_1": p_at_1, MRR: mrr}


def test_the_mean_reciprocal_rank_decides_if_p_at_1_is_not_below_that_of_the_base():
    base, better = ranking(0.2, 0.3) | {"p_at_3": 0.5}, ranking(0.2, 0.31) | {"p_at_3": 0.4}
    assert is_better(better, base, base) and not is_better(base, better, base)
    assert not is_better(better | {"p_at_1": 0.19}, base, base)


@pytest.mark.parametrize(
    ("base_p_at_1", "start_mrr", "chosen"),
    [(0.2, 0.31, (10, 1.0)), (0.21, 0.31, (20, 0.5)), (0.22, 0.31, (1, 0.0)), (0.2, 0.36, (1, 0.0))],
)
def test_the_best_step_that_is_not_below_the_base_in_p_at_1_is_chosen(base_p_at_1, start_mrr, chosen):
    points = {(10, 1.0): ranking(0.2, 0.35), (10, 0.5): ranking(0.21, 0.32), (20, 0.5): ranking(0.21, 0.33)}
    start = ranking(0.25 if start_mrr > 0.35 else 0.2, start_mrr)
    point, best = _choose(points, start, ranking(base_p_at_1, 0.3))
    assert point == chosen and best == points.get(chosen, start)


class Loop:
    """A step adds 1 to the weight; records the rows of each run's steps."""

    runs: ClassVar[list[Any]] = []

    def __init__(self, context: Any, model: Any, tasks: Any, plan: Any) -> None:
        self.model, self.plan = model, plan
        self.runs.append([])

    @torch.no_grad()
    def step(self, index: int) -> None:
        self.runs[-1].append((index, *self.plan.batch(index)))
        self.model.weight += 1


@pytest.fixture
def validate(monkeypatch) -> Callable[..., tuple[Any, Start, Choice, list[list[str]]]]:
    """Cross-validate a model of one weight, 7 at first, which is best at 7 + `best`.

    Returns the model, the start, the choice, and the inputs of each fold.
    """

    def run(pairs: Dataset, best: float = 4.5, processes: int = 1, adjustment: float = 0.0, **options: Any) -> Any:
        held_out, freed, Loop.runs = [], [], []
        settings = {"max_steps": 7, "eval_every": 2, "batch_size": 4} | options
        arguments = build_arguments(adapt=True, initialize_from="m", pairs=["p"], tasks={TASK: 1}, **settings)
        accelerator = SimpleNamespace(num_processes=processes, free_memory=lambda: freed.append(len(Loop.runs)))
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.constant_(model.weight, 7)

        def ranker(model: Any, tokenizer: Any, pairs: Dataset) -> Callable[[], dict[str, Any]]:
            held_out.append(pairs["input"][:])

            def rank() -> dict[str, Any]:
                distance = abs(model.weight.item() - 7 - best)
                return ranking(1 - distance / 10, 1 - distance / 20) | {"queries": len(pairs)}

            return rank

        def prepare(given: Any, tokenizer: Any, columns: Any, rows: Dataset) -> Start:
            assert (given, columns, rows) == (model, "columns", pairs)
            base = Interpolation(model)
            with torch.no_grad():
                model.weight += adjustment
            return Start(base, 0.0, Interpolation(model), bool(adjustment))

        monkeypatch.setattr(module, "_ranker", ranker)
        monkeypatch.setattr(module, "prepare_start", prepare)
        monkeypatch.setattr(module, "TrainingLoop", Loop)
        monkeypatch.setattr(module, "TrainableModel", lambda model, *_: model)
        context = RunContext(arguments, accelerator, Path())
        start, choice = cross_validate(context, model, None, {TASK: SimpleNamespace(columns="columns")}, pairs)
        assert freed == list(range(1, len(Loop.runs) + 1))
        return model, start, choice, held_out

    return run


def make_pairs(threads: int, responses: int = 9) -> Dataset:
    rows = [
        {"input": f"{row}", "response": f"{row % responses}", "thread": f"{row // 3}"} for row in range(3 * threads)
    ]
    return Dataset.from_list(rows)


def test_each_thread_is_held_out_once_and_the_best_step_and_factor_are_chosen(validate):
    model, _, choice, held_out = validate(make_pairs(20), best=4.5)  # step 6 with a factor of 0.75
    assert sorted(map(int, chain(*held_out))) == list(range(60)) and len(held_out) == 3
    for held, steps in zip(held_out, Loop.runs, strict=True):
        assert len({int(row) // 3 for row in held}) * 3 == len(held)  # whole threads
        assert [index for index, _, _ in steps] == list(range(7)) and {task for _, task, _ in steps} == {TASK}
        trained = np.concatenate([rows for _, _, rows in steps])  # of 40 other rows
        assert len(set(trained)) == 28 and not set(trained) & set(map(int, held))
    assert model.weight.item() == 7
    assert (choice.steps, choice.factor, choice.queries) == (6, 0.75, 60)
    assert choice.base_ranking["p_at_1"] == pytest.approx(0.55) and choice.ranking["p_at_1"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("best", "adjustment", "chosen", "p_at_1"),
    [
        (9.0, 0.0, (7, 1.0), 0.8),  # the last step
        (1.0, 1.0, (1, 0.0), 1.0),  # the start
        (-1.0, 1.0, (1, 0.0), 0.8),  # no step is better than the base
        (7.5, 3.0, (6, 0.75), 1.0),  # 3 + 6 * .75
    ],
)
def test_folds_start_from_the_adjusted_weights(validate, best, adjustment, chosen, p_at_1):
    model, _, choice, _ = validate(make_pairs(20), best, adjustment=adjustment)
    assert (choice.steps, choice.factor) == chosen and choice.ranking["p_at_1"] == pytest.approx(p_at_1)
    assert model.weight.item() == 7 + adjustment


def test_a_fold_with_a_single_reply_is_left_out(validate):
    pairs = make_pairs(20)
    held = set(validate(pairs)[3][2])
    replies = ["yes" if row["input"] in held else row["response"] for row in pairs]
    *_, held_out = validate(pairs.remove_columns("response").add_column("response", replies))
    assert len(held_out) == len(Loop.runs) == 2 and not held & set(chain(*held_out))
    with pytest.raises(InputError, match="the 60 pairs have too few distinct replies: prepare more conversations"):
        validate(make_pairs(20, responses=1))


def test_cross_validation_by_several_processes_is_refused(validate):
    with pytest.raises(InputError, match="60 pairs are cross-validated, which needs a run of one process"):
        validate(make_pairs(20), processes=2)


def test_no_input_of_a_fold_is_a_candidate_of_its_own_query(tiny_tokenizer):
    """A model that gives equal vectors to equal texts prefers the input's own text, the response of the pair before."""
    model = build("dan_lexical").train()
    words = sorted(word for word in tiny_tokenizer.get_vocab() if word.isalpha() and len(word) > 2)[:21]
    pairs = Dataset.from_dict({"input": words[:-1], "response": words[1:]})
    rank = module._ranker(model, tiny_tokenizer, pairs)
    queries = build_queries(pairs["input"][:], pairs["response"][:], exclude_inputs=True)
    rankings = []
    for share in (1.0, 0.0):  # the model may change between two calls
        model.config.lexical_share = share
        rankings.append(rank())
        assert model.training and rankings[-1]["candidates"] == 19 and rankings[-1]["queries"] == 20
        ranks = np.array([sum(row >= row[0]) for row in score_candidates(Encoder(model, tiny_tokenizer), queries)])
        assert rankings[-1]["p_at_3"] == pytest.approx(np.mean(ranks <= 3))
        assert rankings[-1][MRR] == pytest.approx(np.mean(1 / ranks))
        model.train()
    assert rankings[0] != rankings[1]
