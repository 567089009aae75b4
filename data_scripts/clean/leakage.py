"""Finds the rows of a training dataset in which a text equals an evaluation sentence."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

from data_scripts.clean.text import normalize_text
from data_scripts.files.errors import InputError

if TYPE_CHECKING:
    from datasets import Dataset

BATCH = 2_000  # rows that are looked up together
EXAMPLES = 5  # leaked texts of each evaluation dataset that are reported
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


class Leakage:
    """Finds the rows in which a text equals an evaluation sentence, both normalized; memory holds the sentences.

    Args:
        evaluation: name of an evaluation dataset -> its sentences. One that is empty when normalized matches nothing.

    Attributes:
        read: the number of rows.
        rows: name of an evaluation dataset -> the number of rows with one of its sentences.
        sentences: name -> its normalized sentences that occur in rows.
        examples: name -> the first texts that equal one of its sentences, with the numbers of their rows.
    """

    def __init__(self, evaluation: Mapping[str, Iterable[str]]) -> None:
        self.read = 0
        self.rows = Counter[str]()
        self.sentences: defaultdict[str, set[str]] = defaultdict(set)
        self.examples: defaultdict[str, list[dict[str, Any]]] = defaultdict(list)
        self._names_of: defaultdict[str, set[str]] = defaultdict(set)
        for name, sentences in evaluation.items():
            for sentence in sentences:
                self._names_of[normalize_text(sentence)].add(name)
        self._names_of.pop("", None)

    def find(self, table: pa.Table, columns: list[str]) -> np.ndarray:
        """Whether each of the next rows has an evaluation sentence in one of these columns: (rows,) bool."""
        names_of_row: defaultdict[int, set[str]] = defaultdict(set)
        for row, text in _row_texts(table, columns):
            form = normalize_text(text or "")
            for name in self._names_of.get(form, ()):
                names_of_row[row].add(name)
                self.sentences[name].add(form)
                if len(self.examples[name]) < EXAMPLES:
                    self.examples[name].append({"row": self.read + row + 1, "text": text})
        for names in names_of_row.values():
            self.rows.update(names)
        self.read += len(table)
        found = np.zeros(len(table), bool)
        found[list(names_of_row)] = True
        return found


def remove_leaked(
    dataset: Dataset, columns: list[str], evaluation: Mapping[str, Iterable[str]], group_column: str = ""
) -> tuple[Dataset, dict[str, int]]:
    """Remove the rows in which a text of a column equals an evaluation sentence, both normalized.

    Args:
        dataset: the rows to train on.
        columns: the columns of text to check.
        evaluation: as for `Leakage`.
        group_column: a column; the rows that share its value with a removed row are removed too, such as the other
            captions of an image.

    Returns:
        The remaining rows in their order, and the number of rows that leak from each evaluation dataset (a row may leak
        from more than one), with the number of rows removed as "removed".
    """
    leakage, leaks = Leakage(evaluation), np.zeros(len(dataset), bool)
    tables = dataset.select_columns(columns).with_format("arrow")
    with tqdm(total=len(dataset), delay=1, unit="row", unit_scale=True, desc="leakage") as bar:
        for start in range(0, len(dataset), BATCH):
            table = tables[start : start + BATCH]
            leaks[start : start + len(table)] = leakage.find(table, columns)
            bar.update(len(table))
    if group_column:
        groups = dataset.with_format("arrow")[:][group_column]
        leaks = pc.is_in(groups, groups.filter(pa.array(leaks)).unique()).to_numpy()
    counts = {name: leakage.rows[name] for name in evaluation} | {"removed": int(leaks.sum())}
    return dataset.select(np.flatnonzero(~leaks)), counts
