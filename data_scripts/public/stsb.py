"""Read the STS Benchmark, or other scored pairs of sentences, and write Parquet; `sts` reads the SemEval datasets."""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_scripts.files.dataset_folders import Report, add_dataset_arguments, write_dataset, write_splits
from data_scripts.files.datasets import load_columns, names_split, split_from_value
from data_scripts.files.errors import InputError
from data_scripts.files.rows import ColumnNames, read_rows, text_tables
from data_scripts.files.texts import BrokenLines, find_file, text_lines
from data_scripts.schemas import MAX_SCORE

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict, Features


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

    from data_scripts.features import STSB_FEATURES

    files = {split: find_file(Path(source), name) for split, name in STSB_FILES.items()}
    if any(files.values()):
        rows = {split: _stsb_rows(file) for split, file in files.items() if file is not None}
    else:
        rows = _column_rows(source)
    splits = DatasetDict()
    for split in STSB_FILES:
        if split in rows:
            splits[split] = scored_dataset(rows[split], STSB_FEATURES, f"{source}, split {split}")
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


def _column_rows(source: str) -> dict[str, Iterator[ScoredRow]]:
    """Rows of each split of tables or of a Hub dataset; scores from 0 to 1 are multiplied by five."""
    from data_scripts.features import STS_FEATURES

    if files := text_tables(source):
        return _table_rows(source, files)
    loaded = load_columns(source, tuple(STS_FEATURES))
    scores = (score for split in loaded.values() for score in split["score"])
    scale = score_scale(scores, source)
    if not all("genre" in split.column_names for split in loaded.values()):
        logger.warning("%s: has no genre; scores by genre are not available", source)
    return {name: _split_rows(split, f"{source}, split {name}", scale) for name, split in loaded.items()}


def _table_rows(source: str, files: list[Path]) -> dict[str, Iterator[ScoredRow]]:
    broken = BrokenLines()
    splits: dict[str, list[ScoredRow]] = {}
    default = None if any(names_split(file.name) for file in files) else "test"
    for name, rows in read_rows(source, COLUMN_NAMES, broken, optional=("genre", "split")).items():
        for location, row in rows:
            stated = str(row["split"] or "").lower()
            split = SPLIT_VALUES.get(stated) or split_from_value(stated) or default or name
            score = _number(row["score"])
            splits.setdefault(split, []).append((location, row["sentence1"], row["sentence2"], score, row["genre"]))
    if broken.examples:
        raise InputError(f"{broken.examples[0]}; correct this line")
    scale = score_scale((row[3] for rows in splits.values() for row in rows), source)
    if not any(row[4] for rows in splits.values() for row in rows):
        logger.warning("%s: has no genre; scores by genre are not available", source)
    return {name: _checked(rows, scale) for name, rows in splits.items()}


def _number(value: Any) -> Any:
    """A number that a table has as text; another value as it is, for the message that refuses it."""
    try:
        return float(value)
    except (TypeError, ValueError):
        return value


def score_scale(scores: Iterable[Any], source: str) -> float:
    """The factor that scales scores to 0 to 5: 5 if none is above 1, which is logged; else 1."""
    numbers = [score for score in scores if isinstance(score, float | int)]
    if not numbers or max(numbers) > 1:
        return 1.0
    logger.warning("%s: scores go from 0 to 1; multiplied by %g", source, MAX_SCORE)
    return MAX_SCORE


def _split_rows(split: Dataset, name: str, scale: float) -> Iterator[ScoredRow]:
    genres = split["genre"] if "genre" in split.column_names else [None] * len(split)
    columns = zip(split["sentence1"], split["sentence2"], split["score"], genres, strict=True)
    return _checked(((f"{name}, row {number}", *row) for number, row in enumerate(columns, start=1)), scale)


def _checked(rows: Iterable[ScoredRow], scale: float) -> Iterator[ScoredRow]:
    for location, sentence1, sentence2, score, genre in rows:
        if not isinstance(sentence1, str) or not isinstance(sentence2, str):
            raise InputError(
                f"{location}: sentence1 and sentence2 must be texts; found {sentence1!r} and {sentence2!r}"
            )
        yield location, sentence1, sentence2, score * scale if isinstance(score, float | int) else score, genre or None


def scored_dataset(rows: Iterable[ScoredRow], features: Features, name: str) -> Dataset:
    """Check every score (0 to 5) and genre, and return the rows as a dataset of the columns in `features`."""
    from datasets import Dataset

    columns: dict[str, list[Any]] = {"sentence1": [], "sentence2": [], "score": [], "genre": []}
    for location, sentence1, sentence2, score, genre in rows:
        values = (sentence1, sentence2, _parse_score(score, location), _parse_genre(genre, location))
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    if not columns["score"]:
        raise InputError(f"{name}: contains no scored pair")
    return Dataset.from_dict({name: columns[name] for name in features}, features=features)


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

    def write(folder: Path, scratch: Path, broken: BrokenLines) -> Report:
        splits = load_stsb(args.source)
        write_splits(splits, folder)
        genres = {name: Counter(genre or "no genre" for genre in split["genre"]) for name, split in splits.items()}
        return {
            name: {"from": args.source, "rows": len(split), **dict(sorted(genres[name].items()))}
            for name, split in splits.items()
        }

    write_dataset(args, write)
