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

from data_scripts.files.errors import InputError
from trainer.adapt import cross_validation as module
from trainer.adapt.context import ContextChoice
from trainer.adapt.cross_validation import CrossValidation, arguments_of, split_into_folds
from trainer.adapt.selection import TO_KEEP, Point
from trainer.adapt.start import Interpolation, Start
from trainer.adapt.suggestions import CHOICES, Suggested, Weights
from trainer.command_line import build_arguments
from trainer.data.dev_split import thread_numbers
from trainer.evaluation.ranking import Ranks
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
def validate(monkeypatch) -> Callable[..., Any]:
    """Cross-validate a model of one weight, 7 at first, which is best at 7 + `best`.

    Returns the model, the choice, the inputs of each fold, and the weights of the models that suggest for them.
    """

    def run(
        pairs: Dataset,
        best: float = 4.5,
        processes: int = 1,
        adjustment: float = 0.0,
        **options: Any,
    ) -> Any:
        held_out, freed, suggesting, Loop.runs = [], [], [], []
        turns_of: dict[tuple[int, ...], Any] = {}
        settings = {"max_steps": 7, "eval_every": 2, "batch_size": 4} | options
        arguments = build_arguments(adapt=True, initialize_from="m", pairs=["p"], tasks={TASK: 1}, **settings)
        accelerator = SimpleNamespace(num_processes=processes, free_memory=lambda: freed.append(len(Loop.runs)))
        model = torch.nn.Linear(1, 1, bias=False)
        model.config = SimpleNamespace(lexical_share=0.1, context_weights=[])
        torch.nn.init.constant_(model.weight, 7)
        base: Any = SimpleNamespace(tokenizer=None)

        def queries_of(some: Dataset, threads: np.ndarray) -> Any:
            held_out.append(some["input"][:])
            assert threads.tolist() == [numbers[text] for text in some["input"]]
            return SimpleNamespace(threads=threads, responses=[])

        def measure_context(score: Any, queries: Any) -> Any:
            assert model.weight.item() == 7  # the base
            return queries.threads

        def choose_context(parts: list[Any]) -> ContextChoice:
            return ContextChoice((0.5,), [(0.1 * number,) for number in range(len(parts))], None)  # type: ignore[arg-type]

        def rank(encoder: Any, queries: Any, shares: list[float], turns: Any) -> dict[float, Ranks]:
            turns_of[tuple(queries.threads)] = turns
            distance = abs(model.weight.item() - 7 - best) + 1
            beaten = {share: np.full(len(queries.threads), 10 * (distance + share)) for share in shares}
            return {share: Ranks(each.astype(int), np.full(len(each), 200)) for share, each in beaten.items()}

        def prepare(given: Any, tokenizer: Any, columns: Any, rows: Dataset) -> Start:
            assert (given, columns, model.weight.item(), model.config.lexical_share) == (model, "columns", 7, 0.1)
            assert 38 <= len(rows) <= 42 or rows["input"] == pairs["input"]  # of the other folds, or all
            with torch.no_grad():
                model.weight += adjustment
            return Start(Interpolation(model), 0.1, bool(adjustment))

        class Index:
            @staticmethod
            def build(encoder: Any, replies: list[str], questions: list[str]) -> Any:
                known = set(questions)
                weights = (model.weight.item(), model.config.lexical_share)
                assert model.config.context_weights in ([0.0], [0.1], [0.2])

                return SimpleNamespace(known=known, weights=weights)

        def suggest(index: Any, some: Dataset, judge: str) -> dict[Weights, Suggested]:
            inputs = some["input"][:]
            assert not index.known & set(inputs) and index.known | set(inputs) == set(pairs["input"])
            assert judge == "judge"
            suggesting.append(index.weights)
            cosines = np.array([int(text) % 2 for text in inputs], float)
            return {each: Suggested(np.array(list(map(float, inputs))), cosines - distance(each)) for each in CHOICES}

        numbers = dict(zip(pairs["input"], thread_numbers(pairs), strict=True))
        monkeypatch.setattr(module, "build_queries", queries_of)
        monkeypatch.setattr(module, "rank_shares", rank)
        monkeypatch.setattr(module, "measure_context", measure_context)
        monkeypatch.setattr(module, "choose_context", choose_context)
        monkeypatch.setattr(module, "score_by", lambda *_: None)
        monkeypatch.setattr(module, "shares_of", lambda model: [0.1, 0.0])
        monkeypatch.setattr(module, "prepare_start", prepare)
        monkeypatch.setattr(module, "TrainingLoop", Loop)
        monkeypatch.setattr(module, "TrainableModel", lambda model, *_: model)
        monkeypatch.setattr(module, "Encoder", lambda model, _: model.weight.item())
        monkeypatch.setattr(module, "suggest_by_weights", suggest)
        monkeypatch.setattr(module, "_FoldEncoder", lambda *_: None)
        monkeypatch.setattr(module, "ReplyIndex", Index)
        context = RunContext(arguments, accelerator, Path())
        tasks = {TASK: SimpleNamespace(columns="columns")}
        choice = CrossValidation(context, model, base, tasks, pairs, "judge").run()  # type: ignore[arg-type]
        assert freed == list(range(1, len(Loop.runs) + 1))
        assert model.config.context_weights == [0.5] and sorted(turns_of.values()) == [
            (0.1 * n,) for n in range(len(held_out))
        ]
        return model, choice, held_out, suggesting

    return run


