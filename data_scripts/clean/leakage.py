"""Removes the rows of a training dataset in which a text equals an evaluation sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import numpy as np
from tqdm import tqdm

from data_scripts.clean.evaluation_texts import EvaluationTexts
from data_scripts.clean.leaked_rows import LeakedRows
from data_scripts.files.errors import InputError

if TYPE_CHECKING:
    from datasets import Dataset

BATCH = 2_000  # rows that are looked up together
# Columns of text in our datasets and public ones; each row holds a text or a list of texts.
TEXT_COLUMNS = (
    *("input", "response", "premise", "hypothesis", "sentence1", "sentence2", "query", "candidate", "captions"),
    *("sentence", "caption", "sentences", "text", "text1", "text2", "question", "question1", "question2", "related"),
    *("anchor", "positive", "negative", "answer", "caption1", "caption2", "title1", "title2", "body1", "body2"),
    *("post1", "post2", "simplified", "english", "non_english"),
)


def remove_leaked(
    dataset: Dataset, columns: list[str], evaluation: Mapping[str, Iterable[str]], group_column: str = ""
) -> tuple[Dataset, dict[str, int]]:
    """Remove the rows in which a text of a column equals an evaluation sentence, both normalized.

    Args:
        dataset: the rows to train on.
        columns: the columns of text to check.
        evaluation: as for `EvaluationTexts`.
        group_column: a column; the rows that share its value with a removed row are removed too, such as the other
            captions of an image.

    Returns:
        The remaining rows in their order, and the number of rows that leak from each evaluation dataset (a row may leak
        from more than one), with the number of rows removed as "removed".
    """
    leaked = LeakedRows(EvaluationTexts(evaluation), columns, group_column)
    tables = dataset.select_columns([*columns, group_column] if group_column else columns).with_format("arrow")
    with tqdm(total=len(dataset), delay=1, unit="row", unit_scale=True, desc="leakage") as bar:
        for start in range(0, len(dataset), BATCH):
            table = tables[start : start + BATCH]
            leaked.add(table)
            bar.update(len(table))
    groups = dataset.with_format("arrow")[:][group_column] if group_column else None
    remaining = (leaked.remaining() if groups is None else leaked.is_remaining(groups)).to_numpy()
    counts = {name: leaked.rows[name] for name in evaluation} | {"removed": int(len(remaining) - remaining.sum())}
    return dataset.select(np.flatnonzero(remaining)), counts


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
