"""Estimates whether suggestions for held-out messages could be sent, by the real replies to these messages."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from modeling_convsim.suggestion.deduplication import canonical_form
from modeling_convsim.suggestion.probability import FEWEST, Curve
from modeling_convsim.suggestion.ratings import MAX_TEXT, MAX_TURNS, HeldOut, Shown
from modeling_convsim.suggestion.reply_index import ReplyIndex, Suggestion

REVIEWED = 200  # messages
MEASURED, FOLDS = 2_000, 5  # messages
RECURRING = 2_000  # replies that are compared with each other
# Fitted to 1,320 suggestions that were read: `python -m tests.benchmarks.readings`.
CONSTANT, COSINE, RECURRENCE = -6.21, 4.48, 6.76
# Of each log, by the estimate that was fitted to the other logs.
ACCURACY = (
    "the estimate minus the readers' ratings of first suggestions: shop -.10, support +.01, technical chat -.03, "
    "everyday dialogs +.09"
)


class Pairs(NamedTuple):
    """Held-out messages, the real replies to them, and the earlier turns, the newest first."""

    messages: list[str]
    replies: list[str]
    contexts: list[list[str]]


class Estimator:
    """Estimates the probability that a suggestion could be sent, as it is or after a small edit.

    The log odds are a weighted sum of two cosines: that of the response vectors of the suggestion and the real reply,
    and that of replies of the log with those most like them (`recurrence`). Where replies recur, many that are unlike
    the real one could be sent as well.
    """

    def __init__(self, judge: Any, replies: Sequence[str]) -> None:
        """Takes the encoder that compares texts, and the replies of a log, including repeated ones."""
        self._judge, self.recurrence = judge, recurrence(judge, replies)

    def chances(self, suggestions: Sequence[Sequence[str]], replies: Sequence[str]) -> list[np.ndarray]:
        """The probabilities of the suggestions for each message, whose real replies are given."""
        texts = [text for each in suggestions for text in each]
        real = [reply for reply, each in zip(replies, suggestions, strict=True) for _ in each]
        cosines = (self._judge.encode(texts, side="response") * self._judge.encode(real, side="response")).sum(axis=1)
        chances = 1 / (1 + np.exp(-(CONSTANT + COSINE * cosines + RECURRENCE * self.recurrence)))
        return np.split(chances, np.cumsum(list(map(len, suggestions)))[:-1])


def recurrence(judge: Any, replies: Sequence[str]) -> float:
    """How much replies recur: the mean cosine of a reply with the hundredth of the other ones that is most like it."""
    rows = np.random.default_rng(0).permutation(len(replies))[:RECURRING]
    vectors = judge.encode([replies[row] for row in rows])
    cosines, count = vectors @ vectors.T, max(1, round(len(rows) / 100))
    np.fill_diagonal(cosines, -1)
    return float(np.partition(cosines, -count, axis=1)[:, -count:].mean())


def one_of(chances: Sequence[np.ndarray]) -> np.ndarray:
    """(messages,): the estimated probability that one of the suggestions for a message could be sent.

    It is halfway between that of the most probable one and that of independent ones.
    """
    return np.array([(each.max(initial=0.0) + 1 - np.prod(1 - each)) / 2 for each in chances])


def fit_curve(suggestions: Sequence[Sequence[Suggestion]], chances: Sequence[np.ndarray]) -> Curve | None:
    """The curve of estimated probabilities; None for fewer than 20 messages."""
    if len(suggestions) < FEWEST:
        return None
    scores = np.array([one.score for each in suggestions for one in each])
    return Curve.fit(scores, np.concatenate(chances), estimated=True)


def make_review(suggestions: Sequence[Sequence[Suggestion]], pairs: Pairs) -> list[HeldOut]:
    """Up to 200 held-out messages with their suggestions, in random order (seed 0), of texts that ratings may have."""

    def can_be_rated(row: int) -> bool:
        texts = [pairs.messages[row], *pairs.contexts[row], *(each.text for each in suggestions[row])]
        turns = len(pairs.contexts[row])
        return len(texts) > 1 + turns <= 1 + MAX_TURNS and all(0 < len(text) <= MAX_TEXT for text in texts)

    rows = [row for row in np.random.default_rng(0).permutation(len(suggestions)) if can_be_rated(row)][:REVIEWED]
    return [
        HeldOut(
            pairs.messages[row],
            pairs.contexts[row],
            pairs.replies[row],
            [Shown(each.text, each.score) for each in suggestions[row]],
        )
        for row in rows
    ]


def review_pairs(index: ReplyIndex) -> None:
    """Estimates the probabilities of an index that nothing was trained for, and gives it a review.

    Up to 2,000 messages are held out, a fifth of all at a time: the others answer them. Fewer than 20 say too little.
    """
    texts, messages = index.replies.texts, index.replies.messages
    if messages is None:
        return
    _, first, forms = np.unique(list(map(canonical_form, messages)), return_index=True, return_inverse=True)
    if len(first) < FEWEST:
        return
    pairs, suggestions = Pairs([], [], []), list[list[Suggestion]]()
    for chosen in np.array_split(np.random.default_rng(0).permutation(len(first)), FOLDS):
        known, rows = index.select(np.flatnonzero(~np.isin(forms, chosen))), first[chosen[: MEASURED // FOLDS]]
        suggestions += known.suggest_many([messages[row] for row in rows], show_progress=True)
        pairs.messages.extend(messages[row] for row in rows)
        pairs.replies.extend(texts[row] for row in rows)
        pairs.contexts.extend([] for _ in rows)
    suggested = [[one.text for one in each] for each in suggestions]
    chances = Estimator(index.encoder, texts).chances(suggested, pairs.replies)
    index.settings = replace(index.settings, curve=fit_curve(suggestions, chances))
    index.review = make_review(suggestions, pairs)
