"""Strips stored messages and ready pairs of salutations, signatures and the like (`letters`), and counts them."""

from collections import Counter
from collections.abc import Sequence
from itertools import compress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from data_scripts.boilerplate import endings
from data_scripts.boilerplate.endings import Endings
from data_scripts.boilerplate.letters import KINDS, SUSPECT, names_in_letter, strip_letter
from data_scripts.boilerplate.names import Names
from data_scripts.clean.filters import Filters, measure_language
from modeling_convsim.files.parquet import parquet_writer

BATCH_ROWS = 20_000
MEASURES = ("characters", "alphabetic", "language")


def strip_stored(messages: Path, ready: Path, filters: Filters) -> dict[str, int]:
    """Strip the texts in two files of `conversations.store_logs`, in place; returns what was removed, by kind."""
    counts: Counter[str] = Counter(dict.fromkeys(KINDS, 0))
    _rewrite(messages, [("text", MEASURES)], filters, counts)
    sides = [(side, tuple(f"{side}_{name}" for name in MEASURES)) for side in ("input", "response")]
    _rewrite(ready, sides, filters, counts)
    return dict(counts)


def _learn(path: Path, columns: Sequence[str]) -> tuple[Names, Endings]:
    """The names of speakers, and of those who are greeted or sign in the first messages; how each author ends texts."""
    found, habits = set[str](), Endings()
    with pq.ParquetFile(path) as file:
        for number, batch in enumerate(file.iter_batches(BATCH_ROWS)):
            for column in columns:
                authors = _authors(batch, column)
                habits.add_authors(authors)
                pattern = endings.SUSPECT if number else SUSPECT
                flags = pc.match_substring_regex(batch[column], pattern).to_pylist()
                for author, text in compress(zip(authors, batch[column].to_pylist(), strict=True), flags):
                    habits.add(author, text)
                    found.update(names_in_letter(text) if number == 0 and column == "text" else ())
            found.update(filter(None, pc.unique(batch["speaker"]).to_pylist()) if "text" in columns else ())
    return Names(found), habits


def _authors(table: pa.RecordBatch | pa.Table, column: str) -> list[str | None]:
    """The author of each text; ready pairs name no authors, but have sides."""
    return table["speaker"].to_pylist() if column == "text" else [column] * len(table)


def _rewrite(path: Path, texts: Sequence[tuple[str, Sequence[str]]], filters: Filters, counts: Counter[str]) -> None:
    """Strip the texts in some columns of a file, each with the columns of its measures."""
    names, habits = _learn(path, [column for column, _ in texts])
    with pq.ParquetFile(path) as file, parquet_writer(path.with_suffix(".new"), file.schema_arrow) as writer:
        for batch in file.iter_batches(BATCH_ROWS):
            table = pa.Table.from_batches([batch])
            for column, measures in texts:
                table = _strip_column(table, column, measures, names, habits, filters, counts)
            writer.add_table(table)
    path.with_suffix(".new").replace(path)


def _suspects(texts: pa.StringArray, names: Names) -> list[int]:
    """The indices of the texts that may change; most texts need not be read by Python."""
    flags = pc.match_substring_regex(texts, SUSPECT).to_pylist()
    return [at for at, text in enumerate(texts.to_pylist()) if flags[at] or names.may_be_in(text)]


def _strip_column(
    table: pa.Table,
    column: str,
    measures: Sequence[str],
    names: Names,
    habits: Endings,
    filters: Filters,
    counts: Counter[str],
) -> pa.Table:
    originals = table[column].combine_chunks()
    stripped, authors, changed = originals.to_pylist(), _authors(table, column), []
    for at in _suspects(originals, names):
        text = stripped[at]
        stripped[at] = strip_letter(text, names, counts, authors[at], habits)
        if stripped[at] != text:
            changed.append(at)
    if not changed:
        return table
    columns = {name: table[name].to_pylist() for name in measures}
    for at in changed:
        characters, alphabetic = len(stripped[at]), sum(map(str.isalpha, stripped[at]))
        language = measure_language(stripped[at], characters, alphabetic, filters)
        for name, value in zip(measures, (characters, alphabetic, language), strict=True):
            columns[name][at] = value
    for name, values in {column: stripped, **columns}.items():
        field = table.schema.field(name)
        table = table.set_column(table.schema.get_field_index(name), field, pa.array(values, field.type))
    return table
