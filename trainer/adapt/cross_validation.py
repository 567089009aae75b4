"""Choosing by cross-validation: a few thousand pairs are too few for a dev split."""

import dataclasses
import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from datasets import Dataset
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast

from data_scripts.files.errors import InputError
from modeling_convsim.encoding import Encoder
from modeling_convsim.modeling_heads import ConvSimForMultitask
from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.calibration import Judge
from trainer.adapt.context import ContextChoice, TurnWeights, choose_context, measure_context, score_by
from trainer.adapt.frozen import copy_model
from trainer.adapt.selection import TO_KEEP, Gain, Measured, Point, choose, cross_choose
from trainer.adapt.start import Interpolation, Start, prepare_start, rank_shares, shares_of
from trainer.adapt.suggestions import Suggested, Weights, choose_weights, suggest_by_weights
from trainer.arguments import Arguments
from trainer.data.dev_split import ENOUGH, thread_numbers
from trainer.evaluation.ranking import FEWEST_REPLIES, Queries, Ranks, build_queries
from trainer.tasks import Task
from trainer.training.context import RunContext
from trainer.training.loop import TrainingLoop
from trainer.training.schedule import BatchPlan, Schedule
from trainer.training.trainable_model import TrainableModel

FOLDS = 3


@dataclass(frozen=True)
class FoldModel:
    """A model that was adapted to the other folds, without its frozen encoder.

    Attributes:
        weights: its weights.
        share: that of its lexical channel.
        turns: the weights of earlier turns.
    """

    weights: Interpolation
    share: float
    turns: TurnWeights

    def open(self, base: Encoder) -> Encoder:
        """The model as an encoder, from that of the base."""
        model = copy_model(base.model)
        self.weights.apply(model, 0.0)
        model.config.lexical_share, model.config.context_weights = self.share, list(self.turns)
        return Encoder(model, base.tokenizer)


@dataclass(frozen=True)
class Choice:
    """What cross-validation chose.

    Attributes:
        start: where the final training starts.
        point: what it ends at; None is the base.
        gain: the gain of this procedure, on messages that did not choose.
        held_out: the rows of each fold.
        suggested: with each of some weights, the suggestions for the messages of all folds, each by the model and the
            index of the other folds.
        weights: the best of these.
        context: how much earlier turns count, by the base.
        models: those that suggested for each fold.
    """

    start: Start
    point: Point | None
    gain: Gain
    held_out: list[np.ndarray]
    suggested: dict[Weights, Suggested]
    weights: Weights
    context: ContextChoice
    models: list[FoldModel] = field(default_factory=list)


