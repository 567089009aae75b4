"""Adapting a trained model to a user's own conversations: the option `adapt`.

The base is the model of `initialize_from`. Its token weights are adjusted to the conversations, and the share of its
lexical channel is chosen; the pairs show whether that is better, because the base has not seen them. The result is an
interpolation of this start and the model that was trained from it. Step and factor are chosen on dev; a few pairs are
too few for a dev split, and are chosen by cross-validation.
"""

import dataclasses
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict, concatenate_datasets
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from data_scripts.errors import InputError
from modeling_convsim.encoding import Encoder
from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.arguments import Arguments
from trainer.data.datasets import RunData
from trainer.data.dev_split import ENOUGH, complete_dev_split, thread_numbers
from trainer.evaluation.response_prediction import RANKS, build_queries, score_candidates, summarize
from trainer.tasks import Task
from trainer.training.adaptation_start import Start, mean_reciprocal_rank, prepare_start
from trainer.training.batching import BatchPlan
from trainer.training.context import Progress, RunContext
from trainer.training.interpolation import Interpolation
from trainer.training.lexical_share import best_share, rank_with_shares
from trainer.training.loop import DEV_QUERIES, TrainingLoop
from trainer.training.model_evaluator import ModelEvaluator, mean_precision
from trainer.training.schedule import Schedule
from trainer.training.trainable_model import TrainableModel

TASK = "response_prediction"
FOLDS = 3
SMALL = 4_000  # pairs; a dev split of fewer would have 400 queries or less
FEWEST_STEPS, EPOCHS, EVALUATIONS = 150, 1.5, 4
LARGE = 20_000  # pairs; with more, a batch is `LARGE_BATCH` times batch_size
LARGE_BATCH = 4
MRR = "mean_reciprocal_rank"
MANY_QUERIES = 1_000  # on dev; enough to choose the share of the lexical channel once more

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choice:
    """What cross-validation chose.

    Attributes:
        steps: the number of steps; 1 with a factor of 0.
        factor: the factor of `Interpolation`.
        queries: the number of pairs in the folds.
        adapted: P@N of the models of all folds.
    """

    steps: int
    factor: float
    queries: int
    adapted: Mapping[str, float]


@dataclass(frozen=True)
class Adaptation:
    """How a model is adapted.

    Attributes:
        arguments: the settings, with batch size and numbers of steps.
        start: where training starts.
        interpolation: the start, with the factors to choose from.
        queries: the number of dev queries, or of those of cross-validation.
        choice: what cross-validation chose; None if dev chooses during training.
    """

    arguments: Arguments
    start: Start
    interpolation: Interpolation
    queries: int
    choice: Choice | None = None

    def finish(self, evaluator: ModelEvaluator, progress: Progress) -> dict[str, Any]:
        """Interpolate the weights of the best checkpoint; return the part "adaptation" of results.json."""
        model, base, adjusted = evaluator.model, self.start.base_ranking, self.start.adjusted
        if self.choice:
            adapted, factor = self.choice.adapted, self.choice.factor
        else:
            assert progress.base_ranking and progress.best_ranking and progress.best_factor is not None
            is_better = _is_better(progress.best_ranking, progress.base_ranking, base)
            factor = progress.best_factor if is_better else 0.0
            adapted = progress.best_ranking if is_better else progress.base_ranking
        self.interpolation.apply(model, factor)
        if not self.choice and self.queries >= MANY_QUERIES:
            rankings = rank_with_shares(
                model, lambda: evaluator.evaluate("dev", queries=DEV_QUERIES, evaluators=[TASK])[TASK]
            )
            model.config.lexical_share = best_share(rankings)
            adapted = rankings[model.config.lexical_share]
        method = f"{FOLDS}-fold cross-validation" if self.choice else "dev"
        if _is_better(adapted, base, base):
            changes = ["adjusted token weights"] * adjusted
            if model.config.lexical_share:
                changes.append(f"lexical share {model.config.lexical_share:g}")
            if factor:
                changes.append(f"start + {factor:g} (trained - start), step {progress.best_step}")
            logger.info(
                "adapted: P@1 %.4f, from %.4f of the base (%s, %d queries; %s)",
                adapted["p_at_1"], base["p_at_1"], method, self.queries, ", ".join(changes),
            )  # fmt: skip
        else:
            logger.info(
                "adapting did not help: P@1 %.4f at best, the base's %.4f (%s, %d queries); the result is the base",
                adapted["p_at_1"], base["p_at_1"], method, self.queries,
            )  # fmt: skip
            self.start.base.apply(model, 0.0)
            model.config.lexical_share = self.start.base_share
            adapted, factor, adjusted = base, 0.0, False
        return {
            "factor": factor,
            "token_weights_adjusted": adjusted,
            "lexical_share": model.config.lexical_share,
            "selected_on": method,
            "queries": self.queries,
            "base_p_at_1": base["p_at_1"],
            "p_at_1": adapted["p_at_1"],
        }


