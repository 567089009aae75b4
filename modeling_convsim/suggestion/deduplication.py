"""Merges variants of a reply, drops near-duplicates of better suggestions, and selects suggestions that differ."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import repeat
from types import MappingProxyType
from typing import NamedTuple

import numpy as np

# Marks that do not distinguish replies. "C++", "5%" and "-1" remain different from "C", "5" and "1".
MARKS = re.compile(r"""[.,;:!?"`´‘‚“”„«»‹›()\[\]{}¿¡…–—。、，！？_~]+|-(?!\d)""")


@dataclass(frozen=True)
class Variant:
    """A text of a reply, with the messages that it answered (the first one, if only that is kept)."""

    text: str
    count: int
    companions: list[str]


class Replies(NamedTuple):
    """The rows of an index: distinct replies, in the order of their first occurrence.

    With the messages that they answered, a reply has a row for each of these.
    """

    texts: list[str]
    counts: np.ndarray  # (rows,), int64: of the reply
    companions: list[str] | None = None  # the message that the reply answered, or the answer to the question
    variants: Mapping[str, list[Variant]] = MappingProxyType({})  # of the replies, by text, that have several

    def numbers(self) -> np.ndarray:
        """(rows,): the number of each row's reply, in the order of the replies."""
        number = {text: index for index, text in enumerate(dict.fromkeys(self.texts))}
        return np.fromiter((number[text] for text in self.texts), np.int64, count=len(self.texts))

    def select(self, rows: np.ndarray) -> "Replies":
        """Some of the rows."""
        texts, counts, companions, variants = self
        some = [companions[row] for row in rows] if companions else None
        return Replies([texts[row] for row in rows], counts[rows], some, variants)

    def row_keys(self) -> Iterable[tuple[str, str | None]]:
        """What distinguishes the rows: the text and the companion of each."""
        return zip(self.texts, self.companions or repeat(None), strict=False)


def canonical_form(text: str) -> str:
    """A key that is equal for texts that differ only in case, punctuation and white space; blank for blank texts."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    without_marks = MARKS.sub(" ", re.sub("['’]", "", folded))
    return " ".join(without_marks.split()) or " ".join(folded.split())


def deduplicate(texts: Iterable[str], companions: Iterable[str] | None = None, keep_all: bool = False) -> Replies:
    """Merges texts that have the same `canonical_form`; drops blank texts.

    The merged reply is the most frequent variant (the first of equally frequent ones). Its count is that of all
    variants; its companion is the first companion of that variant. With `keep_all`, it has a row for each companion of
    any variant.
    """
    return merge_variants(group_variants(texts, companions, keep_all).values(), companions is not None, keep_all)


def group_variants(texts: Iterable[str], companions: Iterable[str] | None, keep_all: bool) -> dict[str, list[Variant]]:
    """The variants of each reply, by their `canonical_form`, in the order of their first occurrence."""
    counts: Counter[str] = Counter()
    companions_of: dict[str, dict[str, None]] = {}
    if companions is None:
        counts.update(texts)
    else:
        for text, companion in zip(texts, companions, strict=True):
            counts[text] += 1
            if (known := companions_of.setdefault(text, {})) == {} or keep_all:
                known[companion] = None
    groups: dict[str, list[Variant]] = {}
    for text, count in counts.items():
        if key := canonical_form(text):
            groups.setdefault(key, []).append(Variant(text, count, list(companions_of.get(text, ()))))
    return groups


def merge_variants(groups: Iterable[list[Variant]], has_companions: bool, keep_all: bool) -> Replies:
    """Merges the variants of each reply: see `deduplicate`."""
    rows: list[tuple[str, int, str | None]] = []
    several: dict[str, list[Variant]] = {}
    for variants in groups:
        best, total = max(variants, key=lambda each: each.count).text, sum(each.count for each in variants)
        of_group = dict.fromkeys(one for each in variants if keep_all or each.text == best for one in each.companions)
        rows += [(best, total, companion) for companion in of_group] or [(best, total, None)]
        if len(variants) > 1:
            several[best] = variants
    merged, totals, kept = map(list, zip(*rows, strict=True)) if rows else ([], [], [])
    return Replies(merged, np.array(totals, np.int64), kept if has_companions else None, several)


def ungroup(replies: Replies) -> dict[str, list[Variant]]:
    """The input of `merge_variants` that gives these replies, by `canonical_form`."""
    texts, counts, companions, several = replies
    groups: dict[str, list[Variant]] = {}
    for row, text in enumerate(texts):
        if text not in groups:
            groups[text] = several.get(text) or [Variant(text, int(counts[row]), [])]
        if companions and text not in several:
            groups[text][0].companions.append(companions[row])
    return {canonical_form(text): variants for text, variants in groups.items()}


def add_variants(known: list[Variant], new: list[Variant], keep_all: bool) -> list[Variant]:
    """The variants of a reply after others were added to them."""
    joined = {each.text: each for each in known}
    for each in new:
        if before := joined.get(each.text):
            both = list(dict.fromkeys([*before.companions, *each.companions])) if keep_all else before.companions
            each = Variant(each.text, before.count + each.count, both)
        joined[each.text] = each
    return list(joined.values())


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
