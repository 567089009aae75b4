"""What an index of known replies suggests for held-out messages, beside what others would suggest from the same log."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from datasets import Dataset

from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.calibration import RIGHT_COSINE, Judge, text_cosines
from modeling_convsim.suggestion.deduplication import canonical_form
from trainer.adapt.context import add_turns, score_by
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.baselines import BASELINES
from trainer.evaluation.response_prediction import contexts_of


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
    """The parts of a score beside the model's: see `ReplyIndex`.

    An infinite weight of messages is that of the messages alone.
    """

    message: float
    consensus: float


CHOICES = tuple(Weights(message, consensus) for consensus in (0.0, 1.0) for message in (0.0, 0.25, 0.5, 1.0, 2.0))
BY_REPLIES, BY_MESSAGES = Weights(0.0, 0.0), Weights(np.inf, 0.0)
ALONE = 1e4  # a weight with which the replies' own scores do not matter


@dataclass(frozen=True)
class Suggested:
    """The best suggestion for each held-out message.

    Attributes:
        texts: the suggestions; "" for none.
        scores: (messages,), their scores.
        cosines: (messages,), those of suggestion and real reply: see `text_cosines`.
    """

    texts: list[str]
    scores: np.ndarray
    cosines: np.ndarray

    @property
    def are_right(self) -> np.ndarray:
        """(messages,): whether the suggestion answers to the same effect as the real reply."""
        return self.cosines >= RIGHT_COSINE

    @classmethod
    def join(cls, parts: Sequence["Suggested"]) -> "Suggested":
        """The suggestions for the messages of several parts."""
        scores, cosines = (np.concatenate([getattr(part, name) for part in parts]) for name in ("scores", "cosines"))
        return cls([text for part in parts for text in part.texts], scores, cosines)


def suggest_by_weights(
    index: ReplyIndex, pairs: Dataset, judge: Judge, choices: Sequence[Weights] = CHOICES
) -> dict[Weights, Suggested]:
    """The suggestions of an index for the messages of held-out pairs with each of some weights; its own ones stay."""
    own, suggested = (index.message_weight, index.consensus_weight), {}
    for weights in choices:
        index.message_weight = ALONE if weights.message == np.inf else weights.message
        index.consensus_weight = weights.consensus
        texts, scores = index.best_suggestions(pairs["input"][:], contexts=contexts_of(pairs))
        suggested[weights] = Suggested(texts, scores, text_cosines(judge, texts, pairs["response"][:]))
    index.message_weight, index.consensus_weight = own
    return suggested


def choose_weights(suggested: Mapping[Weights, Suggested]) -> Weights:
    """The weights whose suggestions are most like the real replies; of equal ones, the first of `CHOICES`."""
    return max(CHOICES, key=lambda weights: suggested[weights].cosines.mean())


def rival_suggestions(
    encoders: Mapping[str, SentenceEncoder],
    known: Dataset,
    unknown: Dataset,
    turns: Mapping[str, Sequence[float]] | None = None,
) -> dict[str, list[str]]:
    """The suggestions of others, by the name of the system and of what it compares the message with.

    "replies": the reply that scores highest for the message; "messages": the reply to the most similar known message.

    Args:
        encoders: the systems besides the baselines.
        known: the pairs whose replies are suggested.
        unknown: the held-out pairs.
        turns: by system, the weights of earlier turns in the scores of replies; by default none.
    """
    messages, contexts = unknown["input"][:], contexts_of(unknown)
    inputs, replies = known["input"][:], known["response"][:]
    scores, systems = {}, dict[str, SentenceEncoder | str]({**encoders, **{name: name for name in BASELINES}})
    for name, system in systems.items():
        weights = tuple(turns[name]) if turns else ()
        [scores[f"{name}, replies"]] = add_turns(score_by(system, replies), messages, contexts, [weights])
        if isinstance(system, str):
            scores[f"{name}, messages"] = score_by(system, inputs)(messages)
        else:
            scores[f"{name}, messages"] = system.encode(messages, side="input") @ system.encode(inputs, side="input").T
    said = [
        {canonical_form(turn) for turn in (message, *context)}
        for message, context in zip(messages, contexts, strict=True)
    ]
    forms = [canonical_form(reply) for reply in replies]
    is_said = np.array([[form in each for form in forms] for each in said])
    return {
        name: [replies[row] for row in np.where(is_said, -np.inf, each).argmax(axis=1)] for name, each in scores.items()
    }


def token_f1(texts: Sequence[str], others: Sequence[str]) -> np.ndarray:
    """(texts,): the F1 of the words of each text as a prediction of those of the other one, with repetitions."""
    values = []
    for text, other in zip(texts, others, strict=True):
        first, second = (Counter(canonical_form(each).split()) for each in (text, other))
        values.append(2 * (first & second).total() / max(first.total() + second.total(), 1))
    return np.array(values)
