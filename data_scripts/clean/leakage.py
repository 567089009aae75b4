"""Finds the rows of a training dataset in which a text equals an evaluation sentence."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from tqdm import tqdm

from data_scripts.clean.text import normalize_text
from modeling_convsim.files.errors import InputError

if TYPE_CHECKING:
    from datasets import Dataset

BATCH = 2_000  # rows that are looked up together
# Columns of text in our datasets and public ones; each row holds a text.
TEXT_COLUMNS = (
    *("input", "response", "context", "premise", "hypothesis", "sentence1", "sentence2", "query", "candidate"),
    *("captions", "caption", "sentence", "sentences", "text", "text1", "text2", "question", "question1", "question2"),
    "related",
    *("anchor", "positive", "negative", "answer", "caption1", "caption2", "title1", "title2", "body1", "body2"),
    *("post1", "post2", "simplified", "english", "non_english"),
)


def text_columns(columns: Iterable[str], location: str) -> list[str]:
    """The columns of a table that hold texts, recognized by their names.

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


def remove_leaked(
    dataset: Dataset, columns: list[str], evaluation: Mapping[str, Iterable[str]], group_column: str = ""
) -> tuple[Dataset, dict[str, int]]:
    """Remove the rows in which a text of a column equals an evaluation sentence, both normalized.

    Args:
        dataset: the rows to train on.
        columns: the columns of text to check.
        evaluation: name of an evaluation dataset -> its sentences. One that is empty when normalized matches nothing.
        group_column: a column; the rows that share its value with a removed row are removed too, such as the other
            captions of an image.

    Returns:
        The remaining rows in their order, and the number of rows that leak from each evaluation dataset (a row may leak
        from more than one), with the number of rows removed as "removed".
    """
    names_of: defaultdict[str, set[str]] = defaultdict(set)
    for name, sentences in evaluation.items():
        for sentence in sentences:
            names_of[normalize_text(sentence)].add(name)
    names_of.pop("", None)
    rows, leaks = Counter[str](), np.zeros(len(dataset), bool)
    tables = dataset.select_columns(columns).with_format("arrow")
    with tqdm(total=len(dataset), delay=1, unit="row", unit_scale=True, desc="leakage") as bar:
        for start in range(0, len(dataset), BATCH):
            table = tables[start : start + BATCH]
            names_of_row: defaultdict[int, set[str]] = defaultdict(set)
            for column in table.columns:
                for row, text in enumerate(column.to_pylist(), start):
                    for name in names_of.get(normalize_text(text or ""), ()):
                        names_of_row[row].add(name)
            for names in names_of_row.values():
                rows.update(names)
            leaks[list(names_of_row)] = True
            bar.update(len(table))
    if group_column:
        groups = dataset.with_format("arrow")[:][group_column]
        leaks = pc.is_in(groups, groups.filter(pa.array(leaks)).unique()).to_numpy()
    counts = {name: rows[name] for name in evaluation} | {"removed": int(leaks.sum())}
    return dataset.select(np.flatnonzero(~leaks)), counts
