"""What an index of known replies suggests for held-out messages, and the weights with which that is best."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from datasets import Dataset

from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.calibration import Judge, text_cosines
from trainer.adapt.cross_validation import Trial
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.ranking import contexts_of

MOST_MESSAGES = 5_000  # held-out ones


class CenteredEncoder:
    """The vectors of an encoder without what all texts of a log have in common, L2-normalized again.

    Some encoders give any two texts a cosine of .7 or more, so that `RIGHT_COSINE` would be reached by all.
    """

    def __init__(self, encoder: SentenceEncoder, texts: Sequence[str]) -> None:
        """Takes an encoder and a sample of the texts."""
        self._encoder, self._mean = encoder, encoder.encode(texts).mean(axis=0)

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """Vectors (texts, dimensions)."""
        vectors = self._encoder.encode(texts) - self._mean
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


class Weights(NamedTuple):
    """The parts of a score beside the model's: see `ReplyIndex`."""

    message: float
    consensus: float


CHOICES = tuple(Weights(message, consensus) for consensus in (0.0, 1.0) for message in (0.0, 0.25, 0.5, 1.0, 2.0))


class Suggested(NamedTuple):
    """The best suggestion for each held-out message.

    Attributes:
        scores: (messages,), their scores.
        cosines: (messages,), those of suggestion and real reply: see `text_cosines`.
    """

    scores: np.ndarray
    cosines: np.ndarray


def suggest_by_weights(index: ReplyIndex, pairs: Dataset, judge: Judge) -> dict[Weights, Suggested]:
    """The suggestions of an index for the messages of held-out pairs with each of `CHOICES`; its own weights stay."""
    own, suggested = index.settings, {}
    for weights in CHOICES:
        index.settings = replace(own, message_weight=weights.message, consensus_weight=weights.consensus)
        texts, scores = index.best_suggestions(pairs["input"][:], contexts=contexts_of(pairs))
        suggested[weights] = Suggested(scores, text_cosines(judge, texts, pairs["response"][:]))
    index.settings = own
    return suggested


def suggest_held_out(trials: Sequence[Trial], encoders: Sequence[Encoder], judge: Judge) -> dict[Weights, Suggested]:
    """The suggestions for the held-out messages of each trial, from the replies it trained on, by its encoder."""
    parts = []
    for trial, encoder in zip(trials, encoders, strict=True):
        index = ReplyIndex.build(encoder, trial.known["response"][:], trial.known["input"][:])
        rows = np.random.default_rng(0).permutation(len(trial.held_out))[:MOST_MESSAGES]
        parts.append(suggest_by_weights(index, trial.held_out.select(np.sort(rows)), judge))
    return {
        weights: Suggested(*map(np.concatenate, zip(*(part[weights] for part in parts), strict=True)))
        for weights in CHOICES
    }


def choose_weights(suggested: Mapping[Weights, Suggested]) -> Weights:
    """The weights whose suggestions are most like the real replies; of equal ones, the first of `CHOICES`."""
    return max(CHOICES, key=lambda weights: suggested[weights].cosines.mean())
