"""Without any vector: replies folded into distinct ones, and the threshold for scores."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

LEAST_SUGGESTIONS = 20  # that a threshold rests on: the precision of fewer says little
# Marks that a reply may have or lack; "C++", "5%" and "-1" stay apart from "C", "5" and "1".
MARKS = re.compile(r"""[.,;:!?"`´‘‚“”„«»‹›()\[\]{}¿¡…–—。、，！？_~]+|-(?!\d)""")


class Replies(NamedTuple):
    """Distinct replies, in the order in which they first came."""

    texts: list[str]
    counts: np.ndarray  # (replies,), int64
    answers: list[str] | None = None


def normalize(text: str) -> str:
    """What texts that differ in case, punctuation and white space only have in common."""
    folded = unicodedata.normalize("NFKC", text).casefold()
    plain = MARKS.sub(" ", re.sub("['’]", "", folded))
    return " ".join(plain.split()) or " ".join(folded.split())


def fold(texts: Iterable[str], answers: Iterable[str] | None = None) -> Replies:
    """Distinct replies: of texts that `normalize` to the same, the most frequent form (of several, the first).

    Its count is that of all forms, its answer the first that was given to it; blank texts are left out.
    """
    forms: Counter[str] = Counter()
    answer_of: dict[str, str] = {}
    if answers is None:
        forms.update(texts)
    else:
        for text, answer in zip(texts, answers, strict=True):
            forms[text] += 1
            answer_of.setdefault(text, answer)
    folded: dict[str, list[Any]] = {}  # form, how often it came, how often any of its forms did
    for form, count in forms.items():
        if key := normalize(form):
            known = folded.setdefault(key, [form, 0, 0])
            known[2] += count
            if count > known[1]:
                known[:2] = form, count
    kept = [form for form, _, _ in folded.values()]
    counts = np.fromiter((total for _, _, total in folded.values()), np.int64, count=len(folded))
    return Replies(kept, counts, None if answers is None else [answer_of[form] for form in kept])


@dataclass(frozen=True)
class Calibration:
    """What held-out pairs say of suggestions that score `threshold` or more: shares, 0 to 1."""

    threshold: float
    wanted: float
    precision: float  # of the suggestions made, how many were right
    coverage: float  # of the pairs, for how many a suggestion was made
    candidates: int | None  # replies among which the right one had to score highest; None is the whole index
    pairs: int


def choose_threshold(scores: np.ndarray, right: np.ndarray, wanted: float, candidates: int | None) -> Calibration:
    """The lowest threshold at which the suggestions that remain have the wanted precision.

    Args:
        scores: (pairs,), each input's best.
        right: (pairs,), whether that one was.
        wanted: Precision, above 0 up to 1.
        candidates: Out of how many they were, for the record.

    Raises:
        ValueError: There is none; the message says which precision there is.
    """
    if not 0 < wanted <= 1:
        raise ValueError(f"the precision wanted is {wanted}, expected a number above 0, up to 1")
    if len(scores) < LEAST_SUGGESTIONS:
        raise ValueError(f"{len(scores)} held-out pairs, expected {LEAST_SUGGESTIONS} or more")
    order = np.argsort(-scores, kind="stable")
    scores, precision = scores[order].astype(np.float64), np.cumsum(right[order]) / np.arange(1, len(scores) + 1)
    # Between equal scores there is no threshold.
    possible = np.append(scores[1:] < scores[:-1], True) & (np.arange(len(scores)) >= LEAST_SUGGESTIONS - 1)
    good = np.flatnonzero(possible & (precision >= wanted))
    if not len(good):
        raise ValueError(
            f"no threshold has precision {wanted:g} on {len(scores):,} pairs: the best, with {LEAST_SUGGESTIONS} "
            f"suggestions or more, has {precision[possible].max():.3f}"
        )
    last = int(good[-1])
    # Halfway to the next, because a score may come out otherwise in its last digit.
    threshold = scores[last : last + 2].mean() if last + 1 < len(scores) else scores[last] - 1e-3 * abs(scores[last])
    return Calibration(
        float(threshold), wanted, float(precision[last]), (last + 1) / len(scores), candidates, len(scores)
    )
