"""Two adapted models as one: the share of the second one in the score is chosen on held-out messages.

Models that learned from different texts make different mistakes, so that the mean of their scores ranks replies better
than either.
"""

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from datasets import Dataset

from modeling_convsim.encoding import Encoder, JointEncoder
from modeling_convsim.suggestion import ReplyIndex
from trainer.adapt.adaptation import Adapted, halve
from trainer.adapt.cross_validation import Choice
from trainer.adapt.selection import TO_KEEP, Gain, Measured, choose, cross_choose, gain_of
from trainer.adapt.suggestions import Suggested, choose_weights, suggest_by_weights
from trainer.data.dev_split import thread_numbers
from trainer.evaluation.ranking import Queries, build_queries, rank, score

SHARES = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8)


@dataclass(frozen=True)
class Joint:
    """Two adapted models.

    Attributes:
        encoder: both as one.
        choice: as of the first model, with the ranks and suggestions of both; None for pairs with a dev split.
        gain: over the first model alone, on messages that did not choose the share.
    """

    encoder: JointEncoder
    choice: Choice | None
    gain: Gain

    def summarize(self) -> dict[str, Any]:
        """The part of results.json."""
        return {"share": self.encoder.share, **self.gain.summarize()}


def join(first: Adapted, second: Adapted, folders: tuple[Path, Path]) -> Joint | None:
    """Join two models that were adapted to the same pairs; None if that does not help for certain.

    Args:
        first: one of them.
        second: the other one.
        folders: where both models were saved.
    """
    if first.choice is None or second.choice is None:
        models = _open(first, second, folders)
        choosing, measuring = (_measure(*models, queries) for queries in halve(first.pairs["validation"]))
        share = choose([choosing])
        gain = gain_of([measuring], [share])
    else:
        folds = [_measure(*models, queries) for models, queries in _folds(first, second)]
        share, gain = choose(folds), cross_choose(folds)
    if share is None or not gain.exceeds(TO_KEEP):
        return None
    choice = first.choice and _suggest(first, second, share, gain)
    return Joint(JointEncoder(*_open(first, second, folders), share), choice, gain)


def _open(first: Adapted, second: Adapted, folders: tuple[Path, Path]) -> tuple[Encoder, Encoder]:
    return first.open(folders[0]), second.open(folders[1])


def _folds(first: Adapted, second: Adapted) -> Iterator[tuple[tuple[Encoder, Encoder], Queries]]:
    """Both models of each fold, and its messages."""
    assert first.choice and second.choice
    pairs = first.pairs["train"]
    threads = thread_numbers(pairs)
    for rows, one, other in zip(first.choice.held_out, first.choice.models, second.choice.models, strict=True):
        yield (one.open(first.base), other.open(second.base)), build_queries(pairs.select(rows), threads[rows])


def _measure(one: Encoder, other: Encoder, queries: Queries) -> Measured[float]:
    """The ranks with each share of the second model, and, as the base, those of the first one."""
    scores, others = (score(each, queries, each.model.config.context_weights) for each in (one, other))
    ranks = {share: rank(queries, (1 - share) * scores + share * others) for share in SHARES}
    return Measured(queries.threads, rank(queries, scores), ranks)


def _suggest(first: Adapted, second: Adapted, share: float, gain: Gain) -> Choice:
    """The choice of the first model, with the ranks and suggestions of both."""
    assert first.choice
    pairs, outcomes = first.pairs["train"], []
    for (models, _), rows in zip(_folds(first, second), first.choice.held_out, strict=True):
        known, unknown = _others(pairs, rows), pairs.select(rows)
        index = ReplyIndex.build(JointEncoder(*models, share), known["response"], known["input"])
        outcomes.append(suggest_by_weights(index, unknown, first.judge))
    suggested = {weights: Suggested.join([each[weights] for each in outcomes]) for weights in outcomes[0]}
    of_both = Gain(gain.threads, first.choice.gain.base, gain.adapted)
    return dataclasses.replace(first.choice, gain=of_both, suggested=suggested, weights=choose_weights(suggested))


def _others(pairs: Dataset, rows: np.ndarray) -> Dataset:
    return pairs.select(np.setdiff1d(np.arange(len(pairs)), rows))
