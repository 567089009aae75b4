"""Read the STS Benchmark, or other scored pairs of sentences, and write Parquet; `sts` reads the SemEval datasets."""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from data_scripts.files.dataset_folders import Report, add_dataset_arguments, write_loaded
from data_scripts.files.datasets import names_split, split_from_value
from data_scripts.files.errors import InputError
from data_scripts.files.rows import ColumnNames, read_rows, text_tables
from data_scripts.files.texts import BrokenLines, find_file, text_lines
from data_scripts.schemas import MAX_SCORE, STS_SCHEMA, STSB_SCHEMA, features

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict


STSB_FILES = {"train": "sts-train.csv", "validation": "sts-dev.csv", "test": "sts-test.csv"}
GENRES = {
    "main-captions": "captions",
    "main-forum": "forums",  # the train file's spelling
    "main-forums": "forums",
    "main-news": "news",
}
# Of tables; the second names are SICK's.
COLUMN_NAMES: ColumnNames = {
    "sentence1": ("sentence1", "sentence_A", "text1"),
    "sentence2": ("sentence2", "sentence_B", "text2"),
    "score": ("score", "relatedness_score", "similarity_score", "similarity"),
    "genre": ("genre",),
    "split": ("split", "SemEval_set"),
}
SPLIT_VALUES = {"trial": "validation"}  # in SICK; other names are those of `split_from_value`
ScoredRow = tuple[str, str, str, Any, str | None]  # location, two sentences, score, genre

logger = logging.getLogger(__name__)


def load_stsb(source: str) -> DatasetDict:
    """Load the STS Benchmark: `sentence1`, `sentence2`, `score` (float32, 0 to 5), `genre` (captions, forums, news).

    Args:
        source: a folder with the original `sts-{train,dev,test}.csv` (tab-separated, never quoted); or a file or a
            folder of Parquet, JSON lines, CSV or TSV with columns of `COLUMN_NAMES`; or a Hub id:
            `mteb/stsbenchmark-sts`, or `sentence-transformers/stsb`, which has no genre (None in every row, logged) and
            scores from 0 to 1 (multiplied by five, logged). The column `split`, or the name of a file, states its
            split; a file without is `test`.

    Returns:
        `train`, `validation` and `test`, as far as they exist; missing ones are logged.

    Raises:
        InputError: there is nothing to read, a column is missing, a genre is unknown, or a score is not from 0 to 5.
    """
    from datasets import DatasetDict

    files = {split: find_file(Path(source), name) for split, name in STSB_FILES.items()}
    rows: dict[str, Iterable[ScoredRow]]
    if any(files.values()):
        rows = {split: _stsb_rows(file) for split, file in files.items() if file is not None}
    else:
        rows = _table_splits(source)
    splits = DatasetDict()
    for split in STSB_FILES:
        if split in rows:
            splits[split] = scored_dataset(rows[split], STSB_SCHEMA, f"{source}, split {split}")
        else:
            logger.warning("%s: no %s split; left out", source, split)
    if not splits:
        raise InputError(f"{source}: has none of the splits {', '.join(STSB_FILES)}")
    return splits


load_evaluation = load_stsb  # for `leakage --against stsb=SOURCE`


def _stsb_rows(path: Path) -> Iterator[ScoredRow]:
    """Rows of an original file: genre, file, year, number, score, two sentences; some have two more columns."""
    for location, line in text_lines(path):
        columns = line.split("\t")
        if len(columns) < 7:
            raise InputError(
                f"{location}: {len(columns)} columns; expected genre, file, year, number, score, two sentences"
            )
        yield location, columns[5], columns[6], columns[4], columns[0]


def _table_splits(source: str) -> dict[str, Iterable[ScoredRow]]:
    files = text_tables(source)
    default = "test" if files and not any(names_split(file.name) for file in files) else None
    splits: dict[str, list[ScoredRow]] = {}
    for name, rows in table_rows(source, COLUMN_NAMES).items():
        for location, row in rows:
            stated = str(row["split"] or "").lower()
            split = SPLIT_VALUES.get(stated) or split_from_value(stated) or default or name
            scored = location, row["sentence1"], row["sentence2"], row["score"], row["genre"] or None
            splits.setdefault(split, []).append(scored)
    if not any(row[4] for rows in splits.values() for row in rows):
        logger.warning("%s: has no genre; scores by genre are not available", source)
    return dict(splits)


def table_rows(source: str, names: ColumnNames) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Split -> rows (location, role -> value) of tables or of a Hub dataset; `names` are as for `read_rows`.

    If no score is above 1, all are multiplied by five, which is logged.
    """
    broken = BrokenLines()
    optional = tuple(name for name in names if name not in STS_SCHEMA.names)
    read = read_rows(source, names, broken, optional=optional, cached=True)
    splits = {split: list(rows) for split, rows in read.items()}
    if broken.examples:
        raise InputError(f"{broken.examples[0]}; correct this line")
    scored = []
    for _, row in (row for rows in splits.values() for row in rows):
        with suppress(TypeError, ValueError):  # `scored_dataset` refuses others
            row["score"] = float(row["score"])
            scored.append(row)
    if scored and max(row["score"] for row in scored) <= 1:
        logger.warning("%s: scores go from 0 to 1; multiplied by %g", source, MAX_SCORE)
        for row in scored:
            row["score"] *= MAX_SCORE
    return splits


def scored_dataset(rows: Iterable[ScoredRow], schema: pa.Schema, name: str) -> Dataset:
    """Check every row (two texts, a score of 0 to 5, a genre), and return a dataset of the columns in `schema`."""
    from datasets import Dataset

    columns: dict[str, list[Any]] = {"sentence1": [], "sentence2": [], "score": [], "genre": []}
    for location, sentence1, sentence2, score, genre in rows:
        if not isinstance(sentence1, str) or not isinstance(sentence2, str):
            raise InputError(
                f"{location}: sentence1 and sentence2 must be texts; found {sentence1!r} and {sentence2!r}"
            )
        values = (sentence1, sentence2, _parse_score(score, location), _parse_genre(genre, location))
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    if not columns["score"]:
        raise InputError(f"{name}: contains no scored pair")
    return Dataset.from_dict({name: columns[name] for name in schema.names}, features=features(schema))


def _parse_score(value: Any, location: str) -> float:
    try:
        score = float(value)
        if 0 <= score <= MAX_SCORE:
            return score
    except (TypeError, ValueError, OverflowError):
        pass
    raise InputError(f"{location}: score {value!r}; expected a number from 0 to {MAX_SCORE:g}")


def _parse_genre(value: str | None, location: str) -> str | None:
    genre = GENRES.get(value, value) if value is not None else None
    if genre is not None and genre not in GENRES.values():
        raise InputError(f"{location}: genre {value!r}; expected one of {', '.join(GENRES)}")
    return genre


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_dataset_arguments(
        parser,
        "folder with sts-{train,dev,test}.csv; a file or a folder of Parquet, .jsonl, .csv or .tsv with the columns "
        "sentence1, sentence2 and score; or a Hub id, for example mteb/stsbenchmark-sts",
    )


def run(args: argparse.Namespace) -> None:
    """Write the splits as Parquet with report.json, and print the counts by genre."""

    def load(broken: BrokenLines) -> tuple[DatasetDict, Report]:
        splits = load_stsb(args.source)
        genres = {name: Counter(genre or "no genre" for genre in split["genre"]) for name, split in splits.items()}
        return splits, {
            name: {"from": args.source, "rows": len(split), **dict(sorted(genres[name].items()))}
            for name, split in splits.items()
        }

    write_loaded(args, load)