def _is_better(adapted: Mapping[str, Any], other: Mapping[str, Any], base: Mapping[str, Any]) -> bool:
    return _quality(adapted) > _quality(other) and adapted["p_at_1"] >= base["p_at_1"]


def _quality(ranking: Mapping[str, Any]) -> float:
    """What is chosen by: in cross-validation the mean reciprocal rank, which varies least with the queries."""
    return ranking[MRR] if MRR in ranking else mean_precision(ranking)


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


def split_pairs(data: RunData) -> None:
    """Complete a dev split that is too small; that of a few pairs is added to the training split, which is then
    cross-validated.
    """
    data.join_sources("pairs")
    train, splits = data.training["pairs"], data.evaluation["pairs"]
    held_out = [splits["validation"]] if "validation" in splits else []
    if len(train) + sum(map(len, held_out)) >= SMALL:
        complete_dev_split(data, ENOUGH)
        return
    data.training["pairs"] = concatenate_datasets([train, *held_out])
    data.evaluation["pairs"] = DatasetDict({name: rows for name, rows in splits.items() if name != "validation"})


def scale_schedule(arguments: Arguments, pairs: int) -> Arguments:
    """Return the arguments with a batch size and numbers of steps for a number of pairs; `max_steps` is kept if given.

    An epoch and a half is enough for many pairs; more than 150 steps are too many for a few.
    """
    batch_size = arguments.batch_size * (LARGE_BATCH if pairs > LARGE else 1)
    steps = arguments.max_steps or max(FEWEST_STEPS, math.ceil(EPOCHS * pairs / batch_size))
    eval_every = min(arguments.eval_every, math.ceil(steps / EVALUATIONS))
    return dataclasses.replace(arguments, batch_size=batch_size, max_steps=steps, eval_every=eval_every)


def plan_adaptation(
    context: RunContext,
    model: ConvSimForMultitask,
    tokenizer: PreTrainedTokenizerFast,
    tasks: Mapping[str, Task],
    data: RunData,
) -> Adaptation:
    """Prepare a model for its adaptation; without a dev split, choose steps and factor by cross-validation.

    Raises:
        InputError: the pairs can neither be held out nor cross-validated.
    """
    arguments = scale_schedule(context.arguments, len(tasks[TASK]))
    if "validation" not in data.evaluation["pairs"]:
        context = dataclasses.replace(context, arguments=arguments)
        start, choice = _cross_validate(context, model, tokenizer, tasks, data)
        arguments = dataclasses.replace(arguments, max_steps=choice.steps, eval_every=choice.steps, best_metric="last")
        return Adaptation(arguments, start, start.interpolation.with_factors(choice.factor), choice.queries, choice)
    dev = data.evaluation["pairs"]["validation"]
    rank = _ranker(context, model, tokenizer, dev)
    start = prepare_start(model, tokenizer, tasks[TASK].columns, data.training["pairs"], rank())
    return Adaptation(arguments, start, start.interpolation, min(len(dev), DEV_QUERIES))


def _ranker(
    context: RunContext, model: ConvSimForMultitask, tokenizer: PreTrainedTokenizerFast, pairs: Dataset
) -> Callable[[], dict[str, Any]]:
    """Return a function that evaluates response prediction by the model on some pairs."""
    evaluator = ModelEvaluator(model, tokenizer, {"pairs": DatasetDict(validation=pairs)}, ())
    return lambda: evaluator.evaluate("dev", queries=DEV_QUERIES, evaluators=[TASK])[TASK]


def _fold_ranker(
    context: RunContext, model: ConvSimForMultitask, tokenizer: PreTrainedTokenizerFast, pairs: Dataset
) -> Callable[[], dict[str, Any]]:
    """The same for the pairs of a fold; no input is a candidate of its own query, as it often would be in a fold."""
    queries = build_queries(pairs["input"][:], pairs["response"][:], DEV_QUERIES, exclude_inputs=True)
    was_training = model.training
    encoder = _FoldEncoder(model, tokenizer)  # in evaluation mode
    model.train(was_training)

    def rank() -> dict[str, Any]:
        was_training = model.training
        model.eval()
        scores = score_candidates(encoder, queries)
        ranking = summarize(scores, "dev") | {MRR: mean_reciprocal_rank(scores)}
        model.train(was_training)
        return ranking

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

    def __init__(self, seed: int, selected: np.ndarray, batch_sizes: np.ndarray) -> None:
        super().__init__(seed, {TASK: len(selected)}, {TASK: 1.0}, batch_sizes)
        self._selected = selected

    def batch(self, step: int) -> tuple[str, np.ndarray]:
        """As `BatchPlan.batch`, in the numbers of the task's rows."""
        task, rows = super().batch(step)
        return task, self._selected[rows]


