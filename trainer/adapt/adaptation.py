"""Adapting a trained model to a user's own conversations, as the hook of a training run.

The base is the model of `initialize_from`. The result is a point between a start (`start.py`) and what was trained from
it, or the base itself: adapting never returns a model whose gain over the base is not certain on held-out messages that
did not choose the point. Half of the dev split chooses, and the other half decides; fewer than `SMALL` pairs are
cross-validated instead. The test split decides nothing.
"""

import dataclasses
import json
import logging
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset, DatasetDict, concatenate_datasets
from transformers import PreTrainedTokenizerFast

from modeling_convsim import ConvSimPretrainedModel
from modeling_convsim.encoding import Encoder
from modeling_convsim.modeling_heads import ConvSimForMultitask
from modeling_convsim.suggestion.calibration import Judge
from trainer.adapt.context import ContextChoice, choose_context, measure_context, score_by
from trainer.adapt.cross_validation import FOLDS, Choice, CrossValidation, arguments_of
from trainer.adapt.frozen import Vectors, copy_model, freeze, unfreeze
from trainer.adapt.selection import TO_KEEP, Gain, Point, gain_of
from trainer.adapt.start import Interpolation, Start, prepare_start, rank_shares, shares_of
from trainer.adapt.suggestions import CenteredEncoder
from trainer.arguments import Arguments
from trainer.data.datasets import RunData
from trainer.data.dev_split import ENOUGH, complete_dev_split, thread_numbers
from trainer.evaluation.ranking import MRR, QUERIES, Queries, Ranks, build_queries, summarize
from trainer.evaluation.response_prediction import contexts_of
from trainer.tasks import Task
from trainer.training.backbone import find_backbone
from trainer.training.context import Hook, Progress, RunContext
from trainer.training.metrics_log import METRICS
from trainer.training.model_evaluator import ModelEvaluator
from trainer.training.train import train

TASK = "response_prediction"
SMALL = 4_000  # pairs; a dev split of fewer would have 400 queries or less
FEWEST_STEPS, EPOCHS, EVALUATIONS = 150, 1.5, 4
LARGE = 20_000  # pairs; with more, a batch is `LARGE_BATCH` times batch_size
LARGE_BATCH = 4
LEXICAL_SIZE = 1024  # of the channel that a pretrained encoder gets

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Adapted:
    """The outcome of an adaptation.

    Attributes:
        results: the contents of results.json.
        pairs: "train", and, if they were held out, "validation" and "test".
        choice: what cross-validation chose; None for pairs with a dev split.
        base: the model that was adapted, as it was.
        vectors: the vectors of all texts, if the encoder was not trained.
        judge: what compares suggestions with real replies.
    """

    results: dict[str, Any]
    pairs: DatasetDict
    choice: Choice | None
    base: Encoder
    vectors: Vectors
    judge: Judge

    def open(self, folder: Path) -> Encoder:
        """The adapted model that was saved in a folder; what was encoded is not encoded again."""
        encoder = Encoder.from_pretrained(str(folder))
        if self.vectors:
            freeze(encoder.model.encoder, self.vectors)
        return encoder


def adapt(arguments: Arguments, judge: Judge | None = None) -> Adapted:
    """Adapt the model of `initialize_from` with the settings of a run.

    A pretrained encoder gets heads and a lexical channel. Only these are trained.

    Args:
        arguments: the settings.
        judge: what compares suggestions with real replies; by default the model itself, before it is adapted.

    Raises:
        InputError: the settings or the data are invalid, or the pairs can neither be held out nor cross-validated.
        Interrupted: a signal has stopped the run.
    """
    if find_backbone(str(arguments.initialize_from)):
        model_config = {"lexical_size": LEXICAL_SIZE, **arguments.model_config}
        arguments = dataclasses.replace(arguments, model_config=model_config)
    adaptation = Adaptation(judge)
    results = train(arguments, adaptation)
    if adaptation.vectors:
        freeze(adaptation.base.model.encoder, adaptation.vectors)
    return Adapted(results, adaptation.pairs, adaptation.choice, adaptation.base, adaptation.vectors, adaptation.judge)


