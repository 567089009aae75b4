"""How probable it is that a suggestion can be sent, by its score, and what ratings show about it."""

import math
from dataclasses import dataclass
from typing import Annotated

import msgspec
import numpy as np

LEAST = 30  # ratings that a curve is fitted to, of suggestions that can be sent and of others
FEWEST = 20  # suggestions that an estimate is fitted to
BINS = 10  # of a table
MOST = 1e12  # of the weights of a curve in a file, so that they are finite
CONFIDENCE = 0.9  # that a precision is shown with


@dataclass(frozen=True)
class Bin:
    """Suggestions of neighboring scores, and how many of these can be sent, 0 to 1."""

    suggestions: int
    score: float  # the mean
    share: float


@dataclass(frozen=True)
class Curve:
    """A logistic curve: the log odds that a suggestion can be sent are intercept + slope * score.

    Attributes:
        intercept: See above.
        slope: See above; 0 or more.
        estimated: Whether it was fitted to an automatic estimate instead of ratings.
        table: What it was fitted to, with increasing scores.
    """

    intercept: Annotated[float, msgspec.Meta(ge=-MOST, le=MOST)]
    slope: Annotated[float, msgspec.Meta(ge=0, le=MOST)]
    estimated: bool
    table: list[Bin]

    def probability(self, score: float) -> float:
        """The probability, 0 to 1."""
        return float(_logistic(self.intercept + self.slope * score))

    @classmethod
    def fit(cls, scores: np.ndarray, can_be_sent: np.ndarray, estimated: bool) -> "Curve":
        """Fits the curve by maximum likelihood, with the prior of Platt (1999, section 2.2), so that it stays finite.

        Args:
            scores: (suggestions,).
            can_be_sent: (suggestions,): whether it can be sent, or an estimate of the probability.
            estimated: See above.
        """
        scores, shares = scores.astype(np.float64), can_be_sent.astype(np.float64)
        yes, no = shares.sum(), (1 - shares).sum()
        targets = shares * (yes + 1) / (yes + 2) + (1 - shares) / (no + 2)
        center, scale = scores.mean(), max(scores.std(), 1e-9)
        inputs = np.stack([np.ones_like(scores), (scores - center) / scale], axis=1)  # (suggestions, 2)
        intercept, slope = _newton(inputs, targets)
        if slope < 0 or np.ptp(scores) == 0:  # higher scores are no better
            intercept, slope = math.log(targets.mean() / (1 - targets.mean())), 0.0
        slope /= scale
        rows = [part for part in np.array_split(np.argsort(scores, kind="stable"), BINS) if len(part)]
        table = [Bin(len(part), float(scores[part].mean()), float(shares[part].mean())) for part in rows]
        return cls(float(intercept - slope * center), float(slope), estimated, table)


def _newton(inputs: np.ndarray, targets: np.ndarray) -> np.ndarray:
    """The weights of a logistic regression with targets strictly between 0 and 1."""
    weights = np.zeros(inputs.shape[1])
    for _ in range(100):
        predicted = _logistic(inputs @ weights)
        curvature = (inputs * (predicted * (1 - predicted))[:, None]).T @ inputs + 1e-9 * np.eye(len(weights))
        step = np.linalg.solve(curvature, inputs.T @ (targets - predicted))
        weights += step / max(1.0, float(np.abs(step).max()))  # at most 1, where the curve is nearly flat
        if np.abs(step).max() < 1e-10:
            break
    return weights


def _logistic(values: np.ndarray | float) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(values, -500, 500)))


def share_interval(successes: int, count: int) -> tuple[float, float]:
    """The 95% interval of a share, by the score method (Wilson, 1927)."""
    z, share = 1.959964, successes / count
    middle, spread = share + z * z / (2 * count), z * math.sqrt(share * (1 - share) / count + (z / (2 * count)) ** 2)
    return max(0.0, (middle - spread) / (1 + z * z / count)), min(1.0, (middle + spread) / (1 + z * z / count))


def shows(successes: int, count: int, share: float, confidence: float = CONFIDENCE) -> bool:
    """Whether an exact binomial test shows with a confidence of .5 or more that the share of successes is higher."""
    if successes <= count * share:  # as many or more are more likely than not
        return False
    chances = [
        math.lgamma(count + 1)
        - math.lgamma(k + 1)
        - math.lgamma(count - k + 1)
        + k * math.log(share)
        + (count - k) * math.log1p(-share)
        for k in range(successes, count + 1)
    ]  # logarithms of those of as many successes, and of each larger number
    return math.fsum(map(math.exp, chances)) <= 1 - confidence


@dataclass(frozen=True)
class Threshold:
    """A score from which on ratings show a precision.

    Attributes:
        score: The score; infinite if they show it nowhere.
        reason: What they show, and, if that is not enough, how many more could.
    """

    score: float
    reason: str


def find_threshold(scores: np.ndarray, is_right: np.ndarray, precision: float) -> Threshold:
    """Chooses the lowest score that every other suggestion shows, and tests it once, by the other ones.

    If they show none, it is the lowest one at which the precision is more likely than not.

    Args:
        scores: (suggestions,): those of the best suggestions for different messages, in the order of their ratings.
        is_right: (suggestions,): whether it can be sent as it is.
        precision: The required share of right ones, above 0 and below 1.
    """
    choosing, testing = scores[::2], scores[1::2]
    by_score, best, likely = np.argsort(-choosing, kind="stable"), math.inf, math.inf
    for count, right in enumerate(np.cumsum(is_right[::2][by_score]).tolist(), start=1):
        score = float(choosing[by_score[count - 1]])
        if count < len(choosing) and choosing[by_score[count]] == score:
            continue  # the last one of equal scores follows
        best = score if shows(right, count, precision) else best
        likely = score if shows(right, count, precision, 0.5) else likely
    best = likely if math.isinf(best) else best
    tested = is_right[1::2][testing >= best]
    right, count = int(tested.sum()), len(tested)
    if math.isfinite(best):
        found = f"{right} of {count} suggestions with a score of {best:.3f} or more can be sent as they are"
        if count and shows(right, count, precision):
            return Threshold(best, found)
    else:
        found = f"the ratings show no score threshold with a precision of {precision:.0%}"
    needed = count
    while not shows(needed - (count - right), needed, precision):
        needed += 1
    reached = np.mean(scores >= best) if math.isfinite(best) else 1.0
    more = math.ceil(2 * (needed - count) / float(reached))  # one in two is tested
    at_least = "" if math.isfinite(best) else "at least "
    return Threshold(
        math.inf, f"{found}; {at_least}{more:,} more ratings of first suggestions could show {precision:.0%}"
    )
