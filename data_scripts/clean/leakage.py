"""Finds the rows of a training dataset in which a text equals an evaluation sentence."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

from data_scripts.clean.text import normalize_text
from data_scripts.files.errors import InputError

if TYPE_CHECKING:
    from datasets import Dataset

BATCH = 2_000  # rows that are looked up together
# Columns of text in our datasets and public ones; each row holds a text or a list of texts.
TEXT_COLUMNS = (
    *("input", "response", "context", "premise", "hypothesis", "sentence1", "sentence2", "query", "candidate"),
    *("captions", "caption", "sentence", "sentences", "text", "text1", "text2", "question", "question1", "question2"),
    "related",
    *("anchor", "positive", "negative", "answer", "caption1", "caption2", "title1", "title2", "body1", "body2"),
    *("post1", "post2", "simplified", "english", "non_english"),
)


def text_columns(columns: Iterable[str], location: str) -> list[str]:
    """The columns of a table that hold texts, or lists of them, recognized by their names.

    Raises:
        InputError: there is none; the message begins with `location`.
    """
    available = list(columns)
    texts = [name for name in TEXT_COLUMNS if name in available]
    if not texts:
        raise InputError(
            f"{location}: no column of text; expected some of {', '.join(TEXT_COLUMNS)}; found {', '.join(available)}"
        )
    return texts


def _row_texts(table: pa.Table, columns: list[str]) -> Iterator[tuple[int, str | None]]:
    """(row, text) of each text in columns whose values are a text or a list of texts."""
    for name in columns:
        column = table[name].combine_chunks()
        rows: Iterable[int] = range(len(column))
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            rows, column = pc.list_parent_indices(column).to_pylist(), pc.list_flatten(column)
        yield from zip(rows, column.to_pylist(), strict=True)


class Leak(NamedTuple):
    """A training text that equals a sentence of evaluation datasets.

    Attributes:
        row: its row in the table.
        text: the text.
        names: the evaluation datasets.
    """

    row: int
    text: str
    names: set[str]


class LeakedRows:
    """Finds the rows to remove, table by table.

    A row leaks if one of its texts equals an evaluation sentence when both are normalized. If rows have groups, such as
    the captions of an image, a group with a row that leaks is removed as a whole. Memory holds the sentences.

    Args:
        evaluation: name of an evaluation dataset -> its sentences. One that is empty when normalized matches nothing.
        group_column: the column of the groups, if any.

    Attributes:
        read: the number of rows.
        rows: name of an evaluation dataset -> the number of rows with one of its sentences.
        sentences: name -> its normalized sentences that occur in rows.
    """

    def __init__(self, evaluation: Mapping[str, Iterable[str]], group_column: str = "") -> None:
        self.group_column = group_column
        self.read = 0
        self.rows = Counter[str]()
        self.sentences: defaultdict[str, set[str]] = defaultdict(set)
        self._names_of: defaultdict[str, set[str]] = defaultdict(set)
        for name, sentences in evaluation.items():
            for sentence in sentences:
                self._names_of[normalize_text(sentence)].add(name)
        self._names_of.pop("", None)
        self._remaining: list[pa.Array] = []
        self._groups: list[pa.Array] = []

    def add(self, table: pa.Table, columns: list[str]) -> list[Leak]:
        """Look up the texts of some columns of the next rows; returns those that occur in an evaluation dataset."""
        leaks = []
        names_of_row: defaultdict[int, set[str]] = defaultdict(set)
        for row, text in _row_texts(table, columns):
            form = normalize_text(text or "")
            if names := self._names_of.get(form):
                leaks.append(Leak(row, text or "", names))
                names_of_row[row] |= names
                for name in names:
                    self.sentences[name].add(form)
        for names in names_of_row.values():
            self.rows.update(names)
        remaining = np.ones(len(table), bool)
        remaining[list(names_of_row)] = False
        self.read += len(table)
        self._remaining.append(pa.array(remaining))
        if self.group_column:
            self._groups.append(table[self.group_column].combine_chunks().filter(pa.array(~remaining)))
        return leaks

    def remaining(self) -> pa.ChunkedArray:
        """Whether each row remains, in order, without regard to groups: bool."""
        return pa.chunked_array(self._remaining, pa.bool_())

    def is_remaining(self, groups: pa.ChunkedArray) -> pa.ChunkedArray:
        """Whether each of these groups has no row that leaks: bool."""
        leaked = pa.chunked_array(self._groups, groups.type).combine_chunks().unique()
        return pc.invert(pc.is_in(groups, leaked))


def remove_leaked(
    dataset: Dataset, columns: list[str], evaluation: Mapping[str, Iterable[str]], group_column: str = ""
) -> tuple[Dataset, dict[str, int]]:
    """Remove the rows in which a text of a column equals an evaluation sentence, both normalized.

    Args:
        dataset: the rows to train on.
        columns: the columns of text to check.
        evaluation: as for `LeakedRows`.
        group_column: a column; the rows that share its value with a removed row are removed too, such as the other
            captions of an image.

    Returns:
        The remaining rows in their order, and the number of rows that leak from each evaluation dataset (a row may leak
        from more than one), with the number of rows removed as "removed".
    """
    leaked = LeakedRows(evaluation, group_column)
    tables = dataset.select_columns([*columns, group_column] if group_column else columns).with_format("arrow")
    with tqdm(total=len(dataset), delay=1, unit="row", unit_scale=True, desc="leakage") as bar:
        for start in range(0, len(dataset), BATCH):
            table = tables[start : start + BATCH]
            leaked.add(table, columns)
            bar.update(len(table))
    groups = dataset.with_format("arrow")[:][group_column] if group_column else None
    remaining = (leaked.remaining() if groups is None else leaked.is_remaining(groups)).to_numpy()
    counts = {name: leaked.rows[name] for name in evaluation} | {"removed": int(len(remaining) - remaining.sum())}
    return dataset.select(np.flatnonzero(remaining)), counts
