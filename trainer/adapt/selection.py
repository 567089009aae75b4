"""Selects between the base, the start and the trained models, and measures the gain on other messages.

The gain of the best of many points is biased upward on the messages that selected it: it is above zero even if replies
are shuffled and nothing can be learned. Gains are therefore measured on messages not used for selection.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np

from trainer.evaluation.ranking import MRR, Ranks, standard_error, thread_interval

# Standard errors that a gain must exceed: for a point to be preferred to the base, and, on other messages, for the
# adaptation to be kept. Without a true gain, 1 adaptation in 20 exceeds the latter.
TO_PREFER, TO_KEEP = 1.0, 1.645


class Point(NamedTuple):
    """A model: start + factor (trained - start) after a step, and the share of its lexical channel.

    The start has step 0 and factor 0.
    """

    step: int
    factor: float
    share: float


Chosen = TypeVar("Chosen")  # what is chosen: a `Point`, or weights


@dataclass(frozen=True)
class Measured(Generic[Chosen]):
    """The ranks of the base and of some points on the same held-out messages of the conversations `threads`."""

    threads: np.ndarray
    base: Ranks
    points: Mapping[Chosen, Ranks]

    def ranks(self, point: Chosen | None) -> Ranks:
        """The ranks of a point, or of the base if it has none: without earlier turns, their weights have no effect."""
        return self.base if point is None else self.points.get(point, self.base)


@dataclass(frozen=True)
class Gain:
    """The gain of adapting over the base, on messages not used for model selection."""

    threads: np.ndarray
    base: Ranks
    adapted: Ranks

    def exceeds(self, errors: float) -> bool:
        """Whether the mean reciprocal rank gains more than some standard errors, and P@1 does not get worse."""
        gain, error = self._reciprocal_rank()
        p_at_1 = self.adapted.precision().mean() - self.base.precision().mean()
        return gain > errors * error and bool(p_at_1 >= 0)

    def _reciprocal_rank(self) -> tuple[float, float]:
        """The gain in mean reciprocal rank, and its standard error."""
        gain = self.adapted.reciprocal_rank() - self.base.reciprocal_rank()
        return float(gain.mean()), standard_error(gain, self.threads)

    def summarize(self) -> dict[str, Any]:
        """P@1 and its gain with a 95% interval, the gain in mean reciprocal rank and its standard error."""
        gain = self.adapted.precision() - self.base.precision()
        return {
            "queries": len(self.threads),
            "p_at_1": float(self.adapted.precision().mean()),
            "base_p_at_1": float(self.base.precision().mean()),
            "gain": float(gain.mean()),
            "gain_interval": thread_interval(gain, self.threads),
            **dict(zip((f"{MRR}_gain", f"{MRR}_gain_error"), self._reciprocal_rank(), strict=True)),
        }


def choose(parts: Sequence[Measured[Chosen]]) -> Chosen | None:
    """The point with the highest mean reciprocal rank; None, the base, if it gains too little (`TO_PREFER`).

    The mean reciprocal rank varies less with the messages than P@1. The first of several equal points is chosen.

    Args:
        parts: the same points on different messages.
    """
    means = {
        point: np.concatenate([part.points[point].reciprocal_rank() for part in parts]).mean()
        for point in parts[0].points
    }
    point = max(means, key=lambda each: means[each])
    return point if gain_of(parts, [point] * len(parts)).exceeds(TO_PREFER) else None


def cross_choose(parts: Sequence[Measured[Chosen]]) -> Gain:
    """The gain of selection: the point for the messages of each part is selected on the other parts.

    Args:
        parts: two or more.
    """
    chosen = [choose([*parts[:number], *parts[number + 1 :]]) for number in range(len(parts))]
    return gain_of(parts, chosen)


def gain_of(parts: Sequence[Measured[Chosen]], points: Sequence[Chosen | None]) -> Gain:
    """The gain of a point for the messages of each part; None is the base."""
    adapted = [part.ranks(point) for part, point in zip(parts, points, strict=True)]
    threads = np.concatenate([part.threads for part in parts])
    return Gain(threads, Ranks.join([part.base for part in parts]), Ranks.join(adapted))
