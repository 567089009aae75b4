"""Read pairs of sentences that say the same, or are judged whether they do, and write them as Parquet.

SOURCE is a file, a folder or a name on the Hub (sentence-transformers/quora-duplicates:pair, for example). Columns:
sentence1 and sentence2, or anchor and positive, question1 and question2, text1 and text2, caption1 and caption2, a and
b; and, where it is there, score or label or is_duplicate, a number: the output's score is as in the source, None
where the source judges nothing. Pairs with an empty sentence are left out and counted.

Example: python -m data_scripts paraphrases tatoeba.tsv.xz -o data/tatoeba
"""

import argparse
import math
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from data_scripts.errors import InputError
from data_scripts.read.files import BrokenLines
from data_scripts.write.corpora import (
    SOURCE_HELP,
    ColumnNames,
    Rows,
    add_broken_lines,
    add_corpus_arguments,
    corpus_folder,
    print_report,
    read_rows,
    split_file,
    write_report,
    write_rows,
)

PARAPHRASE_SCHEMA = pa.schema([("sentence1", pa.string()), ("sentence2", pa.string()), ("score", pa.float32())])
COLUMN_NAMES: ColumnNames = {
    "sentence1": ("sentence1", "anchor", "question1", "text1", "caption1", "a"),
    "sentence2": ("sentence2", "positive", "question2", "text2", "caption2", "b"),
    "score": ("score", "label", "is_duplicate"),
}
EMPTY, SCORED = "with an empty sentence, left out", "with a score"

Pair = tuple[str, str, float | None]


def _pairs(rows: Rows, counts: Counter[str]) -> Iterator[Pair]:
    for place, row in rows:
        sentences = [row[name] or "" for name in ("sentence1", "sentence2")]
        if not all(isinstance(sentence, str) for sentence in sentences):
            raise InputError(f"{place}: the sentences must be texts; found {sentences[0]!r} and {sentences[1]!r}")
        score = _score(row["score"], place)
        if all(sentence.strip() for sentence in sentences):
            counts[SCORED] += score is not None
            yield sentences[0], sentences[1], score
        else:
            counts[EMPTY] += 1


def _score(value: Any, place: str) -> float | None:
    if value is None or value == "":
        return None
    try:
        score = float(value)
        if math.isfinite(score):
            return score
    except (TypeError, ValueError):
        pass
    raise InputError(f"{place}: score {value!r}; expected a number, or nothing where the pair is not judged")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_corpus_arguments(parser, SOURCE_HELP)


def run(args: argparse.Namespace) -> None:
    """Write the splits as Parquet with report.json, and print the counts."""
    broken, report = BrokenLines(), dict[str, Any]()
    with corpus_folder(args) as (folder, _):
        for split, rows in read_rows(args.source, COLUMN_NAMES, broken, optional=("score",)).items():
            counts: Counter[str] = Counter({SCORED: 0, EMPTY: 0})
            pairs = _pairs(rows, counts)
            size = write_rows(pairs, PARAPHRASE_SCHEMA, split_file(folder, split), lambda pair: len(pair[0] + pair[1]))
            if not size:
                raise InputError(f"{args.source}, split {split}: not one pair of sentences")
            report[split] = {"from": args.source, "pairs": size, **counts}
        add_broken_lines(report, broken)
        write_report(report, folder)
    print_report(report, args.output)
