"""Read pairs of paraphrases, or pairs rated as paraphrases or not, and write them as Parquet.

SOURCE is a file, a folder or a dataset on the Hub. Columns: sentence1 and sentence2, or anchor and positive, text and
simplified, english and non_english, a and b, or one of question, text, caption, title, body and post with a 1 and a 2
after it; and, optionally, score, label or is_duplicate, a number, which becomes the score. Those of SICK are known
too. The score of unrated pairs is None. A column negative adds the pair of the first sentence and the negative:
its score is 0, and that of the paraphrases is 1. Pairs with an empty sentence are left out and counted.

Examples: python -m data_scripts paraphrases tatoeba.tsv.xz -o data/tatoeba
          python -m data_scripts paraphrases sentence-transformers/quora-duplicates:pair -o data/quora
          python -m data_scripts paraphrases sentence-transformers/all-nli:triplet -o data/all_nli_triplets
"""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_scripts.files.dataset_folders import Report, add_dataset_arguments, load_written, split_file, write_dataset
from data_scripts.files.errors import InputError
from data_scripts.files.parquet import write_rows
from data_scripts.files.records import Rows
from data_scripts.files.rows import SOURCE_HELP, ColumnNames, read_rows
from data_scripts.files.texts import BrokenLines
from data_scripts.schemas import PARAPHRASE_SCHEMA

if TYPE_CHECKING:
    from datasets import DatasetDict


_NUMBERED = ("question", "text", "caption", "title", "body", "post")
COLUMN_NAMES: ColumnNames = {
    "sentence1": (
        "sentence1",
        "anchor",
        *(f"{name}1" for name in _NUMBERED),
        "english",
        "text",
        "a",
        "sentence_A",
        "#1 String",
    ),
    "sentence2": (
        "sentence2",
        "positive",
        *(f"{name}2" for name in _NUMBERED),
        "non_english",
        "simplified",
        "b",
        "sentence_B",
        "#2 String",  # of the Microsoft Research Paraphrase Corpus
    ),
    "negative": ("negative",),
    "score": ("score", "label", "is_duplicate", "relatedness_score", "Quality"),
}
OPTIONAL = ("negative", "score")
LARGEST = 3.4028234663852886e38  # of float32, the type of the scores
EMPTY, SCORED = "with an empty sentence, left out", "with a score"

Pair = tuple[str, str, float | None]


def _pairs(rows: Rows, counts: Counter[str]) -> Iterator[Pair]:
    for location, row in rows:
        score = _score(row["score"], location) if row["negative"] is None else 1.0
        seconds = [(row["sentence2"], score)] + [(row["negative"], 0.0)] * (row["negative"] is not None)
        for second, score in seconds:
            sentences = [row["sentence1"] or "", second or ""]
            if not all(isinstance(sentence, str) for sentence in sentences):
                raise InputError(
                    f"{location}: the sentences must be texts; found {sentences[0]!r} and {sentences[1]!r}"
                )
            if all(sentence.strip() for sentence in sentences):
                counts[SCORED] += score is not None
                yield sentences[0], sentences[1], score
            else:
                counts[EMPTY] += 1


def _score(value: Any, location: str) -> float | None:
    if value is None or value == "":
        return None
    try:
        score = float(value)
        if abs(score) <= LARGEST:
            return score
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"{location}: score {value!r}; expected a number, or nothing if the pair is not rated")


def load_paraphrases(source: str) -> DatasetDict:
    """Load the output of the command, or a dataset on the Hub as the command reads it: sentence1, sentence2, score.

    The pairs of a dataset on the Hub are held in memory.

    Raises:
        InputError: there is nothing to read, a column is missing, or a score is not a number.
    """
    return load_written(source, tuple(PARAPHRASE_SCHEMA.names), partial(_write_splits, source, cached=True))


def _write_splits(source: str, folder: Path, scratch: Path, broken: BrokenLines, cached: bool = False) -> Report:
    report: Report = {}
    for split, rows in read_rows(source, COLUMN_NAMES, broken, optional=OPTIONAL, cached=cached).items():
        counts: Counter[str] = Counter({SCORED: 0, EMPTY: 0})
        pairs = _pairs(rows, counts)
        size = write_rows(pairs, PARAPHRASE_SCHEMA, split_file(folder, split), lambda pair: len(pair[0] + pair[1]))
        if not size:
            raise InputError(f"{source}, split {split}: contains no pair of sentences")
        report[split] = {"from": source, "pairs": size, **counts}
    return report


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_dataset_arguments(parser, SOURCE_HELP)


def run(args: argparse.Namespace) -> None:
    """Write the splits as Parquet with report.json, and print the counts."""
    write_dataset(args, partial(_write_splits, args.source))
