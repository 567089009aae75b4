"""Masks what a dataset of pairs and its report may say about people: texts, threads, sources and names of files."""

from collections import Counter

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data_scripts.clean.masking import mask_personal_data, mask_text
from data_scripts.dataset_folders import FIRST_LINES, Report


class PairMasker:
    """Masks pairs that come sorted by thread, table by table.

    Threads become `thread-1`, `thread-2` …, in the order in which they are written, so that their names tell nothing
    and the same pairs give the same files. Splits must be assigned before, by the original names.

    Attributes:
        regions: the countries whose phone numbers are found in national form.
        public_sources: whether sources and names of files are public, as Reddit's are, and are only searched for
            personal data; if not, they become `source-1`, `source-2` …, because they may be named after people.
        threads: the number of threads so far.
    """

    def __init__(self, regions: tuple[str, ...], public_sources: bool, threads: int = 0) -> None:
        self.regions, self.public_sources, self.threads = regions, public_sources, threads
        self.sources: dict[str, str] = {}

    def mask(self, table: pa.Table, thread_starts: np.ndarray) -> tuple[pa.Table, Counter[str]]:
        """The masked pairs, and how often each kind of personal data was masked in texts.

        Args:
            table: the columns of `schemas.PAIR_SCHEMA`.
            thread_starts: (rows,) whether a thread begins with this pair.
        """
        counts: Counter[str] = Counter()
        columns = {name: table[name].combine_chunks() for name in table.column_names}
        for name in ("input", "response"):
            columns[name], masked = mask_personal_data(columns[name], self.regions)
            counts.update(masked)
        turns, masked = mask_personal_data(columns["context"].flatten(), self.regions)
        counts.update(masked)
        lengths = pc.list_value_length(columns["context"]).to_numpy()
        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        columns["context"] = pa.ListArray.from_arrays(offsets, turns)
        numbers = self.threads + np.cumsum(thread_starts)
        self.threads = int(numbers[-1])
        columns["thread"] = pc.binary_join_element_wise("thread", pa.array(numbers).cast(pa.string()), "-")
        encoded = columns["source"].dictionary_encode()
        sources = pa.array([self._source(name) for name in encoded.dictionary.to_pylist()], pa.string())
        columns["source"] = sources.take(encoded.indices)
        return pa.table(columns, schema=table.schema), counts

    def _source(self, name: str) -> str:
        if name not in self.sources:
            public = mask_text(name, self.regions)
            self.sources[name] = public if self.public_sources else f"source-{len(self.sources) + 1}"
        return self.sources[name]

    def mask_report(self, report: Report) -> None:
        """Replace names of files and values of the data in a report, and remove the examples of broken lines."""
        settings = report["settings"]
        for name, value in settings.items():
            if isinstance(value, list):
                settings[name] = [mask_text(each, self.regions) for each in value]
            elif isinstance(value, str):
                settings[name] = mask_text(value, self.regions)
        if not self.public_sources:
            settings["files"] = [f"{len(settings['files']):,} (names withheld)"]
        if "detected" in report:  # by the names of files, which are as private as the sources
            detected = enumerate(report["detected"].values(), start=1)
            report["detected"] = {f"file {number}": mask_text(value, self.regions) for number, value in detected}
        report.pop(FIRST_LINES, None)
        if "messages left out" in report:
            kinds = report["messages left out"].items()
            report["messages left out"] = {mask_text(kind, self.regions): number for kind, number in kinds}
