"""Bootstrap intervals: how much a score varies with the sample of items that it was measured on."""

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from modeling_convsim.files.errors import InputError

RESAMPLES = 1000
LEVEL = 0.95
SEED = 0
INTERVAL = "_interval"  # suffix: `map_interval` is the interval of `map`
ITEMS_PER_BATCH = 1_000_000  # bounds the memory


def mean_interval(values: np.ndarray) -> list[float]:
    """The interval of the mean of `values` (items,), such as hits, correct answers or average precisions."""
    values = np.asarray(values, np.float64)
    return bootstrap_interval(lambda rows: values[rows].mean(axis=-1), len(values))


def pearson_interval(predictions: np.ndarray, references: np.ndarray) -> list[float]:
    """The interval of Pearson's r of `predictions` with `references` (both (pairs,)), over resampled pairs."""
    from scipy import stats  # takes a second to import, and `--help` imports this module

    predictions, references = (np.asarray(values, np.float64) for values in (predictions, references))

    def pearson(rows: np.ndarray) -> np.ndarray:
        return stats.pearsonr(predictions[rows], references[rows], axis=-1).statistic  # NaN where a side is constant

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        warnings.simplefilter("ignore", stats.NearConstantInputWarning)
        return bootstrap_interval(pearson, len(predictions))


def with_intervals(scores: Mapping[str, Any], intervals: Mapping[str, list[float]]) -> dict[str, Any]:
    """`scores` with `NAME_interval` after each NAME that has one in `intervals`."""
    result: dict[str, Any] = {}
    for name, score in scores.items():
        result[name] = score
        if name in intervals:
            result[f"{name}{INTERVAL}"] = intervals[name]
    return result


def bootstrap_interval(statistic: Callable[[np.ndarray], np.ndarray], items: int) -> list[float]:
    """The 95% percentile interval, [low, high], of a statistic over 1,000 resamples of the items, with a fixed seed.

    All systems get the same resamples: the interval of a difference between systems is paired. Resamples without a
    value, such as a correlation of equal scores, are ignored.

    Args:
        statistic: positions of the items (resamples, items) -> (resamples,).
        items: the number of items.

    Raises:
        InputError: there are fewer than two items.
    """
    if items < 2:
        raise InputError("intervals: a score on a single item has no interval; add data, or leave intervals out")
    random = np.random.default_rng(SEED)
    batch = max(1, ITEMS_PER_BATCH // items)
    resampled = [
        statistic(random.integers(items, size=(min(batch, RESAMPLES - start), items)))
        for start in range(0, RESAMPLES, batch)
    ]
    low, high = np.nanquantile(np.concatenate(resampled), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return [float(low), float(high)]