class Adaptation(Hook):
    """Adapts the model of a run.

    Attributes:
        pairs: the pairs by split.
        choice: see `Adapted`.
        context: how much earlier turns count, chosen by the base on the messages that choose.
        base: the base, whatever is trained.
        vectors: see `Adapted`.
        judge: see `Adapted`.
    """

    pairs: DatasetDict
    choice: Choice | None = None
    context: ContextChoice
    base: Encoder
    vectors: Vectors
    judge: Judge
    _base: Interpolation
    _base_share: float
    _start: Start
    _dev: "_Dev"

    def __init__(self, judge: Judge | None = None) -> None:
        self._given_judge = judge

    def complete_splits(self, data: RunData) -> None:
        """See `split_pairs`."""
        split_pairs(data)
        self.pairs = DatasetDict({"train": data.training["pairs"], **data.evaluation["pairs"]})

    def prepare(
        self,
        context: RunContext,
        model: ConvSimForMultitask,
        tokenizer: PreTrainedTokenizerFast,
        tasks: Mapping[str, Task],
    ) -> Arguments:
        """Turn the base into the start; without a dev split, choose the point by cross-validation."""
        arguments = scale_schedule(context.arguments, len(tasks[TASK]))
        self.vectors = {}
        is_frozen = isinstance(model.encoder, ConvSimPretrainedModel)
        if is_frozen:
            freeze(model.encoder, self.vectors)
        self.base = Encoder(copy_model(model), tokenizer)
        self.base.model.name_or_path = str(arguments.initialize_from)
        if is_frozen:
            self._encode_texts()
        self.judge = self._given_judge or self.base
        if self._given_judge is None and isinstance(model.encoder, ConvSimPretrainedModel):
            replies = self.pairs["train"].shuffle(0)["response"][:QUERIES]
            self.judge = CenteredEncoder(self.base, replies)
        self._base, self._base_share = Interpolation(model), model.config.lexical_share
        if "validation" not in self.pairs:
            context = dataclasses.replace(context, arguments=arguments)
            pairs = self.pairs["train"]
            self.choice = CrossValidation(context, model, self.base, tasks, pairs, self.judge).run()
            self._start, self.context = self.choice.start, self.choice.context
            return arguments_of(arguments, self.choice.point)
        self._dev = _Dev(model, tokenizer, self.pairs["validation"])
        self.context = self._dev.context
        self._start = prepare_start(model, tokenizer, tasks[TASK].columns, self.pairs["train"])
        return arguments

    def evaluate(self, evaluator: ModelEvaluator, step: int) -> dict[str, Any]:
        """Rank replies on the first half of dev, by the best of the interpolated weights and lexical shares."""
        if self.choice:
            return {}
        queries, outcomes = self._dev.choosing, dict[Point, Ranks]()

        def measure(factor: float) -> None:
            ranks = rank_shares(self._dev.encoder(evaluator.model), queries, self._dev.shares, self.context.weights)
            outcomes.update({Point(step, factor, share): each for share, each in ranks.items()})

        if step:
            self._start.weights.evaluate(evaluator.model, measure)
        else:
            measure(0.0)
        point = max(outcomes, key=lambda point: outcomes[point].reciprocal_rank().mean())  # the first of the best
        return {TASK: summarize(outcomes[point], "dev", queries.threads), "point": point._asdict()}

    def finish(self, context: RunContext, evaluator: ModelEvaluator, progress: Progress) -> dict[str, Any]:
        """Give the model of the last or best checkpoint the chosen weights; return the part "adaptation" of results."""
        model = evaluator.model
        point = self.choice.point if self.choice else _best_point(context)
        self._apply(model, point)
        gain = self.choice.gain if self.choice else self._dev.measure_gain(model, model.config.lexical_share)
        if not gain.exceeds(TO_KEEP) and point:
            point = None
            self._apply(model, point)
        part = {
            "adapted": point is not None,
            "step": point.step if point else 0,
            "factor": point.factor if point else 0.0,
            "token_weights_adjusted": bool(point) and self._start.adjusted,
            "lexical_share": model.config.lexical_share,
            "measured_by": f"{FOLDS}-fold cross-validation" if self.choice else "dev",
            **gain.summarize(),
            "context_weights": list(self.context.weights),
            "context_gain": self.context.gain.summarize(),
        }
        logger.info("%s", _describe(part))
        unfreeze(model.encoder)
        return {"adaptation": part}

    def _encode_texts(self) -> None:
        """Encode all texts once, the longest part of training heads, with progress."""
        known = [pairs for name, pairs in self.pairs.items() if name != "test"]
        said = [text for pairs in known for turns in contexts_of(pairs) for text in turns]
        said += [text for pairs in known for text in pairs["input"]]
        self.base.encode(list(dict.fromkeys(said)), side="query", show_progress=True)
        replies = dict.fromkeys(text for pairs in known for text in pairs["response"])
        self.base.encode(list(replies), side="response", show_progress=True)

    def _apply(self, model: ConvSimForMultitask, point: Point | None) -> None:
        if point:
            self._start.weights.apply(model, point.factor)
        else:
            self._base.apply(model, 0.0)
        model.config.lexical_share = point.share if point else self._base_share
        model.config.context_weights = list(self.context.weights)


