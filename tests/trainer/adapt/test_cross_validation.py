"""Held-out parts of whole threads, and the step, factor and share that rank best on all of them."""

import copy
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from datasets import Dataset, DatasetDict

from modeling_convsim.files.errors import InputError
from trainer.adapt import cross_validation as module
from trainer.adapt.context import ContextChoice
from trainer.adapt.cross_validation import RATED, TASK, CrossValidation, hold_out, split_into_folds
from trainer.adapt.selection import TO_KEEP, Point
from trainer.adapt.start import Interpolation
from trainer.evaluation.ranking import Ranks
from trainer.runs import RunContext
from trainer.settings import build_settings


def test_folds_have_whole_threads_and_about_the_same_size():
    threads = np.random.default_rng(1).permutation(
        np.repeat(np.arange(90), np.random.default_rng(0).integers(1, 8, size=90))
    )
    folds = split_into_folds(threads)
    assert all(len(set(folds[threads == thread])) == 1 for thread in range(90))
    sizes = np.bincount(folds)
    assert len(sizes) == 3 and sizes.min() > 0.85 * len(threads) / 3
    assert np.bincount(split_into_folds(np.arange(60) % 3)).tolist() == [20] * 3  # as few threads as folds
    with pytest.raises(InputError, match=r"the 60 pairs are in 2 threads; expected 3 or more.*--gap"):
        split_into_folds(np.arange(60) % 2)


@pytest.mark.parametrize(
    ("long", "others", "is_held_out"), [(20, 40, True), (101, 202, True), (110, 199, True), (110, 200, False)]
)
def test_a_thread_longer_than_a_fold_is_always_trained_on_if_the_others_are_enough(long, others, is_held_out):
    threads = np.concatenate([np.arange(1, others + 1), np.zeros(long, int)])
    folds = split_into_folds(threads)
    assert ((folds == -1) == ((threads == 0) & (not is_held_out))).all()
    sizes = np.bincount(folds[folds >= 0], minlength=3)
    assert sizes.sum() == (folds >= 0).sum() and sizes.max() - sizes.min() <= (long if is_held_out else 1)


class Loop:
    """A step adds 1 to the weight; records the rows of each run's steps, and the inputs that each start is for."""

    runs: ClassVar[list[Any]] = []
    starts: ClassVar[list[Any]] = []

    def __init__(self, context: Any, model: Any, tasks: Any, plan: Any) -> None:
        self.model, self.plan = model, plan
        self.runs.append([])

    @torch.no_grad()
    def step(self, index: int) -> None:
        self.runs[-1].append((index, *self.plan.batch(index)))
        self.model.weight += 1