def _cross_validate(
    context: RunContext,
    model: ConvSimForMultitask,
    tokenizer: PreTrainedTokenizerFast,
    tasks: Mapping[str, Task],
    data: RunData,
) -> tuple[Start, Choice]:
    """Train on all folds but one, for each fold; the model has the weights of the start afterwards."""
    arguments, pairs = context.arguments, data.training["pairs"]
    if context.accelerator.num_processes > 1:
        raise InputError(f"adapt: {len(pairs)} pairs are cross-validated, which needs a run of one process")
    folds, held_out = _folds(thread_numbers(pairs)), {}
    for fold in range(FOLDS):
        held = pairs.select(np.flatnonzero(folds == fold))
        if len(set(held["response"])) >= 3:  # the true one, the input and another one
            held_out[fold] = _fold_ranker(context, model, tokenizer, held)
    if not held_out:
        raise InputError(f"adapt: the {len(pairs)} pairs have too few distinct replies: prepare more conversations")
    with silent("trainer.evaluation.response_prediction"):  # a fold may have fewer than 100 replies
        base_ranking = _average([rank() for rank in held_out.values()])
        start = prepare_start(model, tokenizer, tasks[TASK].columns, pairs, base_ranking)
        start_ranking = _average([rank() for rank in held_out.values()])
        folds_of = dict[tuple[int, float], list[dict[str, Any]]]()
        for fold, rank in tqdm(held_out.items(), "cross-validation", unit="fold", leave=False):
            plan = _FoldPlan(arguments.seed, np.flatnonzero(folds != fold), Schedule(arguments).batch_sizes())
            for point, ranking in _train_fold(context, model, rank, tasks, plan, start.interpolation):
                folds_of.setdefault(point, []).append(ranking)
    rankings = {point: _average(each) for point, each in folds_of.items()}
    (steps, factor), best = _choose(rankings, start_ranking, base_ranking)
    return start, Choice(steps, factor, int((folds >= 0).sum()), best)


def _choose(
    rankings: Mapping[tuple[int, float], Mapping[str, float]],
    start_ranking: Mapping[str, float],
    base_ranking: Mapping[str, float],
) -> tuple[tuple[int, float], Mapping[str, float]]:
    """The best (step, factor) among those that are better than the base, and its ranking; the start if none is."""
    rankings = {(1, 0.0): start_ranking, **rankings}
    better = [point for point, ranking in rankings.items() if _is_better(ranking, base_ranking, base_ranking)]
    point = max(better, key=lambda point: _quality(rankings[point]), default=(1, 0.0))
    return point, rankings[point]


def _average(rankings: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """P@N, for those N that all folds have, and mean reciprocal rank over the queries of all folds."""
    names = [name for name in (*(f"p_at_{n}" for n in RANKS), MRR) if all(name in each for each in rankings)]
    queries = [each["queries"] for each in rankings]
    return {name: float(np.average([each[name] for each in rankings], weights=queries)) for name in names}


def _folds(threads: np.ndarray) -> np.ndarray:
    """The fold of each pair, (pairs,), from the number of its thread; threads stay whole.

    A thread with more than a fold's share of the pairs is in no fold (-1) and always trained on, if the others are
    enough: as the dev split does, folds measure what other threads gain from it.
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


def _train_fold(
    context: RunContext,
    model: ConvSimForMultitask,
    evaluate: Callable[[], dict[str, Any]],
    tasks: Mapping[str, Task],
    plan: BatchPlan,
    start: Interpolation,
) -> list[tuple[tuple[int, float], dict[str, Any]]]:
    """Response prediction after (step, factor)."""
    rankings = []
    loop = TrainingLoop(context, TrainableModel(model, context.arguments, context.accelerator), tasks, plan)
    for step in range(1, len(plan.batch_sizes) + 1):
        loop.step(step - 1)
        if step % context.arguments.eval_every == 0 or step == len(plan.batch_sizes):
            rankings += [((step, factor), ranking) for ranking, factor in start.evaluate(model, evaluate)]
    start.apply(model, 0.0)
    context.accelerator.free_memory()  # the optimizers of this fold, which checkpoints would save
    return rankings
