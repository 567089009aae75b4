"""The score threshold below which nothing is suggested, chosen for a precision on held-out pairs."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Protocol

import numpy as np

from modeling_convsim.suggestion.deduplication import canonical_form
from modeling_convsim.suggestion.search import CHUNK

CONFIDENCE = 0.9  # that suggestions have the required precision
GROWTH = 1.1  # of the number of suggestions, from a threshold to the next one that is tested
STARTS = 4  # times as many suggestions at the first threshold of the next sequence
MIN_SUGGESTIONS = 20  # of the rows of a table: the precision of fewer suggestions is unreliable
# Of the sentence embeddings of a suggestion and the real reply: they answer to the same effect. Chosen by reading pairs
# of replies of each cosine, after a first look at the coverage that .5 to .8 allow.
RIGHT_COSINE = 0.6
MAX_EXAMPLES = 5
LONGEST_EXAMPLE = 60  # characters: one or two lines on a phone
LEFT_OUT = 1_000  # questions of an index
WRONG_BELOW = 0.8  # of the questions that an index lacks, the share whose most similar one is below its threshold
ALONE = 0.5  # the threshold of an index whose questions all have the same answer
COVERAGES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)  # of the rows of `tabulate_thresholds`


@dataclass(frozen=True)
class ThresholdRow:
    """What a threshold gives on held-out pairs: a row of a table of precision against coverage."""

    threshold: float
    precision: float
    coverage: float


@dataclass(frozen=True)
class Calibration:
    """Precision and coverage, 0 to 1, of suggestions that score `threshold` or more; saved in an index's index.json."""

    threshold: float
    min_precision: float  # the required precision, which suggestions have with `CONFIDENCE`
    precision: float  # share of the suggestions made that are right
    coverage: float  # share of the pairs for which a suggestion is made
    pairs: int
    table: list[ThresholdRow] = field(default_factory=list)  # the result of `tabulate_thresholds`


def check_precision(precision: float) -> None:
    """Raises ValueError unless a required precision is above 0 and below 1, which no number of pairs can show."""
    if not 0 < precision < 1:
        raise ValueError(f"the precision is {precision:g}, expected a number above 0, below 1")


def choose_threshold(scores: np.ndarray, is_right: np.ndarray, min_precision: float) -> Calibration:
    """Finds a low threshold at which suggestions have the required precision with 90% confidence.

    Thresholds are tested from high to low, at numbers of suggestions that do not depend on which ones are right, until
    the lower confidence bound of the precision falls below the required one (Learn then Test with fixed sequences,
    Angelopoulos et al., 2021). There are a few such sequences, because the highest scores may be less precise; they
    share the risk, and the lowest threshold that passes in any of them is chosen. So the probability that it is less
    precise than required is at most 10%, although many are tested.

    Args:
        scores: (pairs,), the score of the best suggestion for each input.
        is_right: (pairs,), whether that suggestion is right.
        min_precision: The required precision, above 0 and below 1.

    Raises:
        ValueError: No threshold is chosen; the message says about how many pairs would be enough.
    """
    check_precision(min_precision)
    if len(scores) < MIN_SUGGESTIONS:
        raise ValueError(f"{len(scores)} held-out pairs, expected {MIN_SUGGESTIONS} or more")
    ranked, precision, is_possible = _rank_pairs(scores, is_right)
    starts = _starts(min_precision, len(scores))
    passed = [_last_passed(start, precision, is_possible, min_precision, len(starts)) for start in starts]
    chosen = max((last for last in passed if last is not None), default=None)
    if chosen is None:
        raise ValueError(_why_none(precision, is_possible, min_precision))
    row = _threshold_row(ranked, precision, chosen)
    table = tabulate_thresholds(scores, is_right)
    return Calibration(row.threshold, min_precision, row.precision, row.coverage, len(scores), table)


def _starts(min_precision: float, pairs: int) -> list[int]:
    """The numbers of suggestions at the first threshold of each sequence.

    The smallest is that which passes if the precision is halfway from the required one to 1.
    """
    count = 1
    while not _is_certain(int((1 + min_precision) / 2 * count), count, min_precision, 1 - CONFIDENCE):
        count += 1
    starts = [min(count, pairs)]
    while starts[-1] * STARTS <= pairs:
        starts.append(starts[-1] * STARTS)
    return starts


def _last_passed(
    start: int, precision: np.ndarray, is_possible: np.ndarray, min_precision: float, sequences: int
) -> int | None:
    """The last suggestion, as a position, at the lowest threshold of a sequence that passes; None if none does."""
    passed, count = None, float(start)
    while count <= len(precision):
        last = int(count) - 1
        last += int(np.argmax(is_possible[last:]))  # the next position that a threshold can follow
        if not _is_certain(precision[last] * (last + 1), last + 1, min_precision, (1 - CONFIDENCE) / sequences):
            break
        passed, count = last, max(count * GROWTH, last + 2)
    return passed


def _is_certain(right: float, suggestions: int, min_precision: float, risk: float) -> bool:
    """Whether the lower bound of a precision, with confidence 1 - risk, is the required one or more.

    It is if as many right suggestions have this probability or less where each is right with the required probability
    (Clopper and Pearson, 1934).
    """
    counts = np.arange(round(right), suggestions + 1)
    logarithms = np.array([math.lgamma(n + 1) for n in range(suggestions + 1)])  # of factorials
    binomials = logarithms[suggestions] - logarithms[counts] - logarithms[suggestions - counts]
    wrong = suggestions - counts
    probabilities = np.exp(binomials + counts * math.log(min_precision) + wrong * math.log1p(-min_precision))
    return bool(probabilities.sum() <= risk)


