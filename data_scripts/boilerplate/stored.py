"""Strips stored messages and ready pairs of salutations, signatures and the like (`letters`), and counts them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from data_scripts.boilerplate import endings
from data_scripts.boilerplate.endings import Endings
from data_scripts.boilerplate.letters import KINDS, SUSPECT, names_in_letter, strip_letter
from data_scripts.boilerplate.names import Names
from data_scripts.clean.filters import Filters, measure, measure_language
from modeling_convsim.files.parquet import parquet_writer

BATCH_ROWS = 20_000
MEASURES = ("characters", "alphabetic", "language")


def strip_stored(messages: Path, ready: Path, filters: Filters) -> dict[str, int]:
    """Strip the texts in two files of `conversations.store_logs`, in place; returns what was removed, by kind."""
    counts: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
    _strip_file(messages, {"text": MEASURES}, filters, counts)
    sides = {side: tuple(f"{side}_{name}" for name in MEASURES) for side in ("input", "response")}
    _strip_file(ready, sides, filters, counts)
    return dict(counts)


def _strip_file(path: Path, texts: Mapping[str, Sequence[str]], filters: Filters, counts: Counter[str]) -> None:
    """Strip the texts in some columns of a file, each with the columns of its measures."""
    names, habits = _learn(path, texts)
    with pq.ParquetFile(path) as file, parquet_writer(path.with_suffix(".new"), file.schema_arrow) as writer:
        for batch in file.iter_batches(BATCH_ROWS):
            table = pa.Table.from_batches([batch])
            for column, measures in texts.items():
                changed, rows = [], []
                for author, text, is_suspect in _suspects(batch, column, SUSPECT):
                    stripped = text
                    if is_suspect or names.may_be_in(text):
                        stripped = strip_letter(text, names, counts, author, habits)
                    changed.append(stripped != text)
                    if stripped != text:
                        _, characters, letters = measure(stripped)
                        language = measure_language(stripped, characters, letters, filters)
                        rows.append((stripped, characters, letters, language))
                for name, values in zip((column, *measures), zip(*rows, strict=True), strict=True) if rows else ():
                    array = pc.replace_with_mask(batch[name], pa.array(changed), pa.array(values, batch[name].type))
                    table = table.set_column(table.schema.get_field_index(name), table.schema.field(name), array)
            writer.add_table(table)
    path.with_suffix(".new").replace(path)


def _learn(path: Path, columns: Iterable[str]) -> tuple[Names, Endings]:
    """The names of speakers, and of those who are greeted or sign in the first messages; how each author ends texts."""
    found, habits = set[str](), Endings()
    with pq.ParquetFile(path) as file:
        for number, batch in enumerate(file.iter_batches(BATCH_ROWS)):
            for column in columns:
                for author, text, is_suspect in _suspects(batch, column, endings.SUSPECT if number else SUSPECT):
                    habits.messages[author] += 1
                    if is_suspect:
                        habits.add(author, text)
                        found.update(names_in_letter(text) if number == 0 and column == "text" else ())
            found.update(filter(None, pc.unique(batch["speaker"]).to_pylist()) if "text" in columns else ())
    return Names(found), habits


def _suspects(batch: pa.RecordBatch, column: str, pattern: str) -> Iterable[tuple[str | None, str, bool]]:
    """The author of each text, the text, and whether a pattern matches; ready pairs name no authors, but have sides."""
    authors = batch["speaker"].to_pylist() if column == "text" else [column] * len(batch)
    suspects = pc.match_substring_regex(batch[column], pattern).to_pylist()
    return zip(authors, batch[column].to_pylist(), suspects, strict=True)