def distance(weights: Weights) -> float:
    return abs(weights.message - 1) + abs(weights.consensus - 1)


def make_pairs(threads: int, responses: int = 9) -> Dataset:
    rows = [
        {"input": f"{row}", "response": f"{row % responses}", "thread": f"{row // 3}"} for row in range(3 * threads)
    ]
    return Dataset.from_list(rows)


def test_each_thread_is_held_out_once_and_the_best_step_factor_and_share_are_chosen(validate):
    model, choice, held_out, suggesting = validate(make_pairs(20), best=4.5)  # step 6 with a factor of 0.75
    assert sorted(map(int, chain(*held_out))) == list(range(60)) and len(held_out) == 3
    for held, steps in zip(held_out, Loop.runs, strict=False):
        assert len({int(row) // 3 for row in held}) * 3 == len(held)  # whole threads
        assert [index for index, _, _ in steps] == list(range(7)) and {task for _, task, _ in steps} == {TASK}
        trained = np.concatenate([rows for _, _, rows in steps])  # of 40 other rows
        assert len(set(trained)) == 28 and not set(trained) & set(map(int, held))
    assert choice.point == Point(6, 0.75, 0.0)
    assert choice.gain.exceeds(TO_KEEP) and choice.gain.threads.shape == (60,)
    # The model of the chosen point suggests for each fold: it is trained for as many steps as the final one.
    assert [[index for index, *_ in steps] for steps in Loop.runs[3:]] == [list(range(6))] * 3
    assert suggesting == [(11.5, 0.0)] * 3
    rows = [int(text) for text in chain(*held_out)]
    assert choice.weights == (1, 1) and {text for fold in choice.held_out for text in fold} == set(rows)
    for weights, each in choice.suggested.items():
        assert each.scores.tolist() == rows
        assert each.cosines.tolist() == [row % 2 - distance(weights) for row in rows]
    assert model.weight.item() == 7  # the start


@pytest.mark.parametrize(
    ("best", "adjustment", "chosen", "suggesting"),
    [
        (9.0, 0.0, Point(7, 1.0, 0.0), 14),  # the last step
        (1.0, 1.0, Point(0, 0.0, 0.0), 8),  # the start
        (-1.0, 1.0, None, 7),  # nothing is better than the base
        (7.5, 3.0, Point(6, 0.75, 0.0), 14.5),  # 3 + 6 * .75
    ],
)
def test_folds_start_from_the_adjusted_weights(validate, best, adjustment, chosen, suggesting):
    model, choice, _, weights = validate(make_pairs(20), best, adjustment=adjustment)
    assert choice.point == chosen and {weight for weight, _ in weights} == {suggesting}
    assert model.weight.item() == 7 + adjustment


@pytest.mark.parametrize(("point", "steps"), [(Point(6, 0.75, 0.1), 6), (Point(0, 0.0, 0.1), 1), (None, 1)])
def test_the_final_training_ends_at_the_chosen_step(point, steps):
    arguments = build_arguments(adapt=True, initialize_from="m", pairs=["p"], tasks={TASK: 1}, max_steps=7)
    final = arguments_of(arguments, point)
    assert (final.max_steps, final.eval_every, final.best_metric) == (steps, steps, "last")


def test_a_fold_with_a_single_reply_is_left_out(validate):
    pairs = make_pairs(20)
    held = set(validate(pairs)[2][2])
    replies = ["yes" if row["input"] in held else row["response"] for row in pairs]
    *_, held_out, _ = validate(pairs.remove_columns("response").add_column("response", replies))
    assert len(held_out) == 2 and not held & set(chain(*held_out))
    with pytest.raises(InputError, match="the 60 pairs have too few distinct replies: prepare more conversations"):
        validate(make_pairs(20, responses=1))


def test_cross_validation_by_several_processes_is_refused(validate):
    with pytest.raises(InputError, match="60 pairs are cross-validated, which needs a run of one process"):
        validate(make_pairs(20), processes=2)
