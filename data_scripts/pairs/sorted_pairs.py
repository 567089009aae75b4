"""One pass over pairs that come sorted: drops repeated pairs, assigns splits, masks and counts; on any engine."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

from data_scripts.schemas import PAIR_SCHEMA, PAIR_TEXTS, SPLITS

if TYPE_CHECKING:
    from data_scripts.pairs.masked_pairs import PairMasker

TEST_PERCENT, VALIDATION_PERCENT = 10, 1


@dataclass
class Counts:
    """Counts of pairs; all except `read` count the pairs that are written.

    Attributes:
        input, response: number of characters -> texts.
        threads: number of pairs -> threads that have so many.
        responses: number of responses -> inputs that have so many in a thread.
        contexts: number of earlier turns -> pairs that have so many.
        sources: source -> pairs.
        rows: split -> pairs.
        masked: kind of personal data -> how often it was masked.
        read: "pairs" -> all pairs that came, "repeated" -> those that their thread had already.
    """

    input: Counter[int] = field(default_factory=Counter)
    response: Counter[int] = field(default_factory=Counter)
    threads: Counter[int] = field(default_factory=Counter)
    responses: Counter[int] = field(default_factory=Counter)
    contexts: Counter[int] = field(default_factory=Counter)
    sources: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=lambda: Counter(dict.fromkeys(SPLITS, 0)))
    masked: Counter[str] = field(default_factory=Counter)
    read: Counter[str] = field(default_factory=Counter)

    @property
    def pairs(self) -> int:
        """The number of pairs that are written."""
        return self.rows.total()

    def join(self, other: "Counts") -> None:
        """Add the counts of the pairs that follow, which begin with a new thread."""
        for each in fields(self):
            getattr(self, each.name).update(getattr(other, each.name))

    def sections(self) -> dict[str, dict[str, Any]]:
        """The report's sections `threads` and `characters`."""
        largest = max(self.threads)
        return {
            "threads": {
                "threads": self.threads.total(),
                "pairs in the largest": largest,
                "share of the largest": round(largest / self.pairs, 4),
                "pairs per input": round(self.pairs / self.responses.total(), 2),
                "pairs with earlier turns": self.pairs - self.contexts[0],
            },
            "characters": {
                f"{side}, {name}": int(
                    np.quantile(list(counts), share, weights=list(counts.values()), method="inverted_cdf")
                )
                for side, counts in (("input", self.input), ("response", self.response))
                for name, share in (("median", 0.5), ("95th percentile", 0.95))
            },
        }


def count_pairs(
    tables: Iterable[pa.Table], counts: Counts, split: str, masker: "PairMasker | None"
) -> Iterator[tuple[pa.Table, np.ndarray]]:
    """Yield the pairs that are not repeated, counted and masked, with the indices of their splits.

    Args:
        tables: pairs sorted by thread.
        counts: gets the counts, which are complete after the last pair.
        split: as for `split_pairs`.
        masker: masks the pairs, if it is given.
    """
    open_runs = {"threads": 0, "responses": 0}
    for table, starts in _distinct(tables, counts):
        splits = split_pairs(table, starts["threads"], split)  # by the original threads and texts
        if masker:
            table, masked = masker.mask(table, starts["threads"])
            counts.masked.update(masked)
        counts.input.update(pc.utf8_length(table["input"]).to_pylist())
        counts.response.update(pc.utf8_length(table["response"]).to_pylist())
        counts.contexts.update(pc.list_value_length(table["context"]).to_pylist())
        counts.sources.update(table["source"].to_pylist())
        for name in open_runs:
            lengths, open_runs[name] = end_runs(starts[name], open_runs[name])
            getattr(counts, name).update(lengths)
        counts.rows.update(dict(zip(SPLITS, np.bincount(splits, minlength=len(SPLITS)).tolist(), strict=True)))
        yield table, splits
    for name, length in open_runs.items():
        getattr(counts, name).update([length] if length else [])


def _distinct(tables: Iterable[pa.Table], counts: Counts) -> Iterator[tuple[pa.Table, dict[str, np.ndarray]]]:
    """The tables without repeated pairs, with flags where a thread begins, and where the responses to an input do.

    Of pairs that differ only in their contexts, the first one is used.
    """
    last: dict[str, Any] = {}
    with tqdm(unit="pair", unit_scale=True, desc="write") as bar:
        for table in tables:
            table = table.cast(PAIR_SCHEMA)
            differs = {name: _differs(table[name].combine_chunks(), last.get(name)) for name in PAIR_TEXTS}
            last = table.slice(len(table) - 1).to_pylist()[0]
            bar.update(len(table))
            new = np.logical_or.reduce(list(differs.values()))
            counts.read.update({"pairs": len(table), "repeated": int((~new).sum())})
            starts = {"threads": differs["thread"], "responses": differs["thread"] | differs["input"]}
            if new.any():
                yield table.filter(pa.array(new)), {name: flags[new] for name, flags in starts.items()}


def _differs(column: pa.Array, last: str | None) -> np.ndarray:
    """Whether each value differs from the one before it, (rows,) bool; `last` precedes the first one."""
    differs = np.ones(len(column), bool)
    differs[:1] = column[0].as_py() != last
    differs[1:] = pc.not_equal(column.slice(1), column.slice(0, len(column) - 1)).to_numpy(zero_copy_only=False)
    return differs


def end_runs(starts: np.ndarray, before: int) -> tuple[list[int], int]:
    """The lengths of the runs that end in a table, and of the one that may continue in the next table.

    Args:
        starts: (rows,) whether a run begins with this row.
        before: the length of the run that the tables before left open.
    """
    *lengths, last = np.diff(np.concatenate([[-before], np.flatnonzero(starts), [len(starts)]])).tolist()
    return [length for length in lengths if length], last


def split_of(key: str) -> int:
    """The split of a thread, as an index into `schemas.SPLITS`; new data move no thread whose name stays the same.

    SHA-256 modulo 100: 0 to 9 is test, 10 validation, the rest train.
    """
    percent = int.from_bytes(hashlib.sha256(key.encode()).digest()) % 100
    return 2 if percent < TEST_PERCENT else 1 if percent < TEST_PERCENT + VALIDATION_PERCENT else 0


def split_pairs(table: pa.Table, thread_starts: np.ndarray, split: str) -> np.ndarray:
    """The split of each pair, as an index into `schemas.SPLITS`, (rows,).

    Args:
        table: pairs sorted by thread.
        thread_starts: (rows,) whether a thread begins with this pair.
        split: "thread" assigns whole threads, "random" single pairs.
    """
    if split == "random":
        keys = pc.binary_join_element_wise(table["input"], table["response"], "\t")
        return np.array(list(map(split_of, keys.to_pylist())))
    starts = thread_starts.copy()
    starts[:1] = True  # the last thread of the previous table may continue
    splits = np.array(list(map(split_of, table["thread"].filter(pa.array(starts)).to_pylist())))
    return splits[np.cumsum(starts) - 1]
