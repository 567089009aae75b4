"""The margins of the papers' claims: above zero where a claim holds, with 95 % intervals by paired bootstrap."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from trainer.evaluation.bootstrap import INTERVAL, LEVEL, grouped_interval, pearson_by_row
from trainer.report.item_scores import ItemScores

GENRES = ("captions", "forums", "news")

# For each group, positions of its items (resamples, items) -> (resamples,).
Statistic = Callable[[list[np.ndarray]], np.ndarray]


class Margin(NamedTuple):
    """How far a claim is on its side of zero, and the ends of the 95 % interval, None where none was recorded."""

    margin: float
    low: float | None = None
    high: float | None = None

    @property
    def holds(self) -> bool | None:
        """Whether the claim holds; None if the interval includes zero or was not recorded."""
        if self.low is None or self.high is None or self.low <= 0 <= self.high:
            return None
        return self.low > 0

    @property
    def verdict(self) -> str:
        """The same for the page."""
        if self.low is None or self.high is None:
            return "no interval recorded"
        return {True: "holds", False: "does not hold here", None: "not decided at this size"}[self.holds]

    @property
    def interval(self) -> str:
        """The margin with its interval."""
        text = f"{self.margin:+.3f}"
        return text if self.low is None or self.high is None else f"{text} [{self.low:+.3f}, {self.high:+.3f}]"


def of_p_at_1(row: Mapping[str, Any], other: Mapping[str, Any], items: ItemScores | None) -> Margin:
    """The difference in P@1 of two rows of table 1.

    Without `items`, the intervals of the rows decide where they do not overlap: a paired interval of the difference is
    at most as wide as the two together.
    """
    difference = row["p_at_1"] - other["p_at_1"]
    if items:
        hits = items.response_hits(row["run"]) - items.response_hits(other["run"])
        return Margin(difference, *grouped_interval(lambda rows: hits[rows[0]].mean(1), [len(hits)]))
    ours, theirs = (each.get(f"p_at_1{INTERVAL}") for each in (row, other))
    if ours and theirs and (ours[0] > theirs[1] or ours[1] < theirs[0]):
        return Margin(difference, ours[0] - theirs[1], ours[1] - theirs[0])
    return Margin(difference)


def of_largest_gain(
    before: Mapping[str, Any], after: Mapping[str, Any], genre: str, items: ItemScores | None
) -> Margin:
    """What Pearson's r of a genre gains between two rows of table 3, minus the largest gain of another, or zero."""

    def margin(gains: Mapping[str, Any]) -> Any:
        others = [gains[other] for other in GENRES if other != genre]
        return gains[genre] - np.maximum.reduce([*others, np.zeros_like(others[0])])

    value = margin(
        {each: np.float64(after["test"][each]["pearson"] - before["test"][each]["pearson"]) for each in GENRES}
    )
    if not items:
        return Margin(float(value))
    gold, genres = items.stsb_gold()
    groups = [np.flatnonzero(genres == each) for each in GENRES]
    ours, theirs = (items.stsb_scores(row["run"], row["tuned"]) for row in (after, before))

    def statistic(positions: list[np.ndarray]) -> np.ndarray:
        rows = {each: group[chosen] for each, group, chosen in zip(GENRES, groups, positions, strict=True)}
        return margin(
            {
                each: pearson_by_row(ours[chosen], gold[chosen]) - pearson_by_row(theirs[chosen], gold[chosen])
                for each, chosen in rows.items()
            }
        )

    return Margin(float(value), *grouped_interval(statistic, [len(group) for group in groups]))


def of_tenth(rows: Sequence[Mapping[str, Any]], genre: str, items: ItemScores | None) -> Margin:
    """What a tenth of SNLI gains above half of what all of it gains, or the latter if that is smaller.

    Args:
        rows: those of figure 8 without SNLI, with a tenth, and with all of it.
        genre: a genre of STS-B test, or `all`.
        items: scores pair by pair.
    """

    def margin(none: Any, tenth: Any, full: Any) -> Any:
        return np.minimum(full - none, tenth - none - (full - none) / 2)

    value = float(margin(*(row["test"][genre]["pearson"] for row in rows)))
    if not items:
        return Margin(value)
    gold, genres = items.stsb_gold()
    chosen = np.flatnonzero((genres == genre) | (genre == "all"))
    scores = [items.stsb_scores(row["run"], False)[chosen] for row in rows]

    def statistic(positions: list[np.ndarray]) -> np.ndarray:
        return margin(*(pearson_by_row(each[positions[0]], gold[chosen][positions[0]]) for each in scores))

    return Margin(value, *grouped_interval(statistic, [len(chosen)]))


def of_attention(run: str, first: float, last: float, items: ItemScores | None) -> Margin:
    """The mean distance of attention in the last layer minus that in the first, over resampled sentences."""
    if not items:
        return Margin(last - first)
    sums, words = items.attention_distances(run)
    difference = sums[-1] - sums[0]

    def statistic(positions: list[np.ndarray]) -> np.ndarray:
        return difference[positions[0]].sum(1) / words[positions[0]].sum(1)

    return Margin(last - first, *grouped_interval(statistic, [len(words)]))


def of_datasets(row: Mapping[str, Any], other: Mapping[str, Any], items: ItemScores | None) -> Margin:
    """The number of datasets on which a row of Siamese CBOW's table 1 is better than another, above half of them."""
    sets = list(row["sets"])
    better = sum(row["sets"][key]["pearson"] > other["sets"][key]["pearson"] for key in sets)
    value = better - len(sets) / 2
    if not items:
        return Margin(value)
    gold = items.sts_gold()
    ours, theirs = items.sts_scores(row["run"]), items.sts_scores(other["run"])

    def statistic(positions: list[np.ndarray]) -> np.ndarray:
        is_better = [
            pearson_by_row(ours[key][rows], gold[key][rows]) > pearson_by_row(theirs[key][rows], gold[key][rows])
            for key, rows in zip(sets, positions, strict=True)
        ]
        return np.sum(is_better, axis=0) - len(sets) / 2

    return Margin(value, *grouped_interval(statistic, [len(gold[key]) for key in sets]))


def count_stop_words(words: Sequence[str]) -> int:
    """The number of words in scikit-learn's list of English stop words."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

    return sum(word in ENGLISH_STOP_WORDS for word in words)


def of_stop_words(words: Sequence[str], share_of_all: float) -> Margin:
    """The proportion of stop words among some words, above a half and above the proportion among all words.

    The interval is the exact one of a binomial proportion (Clopper and Pearson).
    """
    from scipy import stats

    stop_words, least = count_stop_words(words), max(share_of_all, 0.5)
    low, high = stats.binomtest(stop_words, len(words)).proportion_ci(LEVEL)
    return Margin(stop_words / len(words) - least, float(low) - least, float(high) - least)
