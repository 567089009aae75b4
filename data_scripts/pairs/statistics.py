"""Statistics of pairs: lengths of texts, responses per input, sizes of threads."""

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

MAX_LENGTH = 2_000  # characters; longer texts are counted as this long
MAX_RUN = 1_000  # responses to an input, pairs in a thread; longer runs are counted as this long


class RunLengths:
    """Counts the runs of 1, 2, … rows; a run may continue in the next table."""

    def __init__(self) -> None:
        self.counts = np.zeros(MAX_RUN + 1, np.int64)
        self.open = self.largest = 0

    def add(self, starts: np.ndarray) -> None:
        """Count the runs in a table; `starts` (rows,) bool says where a run begins."""
        positions = np.flatnonzero(starts)
        if not len(positions):
            self.open += len(starts)
            return
        lengths = np.diff(np.append(positions, len(starts)))
        self._count(np.append(lengths[:-1], self.open + positions[0]))
        self.open = int(lengths[-1])

    def _count(self, lengths: np.ndarray) -> None:
        lengths = lengths[lengths > 0]
        if len(lengths):
            self.largest = max(self.largest, int(lengths.max()))
            self.counts += np.bincount(np.minimum(lengths, MAX_RUN), minlength=MAX_RUN + 1)

    def join(self, other: "RunLengths") -> None:
        """Add the complete runs of another object."""
        self.counts += other.finish()
        self.largest = max(self.largest, other.largest)

    def finish(self) -> np.ndarray:
        """How many runs have each number of rows, (1001,); the last entry counts runs of 1,000 or more rows."""
        self._count(np.array([self.open]))
        self.open = 0
        return self.counts


class PairStatistics:
    """Counts pairs as they are written, sorted by thread and input."""

    def __init__(self) -> None:
        self.pairs = 0
        self.characters = {side: np.zeros(MAX_LENGTH + 1, np.int64) for side in ("input", "response")}
        self.responses, self.threads = RunLengths(), RunLengths()  # responses to each input, pairs in each thread
        self.sources: Counter[str] = Counter()

    def add(self, table: pa.Table, thread_starts: np.ndarray, input_starts: np.ndarray) -> None:
        """Count the next pairs.

        Args:
            table: columns `input, response, thread, source`.
            thread_starts: (rows,) whether a thread begins with this pair.
            input_starts: (rows,) whether the pairs of an input begin with this pair.
        """
        self.pairs += len(table)
        for side, counts in self.characters.items():
            lengths = np.minimum(pc.utf8_length(table[side]).to_numpy(), MAX_LENGTH)
            counts += np.bincount(lengths, minlength=MAX_LENGTH + 1)
        self.threads.add(thread_starts)
        self.responses.add(input_starts)
        for entry in pc.value_counts(table["source"].combine_chunks()).to_pylist():
            self.sources[entry["values"]] += entry["counts"]

    def join(self, other: "PairStatistics") -> None:
        """Add the counts of the pairs that follow, which begin with a new thread."""
        self.pairs += other.pairs
        for side, counts in other.characters.items():
            self.characters[side] += counts
        self.responses.join(other.responses)
        self.threads.join(other.threads)
        self.sources.update(other.sources)

    def finish(self) -> dict[str, dict[str, Any]]:
        """The report's sections `threads` and `characters`, once all pairs are counted."""
        threads, responses = self.threads.finish(), self.responses.finish()
        characters = {
            f"{side}, {name}": quantile(counts, share)
            for side, counts in self.characters.items()
            for name, share in (("median", 0.5), ("95th percentile", 0.95))
        }
        return {
            "threads": {
                "threads": int(threads.sum()),
                "pairs in the largest": self.threads.largest,
                "share of the largest": round(self.threads.largest / self.pairs, 4),
                "pairs per input": round(self.pairs / int(responses.sum()), 2),
            },
            "characters": characters,
        }


def quantile(counts: np.ndarray, share: float) -> int:
    """The smallest value that at least this share of the values do not exceed; `counts` are their frequencies."""
    return int(np.searchsorted(np.cumsum(counts), share * counts.sum()))
