"""The pass over sorted pairs, against plain counts."""

from collections import Counter

import numpy as np
import pytest

from data_scripts.pairs.sorted_pairs import Counts, count_pairs
from tests.data_scripts.pairs import test_dataset as plain


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
