"""Read pairs of paraphrases, or pairs rated as paraphrases or not, and write them as Parquet.

SOURCE is a file, a folder or a dataset on the Hub (for example sentence-transformers/quora-duplicates:pair). Columns:
sentence1 and sentence2, or anchor and positive, question1 and question2, text1 and text2, caption1 and caption2, a and
b; and, optionally, score, label or is_duplicate, a number, which becomes the score. The score of unrated pairs is None.
Pairs with an empty sentence are left out and counted.

Example: python -m data_scripts paraphrases tatoeba.tsv.xz -o data/tatoeba
"""

import argparse
from collections import Counter
from collections.abc import Iterator
from typing import Any

from data_scripts.errors import InputError
from data_scripts.read.files import BrokenLines
from data_scripts.read.records import Rows
from data_scripts.read.rows import SOURCE_HELP, ColumnNames, read_rows
from data_scripts.schemas import PARAPHRASE_SCHEMA
from data_scripts.write.datasets import add_dataset_arguments, dataset_folder, split_file
from data_scripts.write.parquet import write_rows
from data_scripts.write.report import Report, add_broken_lines, print_report, write_report

COMMANDS = ("paraphrases",)

COLUMN_NAMES: ColumnNames = {
    "sentence1": ("sentence1", "anchor", "question1", "text1", "caption1", "a"),
    "sentence2": ("sentence2", "positive", "question2", "text2", "caption2", "b"),
    "score": ("score", "label", "is_duplicate"),
}
LARGEST = 3.4028234663852886e38  # of float32, the type of the scores
EMPTY, SCORED = "with an empty sentence, left out", "with a score"

Pair = tuple[str, str, float | None]


def _pairs(rows: Rows, counts: Counter[str]) -> Iterator[Pair]:
    for location, row in rows:
        sentences = [row[name] or "" for name in ("sentence1", "sentence2")]
        if not all(isinstance(sentence, str) for sentence in sentences):
            raise InputError(f"{location}: the sentences must be texts; found {sentences[0]!r} and {sentences[1]!r}")
        score = _score(row["score"], location)
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


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_dataset_arguments(parser, SOURCE_HELP)


def run(args: argparse.Namespace) -> None:
    """Write the splits as Parquet with report.json, and print the counts."""
    broken = BrokenLines()
    report: Report = {}
    with dataset_folder(args) as (folder, _):
        for split, rows in read_rows(args.source, COLUMN_NAMES, broken, optional=("score",)).items():
            counts: Counter[str] = Counter({SCORED: 0, EMPTY: 0})
            pairs = _pairs(rows, counts)
            size = write_rows(pairs, PARAPHRASE_SCHEMA, split_file(folder, split), lambda pair: len(pair[0] + pair[1]))
            if not size:
                raise InputError(f"{args.source}, split {split}: contains no pair of sentences")
            report[split] = {"from": args.source, "pairs": size, **counts}
        add_broken_lines(report, broken)
        write_report(report, folder)
    print_report(report, args.output)
