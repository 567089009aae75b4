"""Merges variants of a reply, drops near-duplicates of better suggestions, and selects suggestions that differ."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

# Marks that do not distinguish replies. "C++", "5%" and "-1" remain different from "C", "5" and "1".
MARKS = re.compile(r"""[.,;:!?"`´‘‚“”„«»‹›()\[\]{}¿¡…–—。、，！？_~]+|-(?!\d)""")


class Replies(NamedTuple):
    """Distinct replies, in the order of their first occurrence."""

    texts: list[str]
    counts: np.ndarray  # (replies,), int64
    companions: list[str] | None = None  # the message that each reply answered, or the answer to each question


@dataclass
class _Group:
    """The variants of a reply."""

    text: str  # the most frequent variant
    highest: int  # occurrences of that variant
    total: int  # occurrences of all variants


def canonical_form(text: str) -> str:
    """A key that is equal for texts that differ only in case, punctuation and white space; blank for blank texts."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    without_marks = MARKS.sub(" ", re.sub("['’]", "", folded))
    return " ".join(without_marks.split()) or " ".join(folded.split())


def deduplicate(texts: Iterable[str], companions: Iterable[str] | None = None) -> Replies:
    """Merges texts that have the same `canonical_form`; drops blank texts.

    The merged reply is the most frequent variant (the first of equally frequent ones). Its count is that of all
    variants; its companion is the first companion of that variant.
    """
    occurrences: Counter[str] = Counter()
    first: dict[str, str] = {}
    if companions is None:
        occurrences.update(texts)
    else:
        for text, companion in zip(texts, companions, strict=True):
            occurrences[text] += 1
            first.setdefault(text, companion)
    groups: dict[str, _Group] = {}
    for text, count in occurrences.items():
        if key := canonical_form(text):
            group = groups.setdefault(key, _Group(text, 0, 0))
            group.total += count
            if count > group.highest:
                group.text, group.highest = text, count
    distinct = [group.text for group in groups.values()]
    counts = np.fromiter((group.total for group in groups.values()), np.int64, count=len(groups))
    return Replies(distinct, counts, None if companions is None else [first[text] for text in distinct])


def drop_near_duplicates(embeddings: np.ndarray, max_cosine: float) -> list[int]:
    """Drops each embedding that is too similar to an earlier one; returns the positions of the remaining ones.

    Args:
        embeddings: (texts, dimensions), L2-normalized, best first.
        max_cosine: Embeddings with this cosine or more are near-duplicates.
    """
    is_near = embeddings @ embeddings.T >= max_cosine  # (texts, texts)
    remaining: list[int] = []
    for position in range(len(embeddings)):
        if not is_near[position, remaining].any():
            remaining.append(position)
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
