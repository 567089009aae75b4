"""Statistics of pairs against plain counts."""

from collections import Counter

import numpy as np
import pyarrow as pa

from data_scripts.pairs.statistics import PairStatistics, RunLengths, quantile


def test_runs_are_counted_across_tables_and_long_ones_together():
    random = np.random.default_rng(0)
    lengths = [1, 2, 1, 3000, 999, 1000, 1001, *random.integers(1, 9, 200).tolist()]
    starts = np.concatenate([np.arange(length) == 0 for length in lengths])
    for parts in (1, 7, 300):
        runs = RunLengths()
        for part in np.array_split(starts, parts):
            runs.add(part)
        counts = Counter(min(length, 1000) for length in lengths)
        assert runs.finish().tolist() == [counts[length] for length in range(1001)] and runs.largest == 3000


def test_texts_of_more_than_2000_characters_are_counted_as_that_long():
    statistics = PairStatistics()
    texts = {"input": ["a" * 2500, "a" * 2000, "é" * 1999], "response": ["b"] * 3, "source": ["x", "y", "x"]}
    statistics.add(pa.table(texts), np.array([True, False, True]), np.ones(3, bool))
    statistics.add(pa.table(texts).slice(0, 1), np.array([False]), np.array([False]))
    assert np.flatnonzero(statistics.characters["input"]).tolist() == [1999, 2000]
    assert statistics.characters["input"][[1999, 2000]].tolist() == [1, 3]
    assert len(statistics.characters["input"]) == 2001 and statistics.characters["response"][1] == 4
    assert statistics.sources == {"x": 3, "y": 1} and statistics.pairs == 4
    assert statistics.finish()["threads"] == {
        "threads": 2, "pairs in the largest": 2, "share of the largest": 0.5, "pairs per input": 1.33,
    }  # fmt: skip


def test_quantiles_of_counted_values_equal_those_of_numpy():
    random = np.random.default_rng(0)
    for size in (1, 2, 3, 10, 999):
        values = random.integers(0, 30, size)
        for share in (0.5, 0.95):
            expected = int(np.quantile(values, share, method="inverted_cdf"))
            assert quantile(np.bincount(values, minlength=40), share) == expected
