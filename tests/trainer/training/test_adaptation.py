"""The option `adapt`: numbers of steps, folds of whole threads, and the base if adapting does not help."""

import logging
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from datasets import Dataset, DatasetDict

from data_scripts.errors import InputError
from modeling_convsim.encoding import Encoder
from tests.modeling_convsim.tiny_models import build
from trainer.command_line import build_arguments
from trainer.data.datasets import RunData
from trainer.evaluation.response_prediction import build_queries, score_candidates
from trainer.training import adaptation
from trainer.training.adaptation import (
    TASK,
    Adaptation,
    Choice,
    _average,
    _choose,
    _cross_validate,
    _FoldPlan,
    _folds,
    plan_adaptation,
    scale_schedule,
    silent,
    split_pairs,
)
from trainer.training.adaptation_start import Start
from trainer.training.context import Progress, RunContext
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
    assert scaled.eval_every == -(-steps // 4)
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
        ({"average_from": 0.5}, "adapt interpolates whole models: drop sharded and average_from"),
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
    assert len(sizes) == 3 and sizes.min() > 0.85 * len(threads) / 3


def test_a_long_thread_is_a_fold_with_fewer_others():
    threads = np.concatenate([np.zeros(20, int), np.arange(1, 41)])
    assert np.bincount(_folds(threads)).tolist() == [20] * 3
    assert np.bincount(_folds(np.arange(60) % 3)).tolist() == [20] * 3  # as few threads as folds


@pytest.mark.parametrize(("long", "others", "is_held_out"), [(101, 202, False), (110, 199, True), (1500, 2000, False)])
def test_a_thread_longer_than_a_fold_is_always_trained_on_if_the_others_are_enough(long, others, is_held_out):
    threads = np.concatenate([np.arange(1, others + 1), np.zeros(long, int)])
    assert (long > (long + others) / 3) == (long != 101)
    folds = _folds(threads)
    sizes = np.bincount(folds[folds >= 0], minlength=3)
    assert ((folds == -1) == ((threads == 0) & (not is_held_out and long != 101))).all()
    assert sizes.sum() == (folds >= 0).sum() and sizes.max() - sizes.min() <= (long if (folds >= 0).all() else 1)


def test_too_few_threads_are_refused():
    with pytest.raises(InputError, match=r"the 60 pairs are in 2 threads, expected 3 or more.*--gap"):
        _folds(np.arange(60) % 2)


def test_a_fold_trains_on_the_rows_of_the_other_folds():
    selected = np.array([3, 5, 8, 9, 20])
    plan = _FoldPlan(0, selected, np.full(10, 4))
    rows = np.concatenate([plan.batch(step)[1] for step in range(10)])
    assert np.bincount(rows)[selected].tolist() == [8] * 5 and set(rows) == set(selected)


def test_a_dev_split_of_fewer_than_200_pairs_is_completed():
    rows = [{"input": f"{row}", "response": "r", "thread": f"{row}", "source": "s"} for row in range(4500)]
    train, dev = (Dataset.from_list(part) for part in (rows[150:], rows[:150]))
    data = RunData({"pairs": train}, {"pairs": DatasetDict(validation=dev)})
    split_pairs(data)
    assert len(data.evaluation["pairs"]["validation"]) == 450 and len(data.training["pairs"]) == 4050


@pytest.mark.parametrize(("pairs", "splits"), [(3999, ["test"]), (4000, ["test", "validation"])])
def test_a_few_pairs_have_no_dev_split(pairs, splits):
    rows = [{"input": f"{row}", "response": "r", "thread": f"{row}", "source": "s"} for row in range(pairs)]
    data = RunData({"pairs": Dataset.from_list(rows)}, {"pairs": DatasetDict(test=Dataset.from_list(rows[:9]))})
    split_pairs(data)
    assert sorted(data.evaluation["pairs"]) == splits
    held_out = data.evaluation["pairs"].get("validation", [])
    assert len(data.training["pairs"]) + len(held_out) == pairs and len(held_out) in (0, 400)


def ranking(p_at_1: float, p_at_3: float = 0.5) -> dict[str, float]:
    return {"p_at_1": p_at_1, "p_at_3": p_at_3}


WEIGHTS = "encoder.embed_tokens.weight"


def start_of(model, base_ranking, adjusted=False, change=0.0, share=0.0) -> Start:
    """A start whose weights are the model's plus a change."""
    base = Interpolation(model)
    with torch.no_grad():
        model.get_parameter(WEIGHTS).add_(change)
    return Start(base, share, base_ranking, Interpolation(model), adjusted)


@pytest.mark.parametrize(
    ("start", "trained", "factor", "p_at_1", "change"),
    [
        (ranking(0.2), ranking(0.3), 0.5, 0.3, 10.5),
        (ranking(0.2), ranking(0.2, 0.6), 0.5, 0.2, 10.5),
        (ranking(0.25, 0.6), ranking(0.24, 0.7), 0.5, 0.24, 10.5),  # better on average, and at P@1 than the base
        (ranking(0.3), ranking(0.25), 0.0, 0.3, 10),
        (ranking(0.3), ranking(0.19, 0.9), 0.0, 0.3, 10),  # better on average, but not at P@1
        (ranking(0.2), ranking(0.1), 0.0, 0.2, 0),
        (ranking(0.19, 0.9), ranking(0.19, 0.8), 0.0, 0.2, 0),
    ],
)
def test_the_result_is_trained_or_the_start_or_the_base(start, trained, factor, p_at_1, change):
    model = build("dan_lexical")
    before = model.get_parameter(WEIGHTS).detach().clone()
    plan = start_of(model, ranking(0.2), adjusted=True, change=10.0, share=0.1)
    with torch.no_grad():
        model.get_parameter(WEIGHTS).add_(1)
    progress = Progress(best_step=9, best_factor=0.5, base_ranking=start, best_ranking=trained)
    part = Adaptation(arguments(), plan, plan.interpolation, 90).finish(SimpleNamespace(model=model), progress)
    assert part == {
        "factor": factor, "token_weights_adjusted": change > 0, "lexical_share": 0.3 if change else 0.1,
        "selected_on": "dev", "queries": 90, "base_p_at_1": 0.2, "p_at_1": p_at_1,
    }  # fmt: skip
    assert model.config.lexical_share == part["lexical_share"]
    torch.testing.assert_close(model.get_parameter(WEIGHTS).data, before + change)


@pytest.mark.parametrize(
    ("adapted", "factor", "p_at_1", "change"),
    [(ranking(0.3), 0.5, 0.3, 10.5), (ranking(0.3), 0.0, 0.3, 10), (ranking(0.19, 0.9), 0.5, 0.2, 0)],
)
def test_cross_validation_has_chosen_the_factor(adapted, factor, p_at_1, change, caplog):
    model = build("dan_best")
    before = model.get_parameter(WEIGHTS).detach().clone()
    plan = start_of(model, ranking(0.2), change=10.0)
    with torch.no_grad():
        model.get_parameter(WEIGHTS).add_(1)
    adaptation = Adaptation(arguments(), plan, plan.interpolation, 1500, Choice(9, factor, 1500, adapted))
    with caplog.at_level(logging.INFO):
        part = adaptation.finish(SimpleNamespace(model=model), Progress(best_step=9))
    assert part == {
        "factor": factor if change else 0.0, "token_weights_adjusted": False, "lexical_share": 0.0,
        "selected_on": "3-fold cross-validation", "queries": 1500, "base_p_at_1": 0.2, "p_at_1": p_at_1,
    }  # fmt: skip
    assert ("adapted: P@1 0.3000, from 0.2000 of the base" in caplog.text) == (change > 0)
    assert ("start + 0.5 (trained - start), step 9)" in caplog.text) == (change == 10.5)
    assert ("adapting did not help" in caplog.text) == (change == 0)
    torch.testing.assert_close(model.get_parameter(WEIGHTS).data, before + change)


@pytest.mark.parametrize(("queries", "share"), [(999, 0.3), (1000, 0.2)])
def test_many_dev_queries_choose_the_share_once_more(queries, share):
    """P@1 is highest with a share of .2, the start's is .3."""
    model, seen = build("dan_lexical"), []

    def evaluate(split, queries, evaluators):
        assert (split, queries, evaluators) == ("dev", 2000, ["response_prediction"])
        seen.append(model.config.lexical_share)
        return {"response_prediction": {"p_at_1": 0.5 - abs(model.config.lexical_share - 0.2)}}

    plan = start_of(model, {"p_at_1": 0.1})
    rankings = {"base_ranking": {"p_at_1": 0.2}, "best_ranking": {"p_at_1": 0.4}}
    progress = Progress(best_step=9, best_factor=0.5, **rankings)
    evaluator = SimpleNamespace(model=model, evaluate=evaluate)
    part = Adaptation(arguments(), plan, plan.interpolation, queries).finish(evaluator, progress)
    assert seen == ([0.3, 0.0, 0.1, 0.2, 0.4, 0.5] if queries == 1000 else [])
    assert part["lexical_share"] == model.config.lexical_share == share
    assert part["p_at_1"] == (0.5 if queries == 1000 else 0.4)


def test_cross_validation_chooses_by_the_mean_reciprocal_rank():
    base, better = ranking(0.2, 0.5) | {adaptation.MRR: 0.3}, ranking(0.2, 0.4) | {adaptation.MRR: 0.31}
    assert adaptation._is_better(better, base, base) and not adaptation._is_better(base, better, base)
    assert not adaptation._is_better(better | {"p_at_1": 0.19}, base, base)
    folds = [better | {"queries": 10}, base | {"queries": 30}]
    assert _average(folds)[adaptation.MRR] == pytest.approx(0.3025)


@pytest.mark.parametrize(
    ("base_p_at_1", "start_mrr", "chosen"),
    [(0.2, 0.31, (10, 1.0)), (0.21, 0.31, (20, 0.5)), (0.22, 0.31, (1, 0.0)), (0.2, 0.36, (1, 0.0))],
)
def test_the_best_step_that_is_not_below_the_base_in_p_at_1_is_chosen(base_p_at_1, start_mrr, chosen):
    def ranks(p_at_1: float, mrr: float) -> dict[str, float]:
        return {"p_at_1": p_at_1, adaptation.MRR: mrr}

    points = {(10, 1.0): ranks(0.2, 0.35), (10, 0.5): ranks(0.21, 0.32), (20, 0.5): ranks(0.21, 0.33)}
    start = ranks(0.25 if start_mrr > 0.35 else 0.2, start_mrr)
    point, best = _choose(points, start, ranks(base_p_at_1, 0.3))
    assert point == chosen and best == points.get(chosen, start)


def test_cross_validation_averages_over_the_queries_of_all_folds():
    folds = [{"p_at_1": 0.5, "p_at_3": 1.0, "queries": 10}, {"p_at_1": 0.2, "queries": 30}]
    assert _average(folds) == {"p_at_1": pytest.approx(0.275)}


@pytest.mark.parametrize("dev", [0, 150, 199])
def test_the_pairs_of_several_sources_and_of_a_small_dev_split_are_cross_validated(dev):
    rows = [{"input": f"{row}", "response": "r", "thread": f"{row}", "source": "s"} for row in range(3999)]
    first, second, held = rows[:300], rows[300 : 3999 - dev], rows[3999 - dev :]
    splits = DatasetDict(test=Dataset.from_list(rows[:9]), **({"validation": Dataset.from_list(held)} if dev else {}))
    data = RunData({"pairs/a": Dataset.from_list(first), "pairs/b": Dataset.from_list(second)}, {"pairs": splits})
    split_pairs(data)
    assert list(data.training) == ["pairs"] and list(data.evaluation["pairs"]) == ["test"]
    assert sorted(data.training["pairs"]["input"], key=int) == [row["input"] for row in rows]


class Evaluator:
    """P@1 is highest if the weight is 7 + `BEST`; it records what it held out."""

    BEST, held = 4.5, []

    def __init__(self, model: torch.nn.Module, pairs: Dataset) -> None:
        self.model, self.pairs = model, pairs
        self.held.append(pairs["input"][:])

    def rank(self) -> dict[str, Any]:
        distance = abs(self.model.weight.item() - 7 - self.BEST)
        return {"p_at_1": 1 - distance / 10, "p_at_3": 1 - distance / 20, "queries": len(self.pairs)}


class Loop:
    """A step adds 1 to the weight; records the rows of each run's steps."""

    runs: ClassVar[list[Any]] = []

    def __init__(self, context: Any, model: Any, tasks: Any, plan: Any) -> None:
        self.model, self.plan = model, plan
        self.runs.append([])

    @torch.no_grad()
    def step(self, index: int) -> None:
        task, rows = self.plan.batch(index)
        self.runs[-1].append((index, task, rows.tolist()))
        self.model.weight += 1


@pytest.fixture
def small_steps(monkeypatch) -> Callable[..., tuple[Any, Start, Choice]]:
    """Cross-validation of a model of one weight, 7 at first: (model, start, choice)."""

    def ranker(context: Any, model: Any, tokenizer: Any, pairs: Dataset) -> Callable[[], dict[str, Any]]:
        return Evaluator(model, pairs).rank

    monkeypatch.setattr(adaptation, "_fold_ranker", ranker)
    monkeypatch.setattr(adaptation, "TrainingLoop", Loop)
    monkeypatch.setattr(adaptation, "TrainableModel", lambda model, *_: model)

    def cross_validate(
        pairs: Dataset, processes: int = 1, adjustment: float = 0.0, **options: Any
    ) -> tuple[Any, Start, Choice]:
        Evaluator.held, Loop.runs = [], []
        freed: list[int] = []
        accelerator = SimpleNamespace(num_processes=processes, free_memory=lambda: freed.append(len(Loop.runs)))
        settings = arguments(**{"max_steps": 7, "eval_every": 2, "batch_size": 4} | options)
        model = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.constant_(model.weight, 7)
        model.config = SimpleNamespace(lexical_share=0.0)

        def prepare(given: Any, tokenizer: Any, columns: Any, rows: Dataset, base_ranking: Any) -> Start:
            assert (given, columns, rows) == (model, "columns", pairs)
            base = Interpolation(model)
            with torch.no_grad():
                model.weight += adjustment
            return Start(base, 0.0, base_ranking, Interpolation(model), bool(adjustment))

        monkeypatch.setattr(adaptation, "prepare_start", prepare)
        context = RunContext(settings, accelerator, Path(), threads=3)
        tasks = {TASK: SimpleNamespace(columns="columns")}
        start, choice = _cross_validate(context, model, None, tasks, RunData({"pairs": pairs}))
        assert freed == list(range(1, len(Loop.runs) + 1))
        return model, start, choice

    return cross_validate


class Rows:
    """A task with a number of rows."""

    columns = "columns"

    def __init__(self, number: int) -> None:
        self.number = number

    def __len__(self) -> int:
        return self.number


def make_pairs(threads: int, responses: int = 9) -> Dataset:
    rows = [
        {"input": f"{row}", "response": f"{row % responses}", "thread": f"{row // 3}"} for row in range(3 * threads)
    ]
    return Dataset.from_list(rows)


def test_each_thread_is_held_out_once_and_the_best_step_and_factor_are_chosen(small_steps, monkeypatch):
    monkeypatch.setattr(Evaluator, "BEST", 4.5)  # step 6 with a factor of 0.75
    pairs = make_pairs(20)
    model, start, choice = small_steps(pairs)
    assert sorted(map(int, chain(*Evaluator.held))) == list(range(60)) and len(Evaluator.held) == 3
    for held, steps in zip(Evaluator.held, Loop.runs, strict=True):
        assert len({int(row) // 3 for row in held}) * 3 == len(held)  # whole threads
        assert [index for index, _, _ in steps] == list(range(7)) and {task for _, task, _ in steps} == {TASK}
        trained = {row for _, _, rows in steps for row in rows}
        assert len(trained) == 28 and not trained & set(map(int, held))
    assert model.weight.item() == 7
    assert (choice.steps, choice.factor) == (6, 0.75)
    assert start.base_ranking == pytest.approx({"p_at_1": 0.55, "p_at_3": 0.775})
    assert choice.adapted == pytest.approx({"p_at_1": 1.0, "p_at_3": 1.0})


def test_the_last_step_may_be_chosen(small_steps, monkeypatch):
    monkeypatch.setattr(Evaluator, "BEST", 9.0)
    *_, choice = small_steps(make_pairs(20))
    assert (choice.steps, choice.factor) == (7, 1.0) and choice.adapted["p_at_1"] == pytest.approx(0.8)


@pytest.mark.parametrize(("best", "start_p_at_1"), [(1.0, 1.0), (-1.0, 0.8)])
def test_the_start_is_chosen_if_no_step_is_better(small_steps, monkeypatch, best, start_p_at_1):
    monkeypatch.setattr(Evaluator, "BEST", best)
    model, start, choice = small_steps(make_pairs(20), adjustment=1.0)
    assert start.base_ranking["p_at_1"] == pytest.approx(0.9) and choice.adapted["p_at_1"] == pytest.approx(
        start_p_at_1
    )
    assert (choice.steps, choice.factor, model.weight.item()) == (1, 0.0, 8)


def test_folds_start_from_the_adjusted_weights(small_steps, monkeypatch):
    monkeypatch.setattr(Evaluator, "BEST", 7.5)  # 3 + 6 * .75
    model, start, choice = small_steps(make_pairs(20), adjustment=3.0)
    assert (choice.steps, choice.factor) == (6, 0.75) and choice.adapted["p_at_1"] == pytest.approx(1.0)
    assert model.weight.item() == 10 and start.base_ranking["p_at_1"] == pytest.approx(0.25)


def test_no_input_of_a_fold_is_a_candidate_of_its_own_query(tiny_tokenizer):
    """A model that gives equal vectors to equal texts prefers the input's own text, the response of the pair before."""
    model = build("dan_lexical")
    words = sorted(word for word in tiny_tokenizer.get_vocab() if word.isalpha() and len(word) > 2)[:21]
    pairs = Dataset.from_dict({"input": words[:-1], "response": words[1:]})
    assert len(words) == 21
    context = RunContext(arguments(), SimpleNamespace(), Path(), threads=1)
    model.train()
    rank = adaptation._fold_ranker(context, model, tiny_tokenizer, pairs)
    queries = build_queries(pairs["input"][:], pairs["response"][:], exclude_inputs=True)
    rankings = []
    for share in (1.0, 0.0):  # the model may change between two calls
        model.config.lexical_share = share
        rankings.append(rank())
        assert model.training and rankings[-1]["candidates"] == 19 and rankings[-1]["queries"] == 20
        scores = score_candidates(Encoder(model, tiny_tokenizer), queries)
        ranks = [sum(row >= row[0]) for row in scores]
        assert rankings[-1]["p_at_3"] == pytest.approx(np.mean([position <= 3 for position in ranks]))
        assert rankings[-1][adaptation.MRR] == pytest.approx(np.mean([1 / position for position in ranks]))
        model.train()
    assert rankings[0] != rankings[1]


def test_the_order_of_the_pairs_depends_on_the_seed(small_steps):
    orders = []
    for seed in (0, 0, 5):
        small_steps(make_pairs(20), seed=seed)
        orders.append(Loop.runs)
    assert orders[0] == orders[1] != orders[2]


def test_a_fold_with_a_single_reply_is_left_out(small_steps):
    pairs = make_pairs(20)
    held = set(map(int, small_steps(pairs) and Evaluator.held[2]))
    replies = ["yes" if row in held else reply for row, reply in enumerate(pairs["response"])]
    small_steps(pairs.remove_columns("response").add_column("response", replies))
    assert len(Evaluator.held) == len(Loop.runs) == 2 and not held & set(map(int, chain(*Evaluator.held)))
    with pytest.raises(InputError, match="the 60 pairs have too few distinct replies: prepare more conversations"):
        small_steps(make_pairs(20, responses=1))


def test_cross_validation_by_several_processes_is_refused(small_steps):
    with pytest.raises(InputError, match="60 pairs are cross-validated, which needs a run of one process"):
        small_steps(make_pairs(20), processes=2)


@pytest.mark.parametrize(("held", "queries"), [(200, 200), (2001, 2000)])
def test_a_dev_split_chooses_step_and_factor_during_training(monkeypatch, held, queries):
    data = RunData(
        {"pairs": "the pairs to train on"},
        evaluation={"pairs": DatasetDict(validation=make_pairs(667).select(range(held)))},
    )
    context = RunContext(arguments(), SimpleNamespace(), Path())
    start, seen = start_of(build("dan_best"), {}), []
    monkeypatch.setattr(adaptation, "_ranker", lambda context, model, tokenizer, pairs: lambda: len(pairs))
    monkeypatch.setattr(adaptation, "prepare_start", lambda *values: seen.append(values[2:]) or start)
    plan = plan_adaptation(context, build("dan_best"), None, {TASK: Rows(1000)}, data)
    assert seen == [("columns", "the pairs to train on", held)] and plan.start is start
    assert (plan.queries, plan.choice, plan.interpolation.factors) == (queries, None, (0.25, 0.5, 0.75, 1.0))
    assert plan.arguments == scale_schedule(arguments(), 1000)


def test_a_few_pairs_are_trained_with_the_step_and_the_factor_of_cross_validation(monkeypatch):
    start, choice, seen = start_of(build("dan_best"), ranking(0.2)), Choice(7, 0.5, 690, ranking(0.3)), []
    chosen = (start, choice)
    monkeypatch.setattr(adaptation, "_cross_validate", lambda context, *_: seen.append(context.arguments) or chosen)
    data = RunData(evaluation={"pairs": DatasetDict()})
    context = RunContext(arguments(), SimpleNamespace(), Path())
    plan = plan_adaptation(context, build("dan_best"), None, {TASK: range(700)}, data)
    assert seen == [scale_schedule(arguments(), 700)] and plan.choice is choice and plan.start is start
    assert (plan.queries, plan.interpolation.factors) == (690, (0.5,))
    settings = (plan.arguments.max_steps, plan.arguments.eval_every, plan.arguments.best_metric)
    assert settings == (7, 7, "last")


def test_a_silent_logger_shows_errors_alone_and_speaks_again(caplog):
    log = logging.getLogger("some.logger")
    log.setLevel(logging.INFO)
    with pytest.raises(ValueError), silent("some.logger"):
        log.warning("a warning")
        log.error("an error")
        raise ValueError
    log.info("afterwards")
    assert caplog.messages == ["an error", "afterwards"]
