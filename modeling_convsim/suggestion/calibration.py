"""How often suggestions are right, by their scores, measured on held-out pairs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from modeling_convsim.suggestion.deduplication import canonical_form

MIN_SUGGESTIONS = 20  # of the rows of a table: the precision of fewer suggestions is unreliable
# Of the sentence embeddings of a suggestion and the real reply: they answer to the same effect. Chosen by reading pairs
# of replies of each cosine, after a first look at the coverage that .5 to .8 allow.
RIGHT_COSINE = 0.6
MAX_EXAMPLES = 5
LONGEST_EXAMPLE = 60  # characters: one or two lines on a phone
COVERAGES = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0)  # of the rows of a table


@dataclass(frozen=True)
class PrecisionRow:
    """The precision and coverage, 0 to 1, of the best suggestions that score `threshold` or more."""

    threshold: float
    precision: float  # share of these suggestions that are right
    coverage: float  # share of the pairs that have such a suggestion


@dataclass(frozen=True)
class Calibration:
    """How often the best suggestion of an index is right, by its score; saved in the index's index.json."""

    pairs: int
    table: list[PrecisionRow]  # with increasing coverage

    @classmethod
    def measure(cls, scores: np.ndarray, is_right: np.ndarray) -> "Calibration":
        """Tabulates the precision at increasing coverage, from `MIN_SUGGESTIONS` suggestions to all pairs.

        Args:
            scores: (pairs,), the score of the best suggestion for each message.
            is_right: (pairs,), whether that suggestion is right.

        Raises:
            ValueError: There are fewer than `MIN_SUGGESTIONS` pairs.
        """
        check_pairs(len(scores))
        order = np.argsort(-scores, kind="stable")
        ranked, precision = scores[order].astype(np.float64), np.cumsum(is_right[order]) / np.arange(1, len(scores) + 1)
        # No threshold separates equal scores.
        is_possible = np.append(ranked[1:] < ranked[:-1], True) & (np.arange(len(scores)) >= MIN_SUGGESTIONS - 1)
        possible = np.flatnonzero(is_possible)
        # The last possible threshold within each coverage.
        counts = np.searchsorted(possible, np.multiply(COVERAGES, len(scores)).round() - 1, side="right")
        last = possible[np.unique(counts[counts > 0]) - 1]
        # Halfway to the next score, because scores vary in their last digits.
        below = np.append(ranked[1:], ranked[-1] - 2e-3 * abs(ranked[-1]))
        rows = zip((ranked + below)[last] / 2, precision[last], (last + 1) / len(scores), strict=True)
        return cls(len(scores), [PrecisionRow(*map(float, row)) for row in rows])

    def precision(self, score: float) -> float:
        """The precision of the best suggestions that score as much or more, by the nearest row of the table below."""
        reached = (row.precision for row in self.table if row.threshold <= score)
        return next(reached, self.table[-1].precision)


def check_pairs(count: int) -> None:
    """Raises ValueError if there are too few held-out pairs to measure a precision."""
    if count < MIN_SUGGESTIONS:
        raise ValueError(f"{count} held-out pairs, expected {MIN_SUGGESTIONS} or more")


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