class _Dev:
    """The dev split: a half of its conversations chooses, the other one measures the gain."""

    def __init__(self, base: ConvSimForMultitask, tokenizer: PreTrainedTokenizerFast, pairs: Dataset) -> None:
        self._tokenizer = tokenizer
        self.choosing, self._measuring = halve(pairs)
        self.shares = shares_of(base)
        was_training = base.training
        encoder = self.encoder(base)
        choosing, measuring = (
            measure_context(score_by(encoder, queries.responses), queries)
            for queries in (self.choosing, self._measuring)
        )
        weights = choose_context([choosing]).weights
        self.context = ContextChoice(weights, [], gain_of([measuring], [weights or None]))
        self._base_ranks = self._rank(base, self._measuring, self.shares[0])
        base.train(was_training)

    def encoder(self, model: ConvSimForMultitask) -> Encoder:
        """An encoder of a model."""
        return Encoder(model, self._tokenizer)

    def measure_gain(self, model: ConvSimForMultitask, share: float) -> Gain:
        """The gain of a model over the base, on the conversations that did not choose."""
        adapted = self._rank(model, self._measuring, share)
        return Gain(self._measuring.threads, self._base_ranks, adapted)

    def _rank(self, model: ConvSimForMultitask, queries: Queries, share: float) -> Ranks:
        return rank_shares(self.encoder(model), queries, [share], self.context.weights)[share]


def halve(pairs: Dataset) -> tuple[Queries, Queries]:
    """The queries of two halves of the conversations of a dev split: those that choose, and those that measure."""
    threads = thread_numbers(pairs)
    is_choosing = threads % 2 == 0
    if min(is_choosing.sum(), (~is_choosing).sum()) < len(pairs) / 4:  # a long conversation
        is_choosing = np.arange(len(pairs)) < len(pairs) / 2
    choosing, measuring = (
        build_queries(pairs.select(np.flatnonzero(rows)), threads[rows]) for rows in (is_choosing, ~is_choosing)
    )
    return choosing, measuring


def _best_point(context: RunContext) -> Point:
    """The best point of the log, the start included: a resumed run finds the evaluations of its first steps there."""
    lines = (context.folder / METRICS).read_text(encoding="utf-8").splitlines()
    evaluations = [row["dev"] for row in map(json.loads, lines) if "dev" in row]
    best = max(evaluations, key=lambda dev: dev[TASK][MRR])
    return Point(**best["point"])


def _describe(part: Mapping[str, Any]) -> str:
    """The outcome in a sentence."""
    low, high = part["gain_interval"]
    measured = (
        f"P@1 {part['p_at_1']:.4f}, the base {part['base_p_at_1']:.4f}: {part['gain']:+.4f} [{low:+.4f}, {high:+.4f}], "
        f"{part['measured_by']}, {part['queries']:,} messages that did not choose"
    )
    if not part["adapted"]:
        return f"adapting did not help for certain; the result is the base ({measured})"
    if part["context_weights"]:
        low, high = part["context_gain"]["gain_interval"]
        gain = f"{part['context_gain']['gain']:+.4f} [{low:+.4f}, {high:+.4f}]"
        measured += f"; earlier turns, with the weights {', '.join(f'{each:g}' for each in part['context_weights'])}, "
        measured += f"add {gain} to P@1 of the base"
    changes = ["adjusted token weights"] * part["token_weights_adjusted"]
    changes += [f"lexical share {part['lexical_share']:g}"] * bool(part["lexical_share"])
    changes += [f"start + {part['factor']:g} (trained - start), step {part['step']}"] * bool(part["factor"])
    return f"adapted: {measured}; {', '.join(changes)}"


def split_pairs(data: RunData) -> None:
    """Complete a dev split that is too small; that of a few pairs is added to the training split, which is then
    cross-validated.
    """
    data.join_sources("pairs")
    train_pairs, splits = data.training["pairs"], data.evaluation["pairs"]
    held_out = [splits["validation"]] if "validation" in splits else []
    if len(train_pairs) + sum(map(len, held_out)) >= SMALL:
        complete_dev_split(data, ENOUGH)
        return
    data.training["pairs"] = concatenate_datasets([train_pairs, *held_out])
    data.evaluation["pairs"] = DatasetDict({name: rows for name, rows in splits.items() if name != "validation"})


def scale_schedule(arguments: Arguments, pairs: int) -> Arguments:
    """Return the arguments with a batch size and numbers of steps for a number of pairs; `max_steps` is kept if given.

    An epoch and a half is enough for many pairs; more than 150 steps are too many for a few.
    """
    batch_size = arguments.batch_size * (LARGE_BATCH if pairs > LARGE else 1)
    steps = arguments.max_steps or max(FEWEST_STEPS, math.ceil(EPOCHS * pairs / batch_size))
    eval_every = min(arguments.eval_every, math.ceil(steps / EVALUATIONS))
    return dataclasses.replace(arguments, batch_size=batch_size, max_steps=steps, eval_every=eval_every)