class CrossValidation:
    """Trains on all folds but one, for each fold."""

    def __init__(
        self,
        context: RunContext,
        model: ConvSimForMultitask,
        base: Encoder,
        tasks: Mapping[str, Task],
        pairs: Dataset,
        judge: Judge,
    ) -> None:
        """Divide the pairs.

        Args:
            context: the run, whose arguments have the number of steps.
            model: a copy of the base, which `run` changes.
            base: the base, whatever is trained.
            tasks: the only task of the run.
            pairs: the pairs to train on.
            judge: compares suggestions with real replies.

        Raises:
            InputError: the run has several processes, or the pairs are too few.
        """
        if context.accelerator.num_processes > 1:
            raise InputError(f"adapt: {len(pairs)} pairs are cross-validated, which needs a run of one process")
        self._context, self._model, self._tasks, self._pairs = context, model, tasks, pairs
        self._judge, self._tokenizer = judge, base.tokenizer
        self._threads = thread_numbers(pairs)
        folds = split_into_folds(self._threads)
        held_out = [np.flatnonzero(folds == fold) for fold in range(FOLDS)]
        replies = np.array(pairs["response"][:], dtype=object)
        self._held_out = [rows for rows in held_out if len(set(replies[rows])) >= FEWEST_REPLIES]
        if len(self._held_out) < 2:
            raise InputError(f"adapt: the {len(pairs)} pairs have too few distinct replies: prepare more conversations")

    def run(self) -> Choice:
        """Choose a point, measure the gain of choosing, and score suggestions; the model is at the start afterwards."""
        base, base_share = Interpolation(self._model), self._model.config.lexical_share
        queries = [build_queries(self._pairs.select(rows), self._threads[rows]) for rows in self._held_out]
        context = choose_context([self._measure_context(each) for each in queries])
        parts, folds = [], list(zip(self._held_out, queries, context.of_parts, strict=True))
        for rows, each, turns in tqdm(folds, "cross-validation", unit="fold", leave=False):
            parts.append(self._measure(rows, each, turns))
            self._restore(base, base_share)
        gain, point = cross_choose(parts), choose(parts)
        if not gain.exceeds(TO_KEEP):
            point = None
        outcomes, models = [], []
        for rows, _, turns in tqdm(folds, "suggestions", unit="fold", leave=False):
            self._model.config.context_weights = list(turns)
            outcomes.append(self._suggest(rows, point))
            models.append(FoldModel(Interpolation(self._model), self._model.config.lexical_share, turns))
            self._restore(base, base_share)
        self._model.config.context_weights = list(context.weights)
        suggested = {weights: Suggested.join([each[weights] for each in outcomes]) for weights in outcomes[0]}
        start = self._start(np.arange(len(self._pairs)))
        return Choice(start, point, gain, self._held_out, suggested, choose_weights(suggested), context, models)

    def _restore(self, base: Interpolation, share: float) -> None:
        base.apply(self._model, 0.0)
        self._model.config.lexical_share = share

    def _others(self, held_out: np.ndarray) -> np.ndarray:
        return np.setdiff1d(np.arange(len(self._pairs)), held_out)

    def _start(self, rows: np.ndarray) -> Start:
        (task,) = self._tasks.values()
        return prepare_start(self._model, self._tokenizer, task.columns, self._pairs.select(rows))

    def _measure_context(self, queries: Queries) -> Measured[TurnWeights]:
        was_training, encoder = self._model.training, Encoder(self._model, self._tokenizer)
        measured = measure_context(score_by(encoder, queries.responses), queries)
        self._model.train(was_training)
        return measured

    def _measure(self, held_out: np.ndarray, queries: Queries, turns: TurnWeights) -> Measured[Point]:
        """Train on the other rows, and rank the replies of the held-out ones at each step, with each factor.

        `turns` are the weights of earlier turns.
        """
        was_training = self._model.training
        encoder = _FoldEncoder(self._model, self._tokenizer)  # in evaluation mode
        self._model.train(was_training)
        shares = shares_of(self._model)
        base = rank_shares(encoder, queries, shares[:1], turns)[shares[0]]
        start = self._start(self._others(held_out))
        points: dict[Point, Ranks] = {}

        def measure(step: int, factor: float) -> None:
            ranks = rank_shares(encoder, queries, shares, turns)
            points.update({Point(step, factor, share): each for share, each in ranks.items()})

        measure(0, 0.0)
        for step in self._train(self._context.arguments, held_out):
            start.weights.evaluate(self._model, functools.partial(measure, step))
        return Measured(queries.threads, base, points)

    def _suggest(self, held_out: np.ndarray, point: Point | None) -> dict[Weights, Suggested]:
        """The best suggestions for held-out messages, from an index of the other rows' replies, by their weights."""
        others = self._others(held_out)
        if point:
            start = self._start(others)
            for _ in self._train(arguments_of(self._context.arguments, point), held_out) if point.step else ():
                pass
            start.weights.apply(self._model, point.factor)
            self._model.config.lexical_share = point.share
        was_training = self._model.training
        known, unknown = self._pairs.select(others), self._pairs.select(held_out)
        index = ReplyIndex.build(Encoder(self._model, self._tokenizer), known["response"], known["input"])
        result = suggest_by_weights(index, unknown, self._judge)
        self._model.train(was_training)
        return result

    def _train(self, arguments: Arguments, held_out: np.ndarray) -> Iterator[int]:
        """Train the model on the other rows; yields each step after which it is evaluated."""
        (name,), context = self._tasks, dataclasses.replace(self._context, arguments=arguments)
        plan = _FoldPlan(arguments.seed, name, self._others(held_out), Schedule(arguments))
        trainable = TrainableModel(self._model, arguments, context.accelerator)
        loop = TrainingLoop(context, trainable, self._tasks, plan)
        for step in range(1, len(plan.batch_sizes) + 1):
            loop.step(step - 1)
            if step % arguments.eval_every == 0 or step == len(plan.batch_sizes):
                yield step
        context.accelerator.free_memory()  # the optimizers of this fold, which checkpoints would save


def arguments_of(arguments: Arguments, point: Point | None) -> Arguments:
    """The settings of a training that ends at a point; a run has a step, even where its weights are not used."""
    steps = max(1, point.step) if point else 1
    return dataclasses.replace(arguments, max_steps=steps, eval_every=steps, best_metric="last")


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
