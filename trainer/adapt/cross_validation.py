"""The step and the factor of an adaptation, chosen by cross-validation: a few pairs are too few for a dev split."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from data_scripts.errors import InputError
from modeling_convsim.encoding import Encoder
from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.adapt.interpolation import Interpolation
from trainer.adapt.start import Start, mean_reciprocal_rank, prepare_start
from trainer.data.dev_split import ENOUGH, thread_numbers
from trainer.evaluation.response_prediction import RANKS, build_queries, score_candidates, summarize
from trainer.tasks import Task
from trainer.training.batching import BatchPlan
from trainer.training.context import RunContext
from trainer.training.loop import TrainingLoop
from trainer.training.model_evaluator import DEV_QUERIES, mean_precision
from trainer.training.schedule import Schedule
from trainer.training.trainable_model import TrainableModel

FOLDS = 3
MRR = "mean_reciprocal_rank"

Ranking = Mapping[str, Any]


@dataclass(frozen=True)
class Choice:
    """What cross-validation chose.

    Attributes:
        steps: the number of steps; 1 with a factor of 0.
        factor: the factor of `Interpolation`.
        queries: the number of pairs in the folds.
        ranking: P@N and mean reciprocal rank of the models of all folds.
        base_ranking: those of the base.
    """

    steps: int
    factor: float
    queries: int
    ranking: Ranking
    base_ranking: Ranking


def cross_validate(
    context: RunContext,
    model: ConvSimForMultitask,
    tokenizer: PreTrainedTokenizerFast,
    tasks: Mapping[str, Task],
    pairs: Dataset,
) -> tuple[Start, Choice]:
    """Train on all folds but one, for each fold; the model has the weights of the start afterwards.

    Raises:
        InputError: the run has several processes, or the pairs are too few.
    """
    if context.accelerator.num_processes > 1:
        raise InputError(f"adapt: {len(pairs)} pairs are cross-validated, which needs a run of one process")
    (name, task), *_ = tasks.items()
    folds, rankers = split_into_folds(thread_numbers(pairs)), {}
    for fold in range(FOLDS):
        held_out = pairs.select(np.flatnonzero(folds == fold))
        if len(set(held_out["response"])) >= 3:  # the true one, the input and another one
            rankers[fold] = _ranker(model, tokenizer, held_out)
    if not rankers:
        raise InputError(f"adapt: the {len(pairs)} pairs have too few distinct replies: prepare more conversations")
    with silent("trainer.evaluation.response_prediction"):  # a fold may have fewer than 100 replies
        base_ranking = _average([rank() for rank in rankers.values()])
        start = prepare_start(model, tokenizer, task.columns, pairs)
        start_ranking = _average([rank() for rank in rankers.values()])
        rankings_of = dict[tuple[int, float], list[Ranking]]()
        for fold, rank in tqdm(rankers.items(), "cross-validation", unit="fold", leave=False):
            plan = _FoldPlan(context.arguments.seed, name, np.flatnonzero(folds != fold), Schedule(context.arguments))
            for point, ranking in _train_fold(context, model, rank, tasks, plan, start.weights):
                rankings_of.setdefault(point, []).append(ranking)
    rankings = {point: _average(each) for point, each in rankings_of.items()}
    (steps, factor), best = _choose(rankings, start_ranking, base_ranking)
    return start, Choice(steps, factor, int((folds >= 0).sum()), best, base_ranking)


def is_better(adapted: Ranking, other: Ranking, base: Ranking) -> bool:
    """Return whether a model ranks better than another one, and its P@1 is at least that of the base."""
    return _quality(adapted) > _quality(other) and adapted["p_at_1"] >= base["p_at_1"]


@contextmanager
def silent(name: str) -> Iterator[None]:
    """Drop what a logger would show but errors: messages that were shown before, or concern a part of a result."""
    named = logging.getLogger(name)
    level = named.level
    named.setLevel(logging.ERROR)
    try:
        yield
    finally:
        named.setLevel(level)


def split_into_folds(threads: np.ndarray) -> np.ndarray:
    """The fold of each pair, (pairs,), from the number of its thread; threads stay whole.

    A thread with more than a fold's share of the pairs is in no fold (-1) and always trained on, if the others are
    enough: as the dev split does, folds measure what other threads gain from it.

    Raises:
        InputError: there are fewer threads than folds.
    """
    sizes = np.bincount(threads)
    is_long = sizes > len(threads) / FOLDS
    if (~is_long).sum() < FOLDS or sizes[~is_long].sum() < ENOUGH:
        is_long[:] = False
    if (~is_long).sum() < FOLDS:
        raise InputError(
            f"adapt: the {len(threads)} pairs are in {len(sizes)} threads, expected {FOLDS} or more, because threads "
            "are held out as a whole: prepare more conversations, or divide long ones with --gap of `data_scripts "
            "conversations`"
        )
    held_out = np.where(is_long, 0, sizes)
    starts = np.cumsum(held_out) - held_out
    return np.where(is_long, -1, starts * FOLDS // held_out.sum())[threads]


def _ranker(
    model: ConvSimForMultitask, tokenizer: PreTrainedTokenizerFast, pairs: Dataset
) -> Callable[[], dict[str, Any]]:
    """Return a function that ranks the responses of a fold, where an input is often the response of another pair."""
    queries = build_queries(pairs["input"][:], pairs["response"][:], DEV_QUERIES, exclude_inputs=True)
    was_training = model.training
    encoder = _FoldEncoder(model, tokenizer)  # in evaluation mode
    model.train(was_training)

    def rank() -> dict[str, Any]:
        was_training = model.training
        model.eval()
        scores = score_candidates(encoder, queries)
        model.train(was_training)
        return summarize(scores, "dev") | {MRR: mean_reciprocal_rank(scores)}

    return rank


class _FoldEncoder(Encoder):
    """Tokenizes each text once: those of a fold are encoded dozens of times, half the time of which is tokenizing."""

    def __init__(self, model: ConvSimForMultitask, tokenizer: PreTrainedTokenizerFast) -> None:
        super().__init__(model, tokenizer)
        self._token_ids = dict[str, list[int]]()

    def _tokenize(self, texts: list[str]) -> list[list[int]]:
        new = [text for text in texts if text not in self._token_ids]
        self._token_ids.update(zip(new, super()._tokenize(new), strict=True))
        return [self._token_ids[text] for text in texts]


class _FoldPlan(BatchPlan):
    """The batches of some rows of a task."""

    def __init__(self, seed: int, task: str, selected: np.ndarray, schedule: Schedule) -> None:
        super().__init__(seed, {task: len(selected)}, {task: 1.0}, schedule.batch_sizes())
        self._selected = selected

    def batch(self, step: int) -> tuple[str, np.ndarray]:
        """As `BatchPlan.batch`, in the numbers of the task's rows."""
        task, rows = super().batch(step)
        return task, self._selected[rows]


