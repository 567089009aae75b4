"""Selects the weights of an index on held-out messages, and estimates the quality of its suggestions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import NamedTuple

import numpy as np
from datasets import Dataset

from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.deduplication import canonical_form
from modeling_convsim.suggestion.estimate import Estimator, Pairs, one_of
from modeling_convsim.suggestion.reply_index import Suggestion
from trainer.adapt.cross_validation import Trial
from trainer.data.datasets import thread_numbers
from trainer.encoders.protocol import SentenceEncoder, Side
from trainer.evaluation.ranking import contexts_of

SHOWN = 3  # suggestions per message
MOST_MESSAGES, MOST_KNOWN = 2_000, 20_000  # maximum of held-out messages, and of pairs in the index, per trial


class CenteredEncoder:
    """The centered and L2-normalized vectors of an encoder.

    With some encoders, the cosine of any two texts is .7 or more.
    """

    def __init__(self, encoder: SentenceEncoder, texts: Sequence[str]) -> None:
        """Takes an encoder and a sample of the texts."""
        self._encoder, self._mean = encoder, encoder.encode(texts).mean(axis=0)

    def encode(self, texts: Iterable[str], side: Side = "input") -> np.ndarray:
        """Vectors (texts, dimensions), the same for each side."""
        vectors = self._encoder.encode(texts) - self._mean
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


class Weights(NamedTuple):
    """The settings of an index: see `ReplyIndex`."""

    message: float
    consensus: float
    diversity: float


MESSAGE_WEIGHTS, CONSENSUS_WEIGHTS, DIVERSITIES = (0.0, 0.25, 0.5, 1.0, 2.0), (0.0, 1.0), (0.0, 0.2, 0.4)


@dataclass(frozen=True)
class Part:
    """Some held-out messages of a trial.

    Attributes:
        index: The index of the trial's training pairs, or of a sample of them, with its encoder.
        pairs: The messages with their replies.
        threads: (messages,), the numbers of their conversations.
    """

    index: ReplyIndex
    pairs: Pairs
    threads: np.ndarray

    def suggest(self, weights: Weights) -> list[list[Suggestion]]:
        """The suggestions with some weights."""
        message, consensus, diversity = weights
        self.index.settings = replace(
            self.index.settings, message_weight=message, consensus_weight=consensus, diversity=diversity
        )
        return self.index.suggest_many(self.pairs.messages, SHOWN, self.pairs.contexts)


@dataclass(frozen=True)
class Suggested:
    """The suggestions for held-out messages not used for selection.

    Attributes:
        parts: The messages.
        weights: The weights, selected on other messages.
        suggestions: The suggestions for each message.
        chances: The estimated probabilities of the suggestions for each message.
    """

    parts: list[Part]
    weights: Weights
    suggestions: list[list[Suggestion]]
    chances: list[np.ndarray]

    @property
    def pairs(self) -> Pairs:
        """The messages of all parts with their replies."""
        return Pairs(
            *(list(chain.from_iterable(each)) for each in zip(*(part.pairs for part in self.parts), strict=True))
        )

    @property
    def threads(self) -> np.ndarray:
        """(messages,), the numbers of their conversations."""
        return np.concatenate([part.threads for part in self.parts])


def suggest_held_out(trials: Sequence[Trial], encoders: Sequence[Encoder], estimator: Estimator) -> Suggested:
    """Select the weights for which most messages have a suggestion that could be sent, and measure with them.

    One half of the conversations is used for selection, the other half for measuring.

    Args:
        trials: The trials with held-out pairs.
        encoders: The encoder of each trial.
        estimator: Estimates whether a suggestion could be sent.
    """
    choosing, measuring = zip(*map(_divide, trials, encoders), strict=True)

    def estimated(part: Part, suggestions: list[list[Suggestion]]) -> list[np.ndarray]:
        return estimator.chances([[one.text for one in each] for each in suggestions], part.pairs.replies)

    def value(weights: Weights) -> float:
        return float(np.concatenate([one_of(estimated(part, part.suggest(weights))) for part in choosing]).mean())

    weights = max((Weights(*each, 0.0) for each in product(MESSAGE_WEIGHTS, CONSENSUS_WEIGHTS)), key=value)
    weights = max((weights._replace(diversity=each) for each in DIVERSITIES), key=value)
    suggestions = [part.suggest(weights) for part in measuring]
    chances = [estimated(*each) for each in zip(measuring, suggestions, strict=True)]
    return Suggested(list(measuring), weights, list(chain(*suggestions)), list(chain(*chances)))


def _divide(trial: Trial, encoder: Encoder) -> tuple[Part, Part]:
    """The held-out messages of a trial for selection, and those for measuring."""
    known, held_out = _sample(trial.known, MOST_KNOWN), _sample(trial.held_out, MOST_MESSAGES)
    index = ReplyIndex.build(encoder, known["response"][:], known["input"][:])
    threads = thread_numbers(held_out)
    chooses = threads % 2 == 0
    if chooses.all() or not chooses.any():  # one conversation
        chooses = np.arange(len(threads)) % 2 == 0
    first, second = (
        Part(index, Pairs(some["input"][:], some["response"][:], contexts_of(some)), threads[rows])
        for rows in (np.flatnonzero(chooses), np.flatnonzero(~chooses))
        for some in [held_out.select(rows)]
    )
    return first, second


def _sample(pairs: Dataset, most: int) -> Dataset:
    return pairs.select(np.sort(np.random.default_rng(0).permutation(len(pairs))[:most]))


def best_replies(scores: np.ndarray, replies: Sequence[str], pairs: Pairs) -> list[list[str]]:
    """The three distinct replies with the highest scores (messages, replies) that are not in the conversation yet."""
    forms, best = list(map(canonical_form, replies)), []
    for row, message, context in zip(scores, pairs.messages, pairs.contexts, strict=True):
        taken, texts = set(map(canonical_form, (message, *context))), list[str]()
        for reply in np.argsort(-row, kind="stable"):
            if len(texts) == SHOWN:
                break
            if forms[reply] not in taken:
                taken.add(forms[reply])
                texts.append(replies[reply])
        best.append(texts)
    return best
