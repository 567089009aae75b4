"""Selects how to adapt on pairs held out of training: two halves of a dev split, or the folds of a small dataset."""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

import numpy as np
from datasets import Dataset, DatasetDict
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from modeling_convsim.encoding import Encoder
from modeling_convsim.encoding.batch_tokenizer import BatchTokenizer, token_limit
from modeling_convsim.files.errors import InputError
from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.adapt.context import ContextChoice, TurnWeights, choose_context, measure_context, score_by
from trainer.adapt.frozen import copy_model
from trainer.adapt.selection import TO_KEEP, Gain, Measured, Point, choose, cross_choose
from trainer.adapt.start import Interpolation, prepare_start, rank_shares, shares_of
from trainer.data.datasets import ENOUGH, thread_numbers
from trainer.evaluation.ranking import FEWEST_REPLIES, Queries, Ranks, build_queries
from trainer.runs import RunContext
from trainer.settings import Settings
from trainer.tasks import Task
from trainer.training.loop import TrainingLoop
from trainer.training.schedule import BatchPlan, Schedule
from trainer.training.trainable_model import TrainableModel

TASK = "response_prediction"
FOLDS = 3
RATED = "replies/ratings.jsonl"  # the source of rated replies, which are never held out; sources of logs are not files


@dataclass(frozen=True)
class Trial:
    """A training on some pairs, and its evaluation on other pairs.

    Attributes:
        rows: the indices of the training pairs in the training split.
        known: the training pairs.
        held_out: the other pairs.
        parts: the queries of `held_out`, in one or several parts.
    """

    rows: np.ndarray
    known: Dataset
    held_out: Dataset
    parts: list[Queries]


@dataclass(frozen=True)
class Choice:
    """How to adapt a model.

    Attributes:
        point: the selected point; None is the base.
        gain: the gain of this selection over the base, on messages not used for model selection.
        context: the weights of earlier turns, selected with the base.
        adjusted: whether training on all pairs starts with token weights adjusted to them.
        encoder: the result.
        model: its model in torch.
        tokenizer: its tokenizer.
        trial_encoders: the model of each trial at the point.
    """

    point: Point | None
    gain: Gain
    context: ContextChoice
    adjusted: bool
    encoder: Encoder
    model: ConvSimForMultitask
    tokenizer: PreTrainedTokenizerFast
    trial_encoders: list[Encoder]


def hold_out(splits: DatasetDict) -> list[Trial]:
    """The trials for model selection: one with both halves of a dev split, or, without a dev split, one per fold.

    Raises:
        InputError: the pairs are too few.
    """
    pairs = splits["train"]
    everything = np.arange(len(pairs))
    if dev := splits.get("validation"):
        return [Trial(everything, pairs, dev, halve(dev))]
    threads, replies = thread_numbers(pairs), np.array(pairs["response"][:], dtype=object)
    folds, trials, is_rated = split_into_folds(threads), [], np.array(pairs["source"][:]) == RATED
    for fold in range(FOLDS):
        rows = np.flatnonzero((folds == fold) & ~is_rated)
        if len(set(replies[rows])) >= FEWEST_REPLIES:
            others, held_out = np.flatnonzero(folds != fold), pairs.select(rows)
            trials.append(Trial(others, pairs.select(others), held_out, [build_queries(held_out, threads[rows])]))
    if len(trials) < 2:
        raise InputError(
            f"adapt: the {len(pairs)} training pairs have {len(set(replies))} distinct replies; expected "
            f"{FEWEST_REPLIES} or more in two of {FOLDS} folds: prepare more conversations"
        )
    return trials


def halve(pairs: Dataset) -> list[Queries]:
    """The queries of two halves of the conversations of a dev split."""
    threads = thread_numbers(pairs)
    is_first = threads % 2 == 0
    if min(is_first.sum(), (~is_first).sum()) < len(pairs) / 4:  # a long conversation
        is_first = np.arange(len(pairs)) < len(pairs) / 2
    return [build_queries(pairs.select(np.flatnonzero(rows)), threads[rows]) for rows in (is_first, ~is_first)]


