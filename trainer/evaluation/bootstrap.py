"""Bootstrap intervals: how much a score varies with the sample of items that it was measured on."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from data_scripts.errors import InputError

RESAMPLES = 1000
LEVEL = 0.95
SEED = 0
INTERVAL = "_interval"  # suffix: `map_interval` is the interval of `map`
ITEMS_PER_BATCH = 1_000_000  # bounds the memory


def mean_interval(values: np.ndarray) -> list[float]:
    """The interval of the mean of `values` (items,), such as hits, correct answers or average precisions."""
    return _interval(np.mean, values)


def pearson_interval(predictions: np.ndarray, references: np.ndarray) -> list[float]:
    """The interval of Pearson's r of `predictions` with `references` (both (pairs,)), over resampled pairs."""
    return _interval(_pearson, predictions, references)


def with_intervals(scores: Mapping[str, Any], intervals: Mapping[str, list[float]]) -> dict[str, Any]:
    """`scores` with `NAME_interval` after each NAME that has one in `intervals`."""
    result: dict[str, Any] = {}
    for name, score in scores.items():
        result[name] = score
        if name in intervals:
            result[f"{name}{INTERVAL}"] = intervals[name]
    return result


def grouped_interval(statistic: Callable[[list[np.ndarray]], np.ndarray], sizes: Sequence[int]) -> list[float]:
    """The interval of a statistic of several groups of items, such as the pairs of each genre or dataset.

    Items are resampled within each group, and all systems get the same resamples: the interval of a difference between
    systems is paired.

    Args:
        statistic: for each group, positions of its items (resamples, items) -> (resamples,).
        sizes: the number of items of each group.
    """
    random = np.random.default_rng(SEED)
    batch = max(1, ITEMS_PER_BATCH // sum(sizes))
    resampled = [
        statistic([random.integers(size, size=(min(batch, RESAMPLES - start), size)) for size in sizes])
        for start in range(0, RESAMPLES, batch)
    ]
    return _ends(np.concatenate(resampled))


def pearson_by_row(predictions: np.ndarray, references: np.ndarray) -> np.ndarray:
    """Pearson's r along the last axis; NaN where one side is constant."""
    from scipy import stats

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        return stats.pearsonr(predictions, references, axis=-1).statistic


def _interval(statistic: Callable[..., Any], *columns: np.ndarray) -> list[float]:
    """[low, high] of the 95% percentile interval of `statistic` over 1,000 resamples of the items, with a fixed seed.

    Args:
        statistic: of arrays (resamples, items), over their last axis; called with `axis=-1`.
        columns: the arguments of `statistic`, each (items,); a resample takes the same items from all of them.

    Raises:
        InputError: fewer than two items.
    """
    from scipy import stats  # takes a second to import, and `--help` imports this module

    if len(columns[0]) < 2:
        raise InputError("intervals: a score was measured on a single item, which has no interval; leave intervals out")
    columns = tuple(np.asarray(column, np.float64) for column in columns)
    with warnings.catch_warnings():
        # A resample of few pairs may have a single distinct score and thus no correlation; such resamples are ignored.
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        warnings.simplefilter("ignore", stats.DegenerateDataWarning)
        resampled = stats.bootstrap(
            columns,
            statistic,
            paired=True,
            vectorized=True,
            n_resamples=RESAMPLES,
            batch=max(1, ITEMS_PER_BATCH // len(columns[0])),
            method="percentile",
            rng=np.random.default_rng(SEED),
        ).bootstrap_distribution
    return _ends(resampled)


def _ends(resampled: np.ndarray) -> list[float]:
    """[low, high] of the percentile interval of resampled values (resamples,); NaN is ignored."""
    low, high = np.nanquantile(resampled, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return [float(low), float(high)]


def _pearson(predictions: np.ndarray, references: np.ndarray, axis: int) -> np.ndarray:
    from scipy import stats

    return stats.pearsonr(predictions, references, axis=axis).statistic