@pytest.fixture
def validate(monkeypatch, tiny_tokenizer) -> Callable[..., Any]:
    """Cross-validate a model of one weight, 7 at first, which is best at 7 + `best`; returns choice and trials."""

    def run(pairs: Dataset, best: float = 4.5, adjustment: float = 0.0, dev: Dataset | None = None) -> Any:
        Loop.runs, Loop.starts, freed, turns_of = [], [], [], []
        trials = hold_out(DatasetDict(train=pairs, **({"validation": dev} if dev else {})))
        parts = [part for trial in trials for part in trial.parts]
        settings = {"max_steps": 7, "eval_every": 2, "batch_size": 4}
        arguments = build_settings(adapt=True, initialize_from="m", pairs=["p"], tasks={TASK: 1}, **settings)
        accelerator = SimpleNamespace(free_memory=lambda: freed.append(len(Loop.runs)))
        model = torch.nn.Linear(1, 1, bias=False)
        model.config = SimpleNamespace(lexical_share=0.1, context_weights=[])
        torch.nn.init.constant_(model.weight, 7)

        def measure_context(score: Any, queries: Any) -> Any:
            assert model.weight.item() == 7  # the base
            return queries.threads

        def choose_context(measured: list[Any]) -> ContextChoice:
            return ContextChoice((0.5,), [(0.1 * number,) for number in range(len(measured))], None)  # type: ignore[arg-type]

        def rank(given: Any, _: Any, queries: Any, shares: list[float], turns: Any) -> dict[float, Ranks]:
            assert given is model
            turns_of.append((next(number for number, part in enumerate(parts) if part is queries), turns))
            distance = abs(model.weight.item() - 7 - best) + 1
            beaten = {share: np.full(len(queries), 10 * (distance + share)) for share in shares}
            return {share: Ranks(each.astype(int), np.full(len(each), 200)) for share, each in beaten.items()}

        def prepare(given: Any, tokenizer: Any, columns: Any, rows: Dataset) -> tuple[Interpolation, bool]:
            assert (given, columns, model.weight.item(), model.config.lexical_share) == (model, "columns", 7, 0.1)
            Loop.starts.append({*rows["input"]})
            with torch.no_grad():
                model.weight += adjustment
            return Interpolation(model), bool(adjustment)

        def encoder_of(some: Any, _: Any) -> Any:
            return SimpleNamespace(
                weight=some.weight.item(), share=some.config.lexical_share, turns=some.config.context_weights
            )

        monkeypatch.setattr(module, "rank_shares", rank)
        monkeypatch.setattr(module, "measure_context", measure_context)
        monkeypatch.setattr(module, "choose_context", choose_context)
        monkeypatch.setattr(module, "score_by", lambda *_: None)
        monkeypatch.setattr(module, "shares_of", lambda model: [0.1, 0.0])
        monkeypatch.setattr(module, "prepare_start", prepare)
        monkeypatch.setattr(module, "copy_model", copy.deepcopy)
        monkeypatch.setattr(module, "TrainingLoop", Loop)
        monkeypatch.setattr(module, "TrainableModel", lambda model, *_: model)
        monkeypatch.setattr(module, "Encoder", encoder_of)
        context = RunContext(arguments, accelerator, Path())
        task: Any = SimpleNamespace(columns="columns")
        choice = CrossValidation(context, model, tiny_tokenizer, task, pairs, trials).run()
        assert freed == list(range(1, len(Loop.runs) + 1))
        assert choice.encoder.turns == [0.5] and set(turns_of) == {(n, (0.1 * n,)) for n in range(len(parts))}
        assert choice.model.weight.item() == choice.encoder.weight and choice.tokenizer is tiny_tokenizer
        return choice, trials

    return run


def make_pairs(threads: int, responses: int = 9, name: str = "") -> Dataset:
    rows = [
        {"input": f"{row}{name}", "response": f"{row % responses}", "thread": f"{row // 3}{name}", "source": "ratings"}
        for row in range(3 * threads)
    ]
    return Dataset.from_list(rows)