class CrossValidation:
    """Adapts a model, with the point that is best on held-out messages.

    A model is trained for each trial, and measured on its parts at several steps. The point for measuring a part is
    selected on the other parts; the point of the result is selected on all parts.
    """

    def __init__(
        self,
        context: RunContext,
        model: ConvSimForMultitask,
        tokenizer: PreTrainedTokenizerFast,
        task: Task,
        pairs: Dataset,
        trials: list[Trial],
    ) -> None:
        """Prepare to adapt a model.

        Args:
            context: the run; its settings have the number of steps.
            model: the base, which `run` adapts.
            tokenizer: its tokenizer.
            task: response prediction on the pairs.
            pairs: the training pairs.
            trials: the trials of `hold_out`.
        """
        self._context, self._model, self._task = context, model, task
        self._pairs, self._trials, self._tokenizer = pairs, trials, tokenizer
        limit = token_limit(tokenizer.model_max_length)
        self._repeated_tokenizer = _RepeatedTokenizer.from_transformers(tokenizer, limit)
        self._base_weights, self._base_share = Interpolation(model), model.config.lexical_share
        self._trained: dict[int, Interpolation] = {}  # by step, where a trial trains on all pairs

    def run(self) -> Choice:
        """Select a point and measure the gain of the selection; afterwards, the model is at this point."""
        encoder = Encoder(self._model, self._tokenizer)
        queries = [each for trial in self._trials for each in trial.parts]
        context = choose_context([measure_context(score_by(encoder, each.responses), each) for each in queries])
        parts: list[Measured[Point]] = []
        for trial in self._progress("training"):
            parts += self._measure(trial, context.of_parts[len(parts) :])
        gain, point = cross_choose(parts), choose(parts)
        if not gain.exceeds(TO_KEEP):
            point = None
        trial_encoders = []
        if len(self._trials) > 1:  # a single one trains on all pairs
            for trial, turns in zip(self._progress("folds at the best step"), context.of_parts, strict=True):
                self._move_to(point, trial.rows, trial.known)
                trial_encoders.append(self._snapshot(turns)[0])
        adjusted = self._move_to(point, np.arange(len(self._pairs)), self._pairs)
        encoder, model = self._snapshot(context.weights)
        return Choice(point, gain, context, adjusted, encoder, model, self._tokenizer, trial_encoders or [encoder])

    def _progress(self, description: str) -> tqdm:
        return tqdm(self._trials, description, unit="trial", leave=False, disable=len(self._trials) == 1)

    def _measure(self, trial: Trial, turns: list[TurnWeights]) -> list[Measured[Point]]:
        """Train for a trial, and rank the replies of each part at each step, with each factor and lexical share.

        `turns` has the weights of earlier turns for each part; extra entries are ignored.
        """
        self._restore()
        shares, ranked = shares_of(self._model), partial(rank_shares, self._model, self._repeated_tokenizer)
        parts = list(zip(trial.parts, turns, strict=False))
        bases = [ranked(queries, shares[:1], weights)[shares[0]] for queries, weights in parts]
        start, _ = self._start(trial.known)
        outcomes = [dict[Point, Ranks]() for _ in parts]

        def measure(step: int, factor: float) -> None:
            for (queries, weights), points in zip(parts, outcomes, strict=True):
                ranks = ranked(queries, shares, weights)
                points.update({Point(step, factor, share): each for share, each in ranks.items()})

        measure(0, 0.0)
        for step in self._train(trial.rows, self._context.settings):
            if len(self._trials) == 1:
                self._trained[step] = Interpolation(self._model)
            start.evaluate(self._model, partial(measure, step))
        return [
            Measured(queries.threads, base, points)
            for (queries, _), base, points in zip(parts, bases, outcomes, strict=True)
        ]

    def _move_to(self, point: Point | None, rows: np.ndarray, pairs: Dataset) -> bool:
        """Adapt the base to the rows of a split, which are `pairs`, up to a point.

        Returns whether the start is adjusted.
        """
        self._restore()
        if point is None:
            return False
        start, adjusted = self._start(pairs)
        if point.step in self._trained:
            self._trained[point.step].apply(self._model, 0.0)
        elif point.step:
            settings = dataclasses.replace(self._context.settings, max_steps=point.step, eval_every=point.step)
            for _ in self._train(rows, settings):
                pass
        start.apply(self._model, point.factor)
        self._model.config.lexical_share = point.share
        return adjusted

    def _snapshot(self, turns: TurnWeights) -> tuple[Encoder, ConvSimForMultitask]:
        """A copy of the current model with weights of earlier turns, as an encoder and in torch."""
        model = copy_model(self._model)
        model.config.context_weights = list(turns)
        return Encoder(model, self._tokenizer), model

    def _restore(self) -> None:
        self._base_weights.apply(self._model, 0.0)
        self._model.config.lexical_share = self._base_share

    def _start(self, pairs: Dataset) -> tuple[Interpolation, bool]:
        return prepare_start(self._model, self._repeated_tokenizer, self._task.columns, pairs)

    def _train(self, rows: np.ndarray, settings: Settings) -> Iterator[int]:
        """Train the model on some rows; yields each step after which it is evaluated."""
        context = dataclasses.replace(self._context, settings=settings)
        plan = _RowPlan(settings.seed, TASK, rows, Schedule(settings))
        trainable = TrainableModel(self._model, settings, context.accelerator)
        loop = TrainingLoop(context, trainable, {TASK: self._task}, plan)
        for step in range(1, len(plan.batch_sizes) + 1):
            loop.step(step - 1)
            if step % settings.eval_every == 0 or step == len(plan.batch_sizes):
                yield step
        context.accelerator.free_memory()  # the optimizers


