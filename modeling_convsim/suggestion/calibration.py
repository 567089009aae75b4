"""The score threshold below which nothing is suggested, chosen for a precision on held-out pairs."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

MIN_SUGGESTIONS = 20  # a threshold needs at least this many: the precision of fewer suggestions is unreliable
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
    min_precision: float  # the required precision
    precision: float  # share of the suggestions made that are right
    coverage: float  # share of the pairs for which a suggestion is made
    candidates: int | None  # number of replies that the right one is ranked among; None is the whole index
    pairs: int
    table: list[ThresholdRow] = field(default_factory=list)  # the result of `tabulate_thresholds`

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> "Calibration":
        """Reads the fields of index.json."""
        return cls(**{**values, "table": [ThresholdRow(**row) for row in values["table"]]})


def check_precision(precision: float) -> None:
    """Raises ValueError unless a required precision is above 0 and at most 1."""
    if not 0 < precision <= 1:
        raise ValueError(f"the precision is {precision}, expected a number above 0, at most 1")


def choose_threshold(
    scores: np.ndarray, is_right: np.ndarray, min_precision: float, candidates: int | None
) -> Calibration:
    """Finds the lowest threshold at which suggestions have the required precision.

    Args:
        scores: (pairs,), the score of each input's best candidate.
        is_right: (pairs,), whether that candidate is right.
        min_precision: The required precision, above 0 and at most 1.
        candidates: The number of candidates, for the record.

    Raises:
        ValueError: No threshold has that precision; the message gives the highest possible one.
    """
    check_precision(min_precision)
    if len(scores) < MIN_SUGGESTIONS:
        raise ValueError(f"{len(scores)} held-out pairs, expected {MIN_SUGGESTIONS} or more")
    ranked, precision, is_possible = _rank_pairs(scores, is_right)
    precise = np.flatnonzero(is_possible & (precision >= min_precision))
    if not len(precise):
        raise ValueError(
            f"no threshold has precision {min_precision:g} on {len(scores):,} pairs: the highest, with "
            f"{MIN_SUGGESTIONS} suggestions or more, is {precision[is_possible].max():.3f}"
        )
    row = _threshold_row(ranked, precision, int(precise[-1]))
    table = tabulate_thresholds(scores, is_right)
    return Calibration(row.threshold, min_precision, row.precision, row.coverage, candidates, len(scores), table)


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


def best_of_sample(
    queries: np.ndarray, expected: np.ndarray, vectors: np.ndarray, candidates: int
) -> tuple[np.ndarray, np.ndarray]:
    """For each query, the best of its expected vector and others sampled from an index with seed 0.

    Args:
        queries: (pairs, dimensions).
        expected: (pairs, dimensions), the vector of each pair's right reply.
        vectors: (replies, dimensions), those of the index.
        candidates: The expected vector and the sampled ones together.

    Returns:
        The row of the best vector in the index (pairs,), -1 for the expected one, and its score (pairs,).

    Raises:
        ValueError: A sampled vector is not finite.
    """
    samples = np.random.default_rng(0).integers(len(vectors), size=(len(queries), candidates - 1))
    rows, scores = np.full(len(queries), -1), (queries * expected).sum(axis=1)
    for pair, sample in enumerate(samples):
        others = vectors[sample].astype(np.float32) @ queries[pair]  # (candidates - 1,)
        if not np.isfinite(others).all():
            raise ValueError("the index holds vectors that are damaged (not finite): rebuild it")
        if others.max() > scores[pair]:
            rows[pair], scores[pair] = sample[others.argmax()], others.max()
    return rows, scores
