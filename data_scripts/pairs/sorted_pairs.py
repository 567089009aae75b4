"""Passes over sorted pairs: drops repeated pairs, assigns splits, masks and counts; the same for every engine."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

from data_scripts.pairs.shards import row_bytes
from data_scripts.pairs.splits import split_pairs
from data_scripts.pairs.statistics import PairStatistics
from data_scripts.schemas import PAIR_SCHEMA, SPLITS

if TYPE_CHECKING:
    from data_scripts.pairs.masked_pairs import PairMasker


class Counts:
    """What is counted of pairs.

    Attributes:
        statistics: of the pairs that were written.
        splits: split -> pairs that were written, and the bytes of their texts.
        read: pairs, repeated ones included.
        repeated: pairs that were not written, because their thread holds them already.
        masked: kind of personal data -> how often it was masked.
    """

    def __init__(self) -> None:
        self.statistics = PairStatistics()
        self.splits = dict.fromkeys(SPLITS, (0, 0))
        self.read = self.repeated = 0
        self.masked: dict[str, int] = {}

    def join(self, other: "Counts") -> None:
        """Add the counts of the pairs that follow, which begin with a new thread."""
        self.statistics.join(other.statistics)
        self.splits = {
            name: (rows + other.splits[name][0], size + other.splits[name][1])
            for name, (rows, size) in self.splits.items()
        }
        self.read += other.read
        self.repeated += other.repeated
        for kind, number in other.masked.items():
            self.masked[kind] = self.masked.get(kind, 0) + number


def count_pairs(
    tables: Iterable[pa.Table],
    writers: Mapping[str, Callable[[pa.Table], object]],
    split: str,
    masker: "PairMasker | None",
) -> Counts:
    """Count pairs that come sorted by thread, and pass each that is not repeated to the writer of its split."""
    counts = Counts()
    for table, thread_starts, input_starts in _distinct(tables, counts):
        split_indices = split_pairs(table, thread_starts, split)  # by the original threads and texts
        if masker:
            table = masker.mask(table, thread_starts)
        counts.statistics.add(table, thread_starts, input_starts)
        sizes = row_bytes(table)
        for index, (name, write) in enumerate(writers.items()):
            chosen = split_indices == index
            rows, size = counts.splits[name]
            counts.splits[name] = rows + int(chosen.sum()), size + int(sizes[chosen].sum())
            write(table.filter(pa.array(chosen)))
    if masker:
        counts.masked = masker.counts
    return counts


def _distinct(tables: Iterable[pa.Table], counts: Counts) -> Iterator[tuple[pa.Table, np.ndarray, np.ndarray]]:
    """The tables without repeated pairs, with flags where threads and inputs begin."""
    last: dict[str, Any] = {}
    with tqdm(unit="pair", unit_scale=True, desc="write") as bar:
        for table in tables:
            table = table.cast(PAIR_SCHEMA)
            differs = {name: _differs(table[name].combine_chunks(), last.get(name)) for name in PAIR_SCHEMA.names}
            last = table.slice(len(table) - 1).to_pylist()[0]
            bar.update(len(table))
            counts.read += len(table)
            thread_starts = differs["thread"]
            input_starts = thread_starts | differs["input"]
            new = np.logical_or.reduce(list(differs.values()))
            if not new.all():
                table = table.filter(pa.array(new))
                thread_starts, input_starts = thread_starts[new], input_starts[new]
                counts.repeated += len(new) - len(table)
            if len(table):
                yield table, thread_starts, input_starts


def _differs(column: pa.Array, last: str | None) -> np.ndarray:
    """Whether each value differs from the one before it, (rows,) bool; `last` precedes the first one."""
    differs = np.ones(len(column), bool)
    differs[:1] = column[0].as_py() != last
    differs[1:] = pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)).to_numpy(zero_copy_only=False)
    return differs
