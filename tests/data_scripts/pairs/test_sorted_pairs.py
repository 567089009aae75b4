"""The pass over sorted pairs, against plain counts."""

from collections import Counter

import numpy as np
import pytest

from data_scripts.pairs.sorted_pairs import Counts, count_pairs, end_runs, quantile, split_of
from data_scripts.schemas import SPLITS
from tests.data_scripts.pairs import test_dataset as plain


def test_split_is_the_hash_of_the_thread_modulo_100():
    keys = [f"t3_{number}" for number in range(1000)]
    assert [SPLITS[split_of(key)] for key in keys] == list(map(plain.split_of, keys))


@pytest.mark.parametrize("batch", [3, 100_000])
def test_counts_equal_plain_ones_for_any_size_of_tables(batch):
    pairs = sorted(plain.draw_pairs(1_000), key=lambda pair: (pair[2], *pair))
    pairs = [(*pair, *["earlier"] * (len(pair[0]) % 3)) for pair in pairs]
    table = plain.pairs_table(pairs)
    tables = (table.slice(start, batch) for start in range(0, len(table), batch))
    counts = Counts()
    written = [row for table, _ in count_pairs(tables, counts, "thread", None) for row in table.to_pylist()]
    distinct = set(pairs)
    assert sorted((*list(row.values())[:4], *row["context"]) for row in written) == sorted(distinct)
    assert counts.read == {"pairs": 1_000, "repeated": 1_000 - len(distinct)}
    assert counts.sources == Counter(pair[3] for pair in distinct)
    assert counts.input == Counter(len(pair[0]) for pair in distinct)
    threads, inputs = Counter(pair[2] for pair in distinct), Counter((pair[2], pair[0]) for pair in distinct)
    assert counts.threads == Counter(threads.values()) and counts.responses == Counter(inputs.values())
    assert counts.sections()["threads"] == {
        "threads": len(threads),
        "pairs in the largest": max(threads.values()),
        "share of the largest": round(max(threads.values()) / len(distinct), 4),
        "pairs per input": round(len(distinct) / len(inputs), 2),
        "pairs with earlier turns": sum(len(pair) > 4 for pair in distinct),
    }
    assert counts.sections()["characters"] == {
        f"{side}, {name}": int(np.quantile([len(pair[column]) for pair in distinct], share, method="inverted_cdf"))
        for column, side in enumerate(("input", "response"))
        for name, share in (("median", 0.5), ("95th percentile", 0.95))
    }


def test_runs_are_counted_across_tables():
    lengths = [1, 2, 1, 3000, 999, 1000, 1001, *np.random.default_rng(0).integers(1, 9, 200).tolist()]
    starts = np.concatenate([np.arange(length) == 0 for length in lengths])
    for parts in (1, 7, 300):
        found, before = [], 0
        for part in np.array_split(starts, parts):
            ended, before = end_runs(part, before)
            found += ended
        assert [*found, before] == lengths


def test_quantiles_of_counted_values_equal_those_of_numpy():
    random = np.random.default_rng(0)
    for size in (1, 2, 3, 10, 999):
        values = random.integers(0, 30, size)
        for share in (0.5, 0.95):
            expected = int(np.quantile(values, share, method="inverted_cdf"))
            assert quantile(Counter(values.tolist()), share) == expected