def _why_none(precision: np.ndarray, is_possible: np.ndarray, min_precision: float) -> str:
    """Why no threshold was chosen, and about how many pairs would be enough (normal approximation)."""
    pairs, rows = len(precision), np.flatnonzero(is_possible)
    errors = np.sqrt(min_precision * (1 - min_precision) / (rows + 1))
    excess = float(((precision[rows] - min_precision) / errors).max())  # in standard errors
    needed = pairs * (NormalDist().inv_cdf(CONFIDENCE) / excess) ** 2 if excess > 0 else 0
    remedy = f"about {needed - pairs:,.0f} more pairs would be needed" if needed > pairs else "ask for less"
    return (
        f"no threshold has a precision of {min_precision:.0%} with {CONFIDENCE:.0%} confidence on {pairs:,} pairs: the "
        f"highest, of {MIN_SUGGESTIONS} suggestions or more, is {precision[rows].max():.0%}; {remedy}"
    )


def tabulate_thresholds(scores: np.ndarray, is_right: np.ndarray) -> list[ThresholdRow]:
    """Tabulates thresholds and their precision at increasing coverage, from `MIN_SUGGESTIONS` suggestions to all pairs.

    The arguments are those of `choose_threshold`.
    """
    ranked, precision, is_possible = _rank_pairs(scores, is_right)
    possible = np.flatnonzero(is_possible)
    # The last possible threshold within each coverage.
    counts = np.searchsorted(possible, np.multiply(COVERAGES, len(scores)).round() - 1, side="right")
    return [_threshold_row(ranked, precision, int(possible[count - 1])) for count in np.unique(counts[counts > 0])]


def _rank_pairs(scores: np.ndarray, is_right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Scores, best first; the precision of the pairs up to each; whether a threshold can follow it, all (pairs,)."""
    order = np.argsort(-scores, kind="stable")
    ranked, precision = scores[order].astype(np.float64), np.cumsum(is_right[order]) / np.arange(1, len(scores) + 1)
    # No threshold separates equal scores.
    is_possible = np.append(ranked[1:] < ranked[:-1], True) & (np.arange(len(scores)) >= MIN_SUGGESTIONS - 1)
    return ranked, precision, is_possible


def _threshold_row(ranked: np.ndarray, precision: np.ndarray, last: int) -> ThresholdRow:
    # Halfway to the next score, because scores vary in their last digits.
    threshold = ranked[last : last + 2].mean() if last + 1 < len(ranked) else ranked[last] - 1e-3 * abs(ranked[last])
    return ThresholdRow(float(threshold), float(precision[last]), (last + 1) / len(ranked))


def choose_question_threshold(vectors: np.ndarray, answers: list[str] | None, duplicate_cosine: float) -> float:
    """A threshold for an index of questions, from these questions: four of five that it lacks find nothing.

    Each question is left out in turn: the most similar one among the others is wrong, unless it has the same answer or,
    without answers, is a near-duplicate.

    Args:
        vectors: (questions, dimensions), L2-normalized sentence embeddings.
        answers: Those of the questions, if any.
        duplicate_cosine: Questions with this cosine or more are near-duplicates.
    """
    chosen = np.random.default_rng(0).permutation(len(vectors))[:LEFT_OUT]
    numbers = np.unique(answers, return_inverse=True)[1] if answers else np.arange(len(vectors))
    left_out, wrong = vectors[chosen].astype(np.float32), np.full(len(chosen), -np.inf, np.float32)
    for start in range(0, len(vectors), CHUNK):
        cosines = left_out @ vectors[start : start + CHUNK].astype(np.float32).T  # (questions left out, part)
        others = numbers[start : start + CHUNK]
        is_other = numbers[chosen][:, None] != others if answers else cosines < duplicate_cosine
        wrong = np.maximum(wrong, np.where(is_other, cosines, -np.inf).max(axis=1))
    wrong = wrong[np.isfinite(wrong)]
    return float(np.quantile(wrong, WRONG_BELOW)) if len(wrong) else ALONE


class Judge(Protocol):
    """An encoder that compares suggestions with real replies."""

    def encode(self, texts: Sequence[str]) -> np.ndarray:
        """L2-normalized vectors (texts, dimensions)."""
        ...


def text_cosines(judge: Judge, texts: Sequence[str], others: Sequence[str]) -> np.ndarray:
    """(texts,): the cosine of each text and the other one as a judge encodes them; 1 for variants, -1 for no text.

    Variants have the same `canonical_form`.
    """
    cosines = (judge.encode(texts) * judge.encode(others)).sum(axis=1)
    for row, (text, other) in enumerate(zip(texts, others, strict=True)):
        if canonical_form(text) == canonical_form(other):
            cosines[row] = 1
        elif not text:
            cosines[row] = -1
    return cosines


def choose_examples(messages: Iterable[str]) -> list[str]:
    """Samples up to five distinct short messages of one line, with seed 0, which the page offers to try."""
    short = [text for text in dict.fromkeys(messages) if text.isprintable() and 0 < len(text) <= LONGEST_EXAMPLE]
    return [short[row] for row in np.random.default_rng(0).permutation(len(short))[:MAX_EXAMPLES]]
