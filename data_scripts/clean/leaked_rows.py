"""Finds the rows of a training dataset that leak: the same rule in a training run and in `data_scripts leakage`."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data_scripts.clean.evaluation_texts import EvaluationTexts
from data_scripts.clean.text import normalize_text

if TYPE_CHECKING:
    from data_scripts.clean.near_duplicates import NearDuplicates


class Leak(NamedTuple):
    """A training text that occurs in evaluation datasets.

    Attributes:
        row: its row in the table.
        text: the text.
        sentences: name of an evaluation dataset -> the normalized sentences that it equals or nearly equals.
        similarity: the largest similarity of a near-duplicate; 1 if it equals an evaluation sentence.
        near: whether these sentences are near-duplicates.
    """

    row: int
    text: str
    sentences: dict[str, set[str]]
    similarity: float
    near: bool


class LeakedRows:
    """Finds the rows to remove, table by table.

    A row leaks if one of its texts does. If rows have groups, such as the captions of an image, a group with a row that
    leaks is removed as a whole.

    Args:
        texts: the evaluation sentences.
        columns: the columns of text to check.
        group_column: the column of the groups, if any.
        near: finds near-duplicates, which then leak, too.
        held_out: names of evaluation datasets whose texts are counted, but do not leak.

    Attributes:
        read: the number of rows.
        rows: name of an evaluation dataset -> rows with a text that equals one of its sentences.
        near_rows: the same for near-duplicates, without the rows in `rows`.
        sentences: name -> its normalized sentences that occur in rows.
        near_sentences: name -> its normalized sentences that rows have a near-duplicate of.
    """

    def __init__(
        self,
        texts: EvaluationTexts,
        columns: list[str],
        group_column: str = "",
        near: NearDuplicates | None = None,
        held_out: Iterable[str] = (),
    ) -> None:
        self.texts, self.columns, self.group_column, self.near = texts, columns, group_column, near
        self.held_out = set(held_out)
        self.read = 0
        self.rows: Counter[str] = Counter()
        self.near_rows: Counter[str] = Counter()
        self.sentences: defaultdict[str, set[str]] = defaultdict(set)
        self.near_sentences: defaultdict[str, set[str]] = defaultdict(set)
        self._remaining: list[pa.Array] = []
        self._groups: list[pa.Array] = []

    def add(self, table: pa.Table) -> list[Leak]:
        """Look up the texts of the next rows; returns those that occur in an evaluation dataset."""
        leaks = self._find(table)
        names: defaultdict[int, set[str]] = defaultdict(set)
        near_names: defaultdict[int, set[str]] = defaultdict(set)
        for leak in leaks:
            (near_names if leak.near else names)[leak.row].update(leak.sentences)
            for name, sentences in leak.sentences.items():
                (self.near_sentences if leak.near else self.sentences)[name].update(sentences)
        remaining = np.ones(len(table), bool)
        for row in names.keys() | near_names.keys():
            self.rows.update(names[row])
            self.near_rows.update(near_names[row] - names[row])
            remaining[row] = not (names[row] | near_names[row]) - self.held_out
        self.read += len(table)
        self._remaining.append(pa.array(remaining))
        if self.group_column:
            self._groups.append(table[self.group_column].combine_chunks().filter(pa.array(~remaining)))
        return leaks

    def _find(self, table: pa.Table) -> list[Leak]:
        leaks = []
        for row, text, names in self.texts.find_rows(table, self.columns):
            form = normalize_text(text)
            leaks.append(Leak(row, text, {name: {form} for name in names}, 1, near=False))
        for row, text, similarities in self.near.find_rows(table, self.columns) if self.near else ():
            sentences: defaultdict[str, set[str]] = defaultdict(set)
            for form in similarities:
                for name in self.texts.names_of[form]:
                    sentences[name].add(form)
            leaks.append(Leak(row, text, dict(sentences), max(similarities.values()), near=True))
        return leaks

    def remaining(self) -> pa.ChunkedArray:
        """Whether each row remains, in order, without regard to groups: bool."""
        return pa.chunked_array(self._remaining, pa.bool_())

    def is_remaining(self, groups: pa.ChunkedArray) -> pa.ChunkedArray:
        """Whether each of these groups has no row that leaks: bool."""
        leaked = pa.chunked_array(self._groups, groups.type).combine_chunks().unique()
        return pc.invert(pc.is_in(groups, leaked))
