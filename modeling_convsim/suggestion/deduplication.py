"""Merges variants of a reply, and drops suggestions that are near-duplicates of better ones."""

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
    answers: list[str] | None = None


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


def deduplicate(texts: Iterable[str], answers: Iterable[str] | None = None) -> Replies:
    """Merges texts that have the same `canonical_form`; drops blank texts.

    The merged reply is the most frequent variant (the first of equally frequent ones). Its count is that of all
    variants; its answer is the first answer of that variant.
    """
    occurrences: Counter[str] = Counter()
    first_answers: dict[str, str] = {}
    if answers is None:
        occurrences.update(texts)
    else:
        for text, answer in zip(texts, answers, strict=True):
            occurrences[text] += 1
            first_answers.setdefault(text, answer)
    groups: dict[str, _Group] = {}
    for text, count in occurrences.items():
        if key := canonical_form(text):
            group = groups.setdefault(key, _Group(text, 0, 0))
            group.total += count
            if count > group.highest:
                group.text, group.highest = text, count
    distinct = [group.text for group in groups.values()]
    counts = np.fromiter((group.total for group in groups.values()), np.int64, count=len(groups))
    return Replies(distinct, counts, None if answers is None else [first_answers[text] for text in distinct])


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