def split_into_folds(threads: np.ndarray) -> np.ndarray:
    """The fold of each pair, (pairs,), from the number of its thread; threads are not divided.

    A thread with more than a fold's share of the pairs is in no fold (-1) and always in the training data, if the other
    threads are enough: like the dev split, folds measure what other threads gain from it.

    Raises:
        InputError: there are fewer threads than folds.
    """
    sizes = np.bincount(threads)
    is_long = sizes > len(threads) / FOLDS
    if (~is_long).sum() < FOLDS or sizes[~is_long].sum() < ENOUGH:
        is_long[:] = False
    if (~is_long).sum() < FOLDS:
        raise InputError(
            f"adapt: the {len(threads)} pairs are in {len(sizes)} threads; expected {FOLDS} or more, because whole "
            "threads are held out: prepare more conversations, or divide long ones with --gap of `convsim data "
            "conversations`"
        )
    held_out = np.where(is_long, 0, sizes)
    starts = np.cumsum(held_out) - held_out
    return np.where(is_long, -1, starts * FOLDS // held_out.sum())[threads]


class _RepeatedTokenizer(BatchTokenizer):
    """Tokenizes each text once: held-out texts are encoded dozens of times, and tokenizing takes half of that time."""

    def __call__(self, texts: list[str]) -> list[list[int]]:
        known: dict[str, list[int]] = self.__dict__.setdefault("known", {})
        new = [text for text in texts if text not in known]
        known.update(zip(new, super().__call__(new), strict=True))
        return [known[text] for text in texts]


class _RowPlan(BatchPlan):
    """The batches of some rows of a task."""

    def __init__(self, seed: int, task: str, selected: np.ndarray, schedule: Schedule) -> None:
        super().__init__(seed, {task: len(selected)}, {task: 1.0}, schedule.batch_sizes())
        self._selected = selected

    def batch(self, step: int) -> tuple[str, np.ndarray]:
        """As `BatchPlan.batch`, in the numbers of the task's rows."""
        task, rows = super().batch(step)
        return task, self._selected[rows]
