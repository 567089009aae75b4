"""The score threshold below which nothing is suggested, chosen for a precision on held-out pairs."""

from dataclasses import dataclass

import numpy as np

MIN_SUGGESTIONS = 20  # a threshold needs at least this many: the precision of fewer suggestions is unreliable


@dataclass(frozen=True)
class Calibration:
    """Precision and coverage, 0 to 1, of suggestions that score `threshold` or more; saved in an index's index.json."""

    threshold: float
    min_precision: float  # the required precision
    precision: float  # share of the suggestions made that are right
    coverage: float  # share of the pairs for which a suggestion is made
    candidates: int | None  # number of replies that the right one is ranked among; None is the whole index
    pairs: int


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
    if not 0 < min_precision <= 1:
        raise ValueError(f"the precision is {min_precision}, expected a number above 0, at most 1")
    if len(scores) < MIN_SUGGESTIONS:
        raise ValueError(f"{len(scores)} held-out pairs, expected {MIN_SUGGESTIONS} or more")
    order = np.argsort(-scores, kind="stable")
    scores, precision = scores[order].astype(np.float64), np.cumsum(is_right[order]) / np.arange(1, len(scores) + 1)
    # No threshold separates equal scores.
    is_possible = np.append(scores[1:] < scores[:-1], True) & (np.arange(len(scores)) >= MIN_SUGGESTIONS - 1)
    precise = np.flatnonzero(is_possible & (precision >= min_precision))
    if not len(precise):
        raise ValueError(
            f"no threshold has precision {min_precision:g} on {len(scores):,} pairs: the highest, with "
            f"{MIN_SUGGESTIONS} suggestions or more, is {precision[is_possible].max():.3f}"
        )
    last = int(precise[-1])
    # Halfway to the next score, because scores vary in their last digits.
    threshold = scores[last : last + 2].mean() if last + 1 < len(scores) else scores[last] - 1e-3 * abs(scores[last])
    return Calibration(
        float(threshold), min_precision, float(precision[last]), (last + 1) / len(scores), candidates, len(scores)
    )


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
