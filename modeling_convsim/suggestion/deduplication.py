"""Merges variants of a reply, compares the best replies with each other, and selects suggestions that differ."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

# Marks that do not distinguish replies. "C++", "5%" and "-1" remain different from "C", "5" and "1".
MARKS = re.compile(r"""[.,;:!?"`´‘‚“”„«»‹›()\[\]{}¿¡…–—。、，！？_~]+|-(?!\d)""")

INVISIBLE = re.compile("[\u00ad\u200b\u2060\ufeff]")
NO_ANSWER = frozenset({"n/a", "#n/a", "nan", "null", "tbd"})  # in the cells of a table
PEERS = 20  # best rows that the real reply is expected among
TEMPERATURE = 0.1  # of the softmax of scores that gives their probabilities


class Replies(NamedTuple):
    """The rows of an index: distinct replies, in the order of their first occurrence.

    With the messages that they answered, a reply has a row for each of these.
    """

    texts: list[str]
    counts: np.ndarray  # (rows,), int64: of the reply
    messages: list[str] | None = None  # those that the replies answered
    blank: int = 0  # replies that were dropped

    def select(self, rows: np.ndarray) -> "Replies":
        """Some of the rows."""
        messages = [self.messages[row] for row in rows] if self.messages else None
        return Replies([self.texts[row] for row in rows], self.counts[rows], messages)


def number_texts(texts: list[str]) -> tuple[list[str], np.ndarray]:
    """The distinct texts, in the order of their first occurrence, and the number of each text among them: (texts,)."""
    number = {text: index for index, text in enumerate(dict.fromkeys(texts))}
    return list(number), np.fromiter((number[text] for text in texts), np.int64, count=len(texts))


def canonical_form(text: str) -> str:
    """A key that is equal for texts that differ only in case, punctuation and white space; blank for blank texts."""
    folded = INVISIBLE.sub("", unicodedata.normalize("NFKC", text).casefold())
    without_marks = MARKS.sub(" ", re.sub("['’]", "", folded))
    return " ".join(without_marks.split()) or " ".join(folded.split())


def is_answer(text: str) -> bool:
    """Whether a text is an answer of an FAQ, and not a mark of an empty cell, such as "-" or "N/A"."""
    form = canonical_form(text)
    return form not in NO_ANSWER and any(unicodedata.category(each)[0] not in "CPZ" for each in form)


def deduplicate(replies: Iterable[str], messages: Iterable[str] | None = None, keep_all: bool = False) -> Replies:
    """Merges variants of a reply, which have the same `canonical_form`; drops blank replies.

    The merged reply is the most frequent variant (the first of equally frequent ones). Its count is that of all
    variants; its message is the first one that this variant answered. With `keep_all`, it has a row for each message
    that any variant answered.
    """
    counts: Counter[str] = Counter()
    answered: dict[str, dict[str, None]] = {}
    if messages is None:
        counts.update(replies)
    else:
        for reply, message in zip(replies, messages, strict=True):
            counts[reply] += 1
            if (known := answered.setdefault(reply, {})) == {} or keep_all:
                known[message] = None
    groups: dict[str, list[str]] = {}
    for reply in counts:
        groups.setdefault(canonical_form(reply), []).append(reply)
    blank = sum(counts[reply] for reply in groups.pop("", ()))
    rows: list[tuple[str, int, str | None]] = []
    for variants in groups.values():
        best, total = max(variants, key=counts.__getitem__), sum(counts[each] for each in variants)
        kept = variants if keep_all else [best]
        of_group = dict.fromkeys(message for each in kept for message in answered.get(each, ()))
        rows += [(best, total, message) for message in of_group] or [(best, total, None)]
    merged, totals, of_rows = map(list, zip(*rows, strict=True)) if rows else ([], [], [])
    return Replies(merged, np.array(totals, np.int64), None if messages is None else of_rows, blank)


def agreement(scores: np.ndarray, is_allowed: np.ndarray, embeddings: np.ndarray) -> np.ndarray:
    """How far a reply agrees with the other good replies: (queries, rows), -1 to 1; 0 if no row is allowed.

    Where many of the best replies say the same in other words, that is probably the answer; a reply that stands alone
    is less likely to be right. So this is the expected cosine of a reply with the real one, as if the real one were one
    of the best replies, each with a probability that grows with its score: minimum Bayes risk (Kumar and Byrne, 2004).

    Args:
        scores: (queries, rows), best first.
        is_allowed: (queries, rows): whether the row's reply may be suggested.
        embeddings: (queries, rows, dimensions), L2-normalized, of the replies.
    """
    is_peer = is_allowed & (np.cumsum(is_allowed, axis=1) <= PEERS)
    best = np.where(is_peer, scores, -np.inf).max(axis=1, keepdims=True)
    weights = np.where(is_peer, np.exp((scores - np.where(np.isfinite(best), best, 0)) / TEMPERATURE), 0)
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-12)
    expected = np.einsum("qr,qrd->qd", weights, embeddings)
    return np.einsum("qrd,qd->qr", embeddings, expected)


def drop_near_duplicates(embeddings: np.ndarray, max_cosine: float, most: int) -> list[int]:
    """Drops each embedding that is too similar to an earlier one; returns the positions of the first remaining ones.

    Args:
        embeddings: (texts, dimensions), L2-normalized, best first.
        max_cosine: Embeddings with this cosine or more are near-duplicates.
        most: The largest number of positions.
    """
    remaining: list[int] = []
    left = np.arange(len(embeddings))
    while len(left) and len(remaining) < most:
        remaining.append(int(left[0]))
        left = left[1:][embeddings[left[1:]] @ embeddings[left[0]] < max_cosine]
    return remaining


def select_diverse(scores: np.ndarray, embeddings: np.ndarray, count: int, diversity: float) -> list[int]:
    """Selects texts that are relevant and differ: maximal marginal relevance (Carbonell and Goldstein, 1998).

    The best text is first. Each further one has the highest (1 - diversity) relevance - diversity similarity: relevance
    is the score, scaled to [0, 1] over the texts, and similarity the highest cosine with a text selected before.

    Args:
        scores: (texts,), best first.
        embeddings: (texts, dimensions), L2-normalized.
        count: Maximum number of texts to select.
        diversity: 0 (the best scores) to 1.

    Returns:
        Positions of the selected texts, in the order of their selection.
    """
    if diversity == 0 or len(scores) < 2:
        return list(range(min(count, len(scores))))
    relevance = (scores - scores[-1]) / max(float(scores[0] - scores[-1]), 1e-12)  # (texts,)
    selected, similarity = [0], embeddings @ embeddings[0]  # (texts,)
    while len(selected) < min(count, len(scores)):
        values = (1 - diversity) * relevance - diversity * similarity
        values[selected] = -np.inf
        selected.append(int(values.argmax()))
        similarity = np.maximum(similarity, embeddings @ embeddings[selected[-1]])
    return selected