def test_each_thread_is_held_out_once_and_the_best_step_factor_and_share_are_chosen(validate, monkeypatch):
    choice, trials = validate(make_pairs(20), best=4.5)  # step 6 with a factor of 0.75
    held_out = [trial.held_out["input"][:] for trial in trials]
    assert sorted(map(int, chain(*held_out))) == list(range(60)) and len(held_out) == 3
    # The models of the folds and the final one are trained for as many steps as the chosen point has.
    for trial, held, steps, count in zip(trials * 2, held_out * 2, Loop.runs[:6], [7] * 3 + [6] * 3, strict=True):
        assert len({int(row) // 3 for row in held}) * 3 == len(held)  # whole threads
        assert {*trial.known["input"]} == set(map(str, range(60))) - set(held)
        assert [index for index, _, _ in steps] == list(range(count)) and {task for _, task, _ in steps} == {TASK}
        trained = np.concatenate([rows for _, _, rows in steps])  # of 40 other rows
        assert len(set(trained)) == 4 * count and not set(trained) & set(map(int, held))
    assert choice.point == Point(6, 0.75, 0.0)
    assert choice.gain.exceeds(TO_KEEP) and sorted(np.unique(choice.gain.threads, return_counts=True)[1]) == [3] * 20
    assert [index for index, *_ in Loop.runs[6]] == list(range(6)) and len(Loop.runs) == 7
    assert len({*np.concatenate([rows for *_, rows in Loop.runs[6]])}) == 24
    assert Loop.starts == [{*trial.known["input"]} for trial in trials] * 2 + [set(map(str, range(60)))]
    for number, encoder in enumerate(choice.trial_encoders):
        assert (encoder.weight, encoder.share, encoder.turns) == (11.5, 0.0, [0.1 * number])
    assert (choice.encoder.weight, choice.encoder.share) == (11.5, 0.0)
    monkeypatch.setattr(module, "TO_KEEP", np.inf)  # no gain is certain enough
    choice, _ = validate(make_pairs(20), best=4.5)
    assert choice.point is None and choice.encoder.weight == 7


@pytest.mark.parametrize(
    ("best", "adjustment", "chosen", "weight"),
    [
        (9.0, 0.0, Point(7, 1.0, 0.0), 14),  # the last step
        (1.0, 1.0, Point(0, 0.0, 0.0), 8),  # the start
        (-1.0, 1.0, None, 7),  # nothing is better than the base
        (7.5, 3.0, Point(6, 0.75, 0.0), 14.5),  # 3 + 6 * .75
    ],
)
@pytest.mark.parametrize("has_dev", [False, True])
def test_training_starts_from_the_adjusted_weights_and_ends_at_the_chosen_point(
    validate, best, adjustment, chosen, weight, has_dev
):
    dev = make_pairs(20, name=" dev") if has_dev else None
    choice, trials = validate(make_pairs(20), best, adjustment=adjustment, dev=dev)
    assert choice.point == chosen and choice.encoder.weight == weight
    assert choice.encoder.share == (0.0 if chosen else 0.1) and choice.adjusted == bool(chosen and adjustment)
    assert {each.weight for each in choice.trial_encoders} == {weight}
    if has_dev:  # one training for both halves, which is also the final one
        assert len(trials) == len(Loop.runs) == 1 and choice.trial_encoders == [choice.encoder]
        assert len(choice.gain.threads) == 60


def test_the_halves_of_dev_have_whole_conversations():
    (trial,) = hold_out(DatasetDict(train=make_pairs(5), validation=make_pairs(20, name=" dev")))
    first, second = trial.parts
    assert not set(first.threads) & set(second.threads) and len(first) + len(second) == 60
    assert len(first) in range(20, 41) and trial.rows.tolist() == list(range(15))
    long = Dataset.from_dict({"input": list("abcdef"), "response": list("uvwxyz"), "thread": ["one"] * 6})
    (trial,) = hold_out(DatasetDict(train=make_pairs(5), validation=long))
    assert [len(part) for part in trial.parts] == [3, 3]


def test_rated_replies_measure_nothing_and_are_not_trained_on_where_their_conversation_is_held_out():
    pairs = make_pairs(20)
    rated = [{**pairs[row], "response": f"rated {row}", "source": RATED} for row in (0, 1, 17, 40)]
    rated.append({**rated[0], "response": "rated new", "thread": "rating 0"})
    trials = hold_out(DatasetDict(train=Dataset.from_list([*rated[:2], *pairs, *rated[2:]])))
    assert sorted(chain(*(trial.held_out["input"] for trial in trials)), key=int) == pairs["input"][:]
    for trial in trials:
        held_out, known = set(trial.held_out["thread"]), [text for text in trial.known["response"] if "rated" in text]
        assert not any("rated" in text for text in trial.held_out["response"]) and len(trial.rows) == len(trial.known)
        assert set(known) - {"rated new"} == {row["response"] for row in rated[:4] if row["thread"] not in held_out}
    assert sum("rated new" in trial.known["response"] for trial in trials) == 2


def test_a_fold_with_fewer_than_three_replies_is_left_out():
    pairs = make_pairs(20)
    held = set(hold_out(DatasetDict(train=pairs))[2].held_out["input"])
    for few in (2, 3):
        replies = [f"{int(row['input']) % few}" if row["input"] in held else row["response"] for row in pairs]
        trials = hold_out(DatasetDict(train=pairs.remove_columns("response").add_column("response", replies)))
        tried = {text for trial in trials for text in trial.held_out["input"]}
        assert len(trials) == few and (held <= tried if few == 3 else not held & tried)
    with pytest.raises(InputError, match="the 60 training pairs have 1 distinct replies; expected 3 or more"):
        hold_out(DatasetDict(train=make_pairs(20, responses=1)))
