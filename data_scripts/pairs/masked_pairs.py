"""Masks what a dataset of pairs and its report may say about people: texts, threads, sources and names of files."""

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data_scripts.clean.masking import mask_personal_data, mask_text
from data_scripts.files.dataset_folders import FIRST_LINES, Report

# Kinds of messages that were left out which hold a value of the data, and the values that say nothing about people.
_VALUE_KINDS = {"role": ("system", "tool", "function", "developer"), "type": (), "subtype": ()}


class PairMasker:
    """Masks pairs that come sorted by thread, table by table, and counts what it masks.

    Threads become `thread-1`, `thread-2` …, in the order in which they are written, so that their names tell nothing
    and the same pairs give the same files. Splits must be assigned before, by the original names.

    Attributes:
        regions: the countries whose phone numbers are found in national form.
        public_sources: whether sources and names of files are public, as Reddit's are, and are only searched for
            personal data; if not, they become `source-1`, `source-2` …, because they may be named after people.
        counts: how many of each kind were masked in texts.
    """

    def __init__(self, regions: tuple[str, ...], public_sources: bool) -> None:
        self.regions, self.public_sources = regions, public_sources
        self.counts: dict[str, int] = {}
        self.sources: dict[str, str] = {}
        self.threads = 0

    def mask(self, table: pa.Table, thread_starts: np.ndarray) -> pa.Table:
        """The masked pairs.

        Args:
            table: columns `input, response, thread, source`.
            thread_starts: (rows,) whether a thread begins with this pair.
        """
        for name in ("input", "response"):
            texts, masked = mask_personal_data(table[name].combine_chunks(), self.regions)
            table = _replace(table, name, texts)
            for kind, number in masked.items():
                self.counts[kind] = self.counts.get(kind, 0) + number
        numbers = self.threads + np.cumsum(thread_starts)
        self.threads = int(numbers[-1])
        threads = pc.binary_join_element_wise("thread", pa.array(numbers).cast(pa.string()), "-")
        encoded = table["source"].combine_chunks().dictionary_encode()
        sources = pa.array([self._source(name) for name in encoded.dictionary.to_pylist()], pa.string())
        return _replace(_replace(table, "thread", threads), "source", sources.take(encoded.indices))

    def _source(self, name: str) -> str:
        if name not in self.sources:
            public = mask_text(name, self.regions)
            self.sources[name] = public if self.public_sources else f"source-{len(self.sources) + 1}"
        return self.sources[name]

    def mask_report(self, report: Report) -> None:
        """Replace names of files and values of the data in a report, and remove the examples of broken lines."""
        settings: dict[str, Any] = report["settings"]
        for name, value in settings.items():
            if name == "files":
                names = [mask_text(each, self.regions) for each in value]
                settings[name] = names if self.public_sources else [f"{len(names):,} (names withheld)"]
            elif isinstance(value, list):
                settings[name] = [mask_text(each, self.regions) for each in value]
            elif isinstance(value, str):
                settings[name] = mask_text(value, self.regions)
        if "detected" in report:  # by the names of files, which are as private as the sources
            detected = enumerate(report["detected"].values(), start=1)
            report["detected"] = {f"file {number}": mask_text(value, self.regions) for number, value in detected}
        report.pop(FIRST_LINES, None)
        if "messages left out" in report:
            report["messages left out"] = _without_values(report["messages left out"])


def _replace(table: pa.Table, name: str, column: pa.Array) -> pa.Table:
    return table.set_column(table.column_names.index(name), table.schema.field(name), column)


def _without_values(counts: dict[str, int]) -> dict[str, int]:
    """Counts of messages by kind, where `role jane` is counted as `role (withheld)`."""
    kinds: dict[str, int] = {}
    for kind, number in counts.items():
        first, _, value = kind.partition(" ")
        withheld = first in _VALUE_KINDS and value not in _VALUE_KINDS[first]
        shown = f"{first} (withheld)" if withheld else kind
        kinds[shown] = kinds.get(shown, 0) + number
    return kinds
