"""Merges variants of a reply, drops near-duplicates of better suggestions, and selects suggestions that differ."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

# Marks that do not distinguish replies. "C++", "5%" and "-1" remain different from "C", "5" and "1".
MARKS = re.compile(r"""[.,;:!?"`´‘‚“”„«»‹›()\[\]{}¿¡…–—。、，！？_~]+|-(?!\d)""")


class Replies(NamedTuple):
    """The rows of an index: distinct replies, in the order of their first occurrence.

    With the messages that they answered, a reply has a row for each of these.
    """

    texts: list[str]
    counts: np.ndarray  # (rows,), int64: of the reply
    companions: list[str] | None = None  # the message that the reply answered, or the answer to the question

    def numbers(self) -> np.ndarray:
        """(rows,): the number of each row's reply, in the order of the replies."""
        number = {text: index for index, text in enumerate(dict.fromkeys(self.texts))}
        return np.fromiter((number[text] for text in self.texts), np.int64, count=len(self.texts))


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
    counts: Counter[str] = Counter()
    companions_of: dict[str, dict[str, None]] = {}
    if companions is None:
        counts.update(texts)
    else:
        for text, companion in zip(texts, companions, strict=True):
            counts[text] += 1
            if (known := companions_of.setdefault(text, {})) == {} or keep_all:
                known[companion] = None
    groups: dict[str, list[str]] = {}
    for text in counts:
        if key := canonical_form(text):
            groups.setdefault(key, []).append(text)
    rows: list[tuple[str, int, str | None]] = []
    for variants in groups.values():
        best, total = max(variants, key=counts.__getitem__), sum(map(counts.__getitem__, variants))
        of_group = dict.fromkeys(
            one for text in (variants if keep_all else [best]) for one in companions_of.get(text, ())
        )
        rows += [(best, total, companion) for companion in of_group] or [(best, total, None)]
    merged, totals, kept = map(list, zip(*rows, strict=True)) if rows else ([], [], [])
    return Replies(merged, np.array(totals, np.int64), None if companions is None else kept)


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