def _train_fold(
    context: RunContext,
    model: ConvSimForMultitask,
    rank: Callable[[], Ranking],
    tasks: Mapping[str, Task],
    plan: BatchPlan,
    start: Interpolation,
) -> list[tuple[tuple[int, float], Ranking]]:
    """The ranking after each (step, factor); the model has the weights of the start afterwards."""
    rankings, last = [], len(plan.batch_sizes)
    loop = TrainingLoop(context, TrainableModel(model, context.arguments, context.accelerator), tasks, plan)
    for step in range(1, last + 1):
        loop.step(step - 1)
        if step % context.arguments.eval_every == 0 or step == last:
            rankings += [((step, factor), ranking) for factor, ranking in start.evaluate(model, rank)]
    start.apply(model, 0.0)
    context.accelerator.free_memory()  # the optimizers of this fold, which checkpoints would save
    return rankings


def _choose(
    rankings: Mapping[tuple[int, float], Ranking], start_ranking: Ranking, base_ranking: Ranking
) -> tuple[tuple[int, float], Ranking]:
    """The best (step, factor) among those that are better than the base, and its ranking; the start if none is."""
    rankings = {(1, 0.0): start_ranking, **rankings}
    better = [point for point, ranking in rankings.items() if is_better(ranking, base_ranking, base_ranking)]
    point = max(better, key=lambda point: _quality(rankings[point]), default=(1, 0.0))
    return point, rankings[point]


def _quality(ranking: Ranking) -> float:
    """What is chosen by: in cross-validation the mean reciprocal rank, which varies least with the queries."""
    return ranking[MRR] if MRR in ranking else mean_precision(ranking)


def _average(rankings: Sequence[Ranking]) -> dict[str, float]:
    """P@N, for those N that all folds have, and mean reciprocal rank over the queries of all folds."""
    names = [name for name in (*(f"p_at_{n}" for n in RANKS), MRR) if all(name in each for each in rankings)]
    queries = [each["queries"] for each in rankings]
    return {name: float(np.average([each[name] for each in rankings], weights=queries)) for name in names}
