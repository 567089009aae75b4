"""Read the STS Benchmark from a folder or the Hub and write it as Parquet; `sts` reads the SemEval sets."""

import argparse
import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from datasets import Dataset, DatasetDict, Features, Value

from data_scripts.errors import InputError
from data_scripts.write.corpora import (
    add_corpus_arguments,
    corpus_folder,
    find_file,
    load_columns,
    text_lines,
    write_splits,
)

PAIR_FEATURES = {"sentence1": Value("string"), "sentence2": Value("string"), "score": Value("float32")}
STSB_FEATURES = Features({**PAIR_FEATURES, "genre": Value("string")})
MAX_SCORE = 5.0
STSB_FILES = {"train": "sts-train.csv", "validation": "sts-dev.csv", "test": "sts-test.csv"}
GENRES = {
    "main-captions": "captions",
    "main-forum": "forums",  # the train file's spelling
    "main-forums": "forums",
    "main-news": "news",
}
Row = tuple[str, str, str, Any, str | None]  # place, two sentences, score, genre

logger = logging.getLogger(__name__)


def load_stsb(source: str) -> DatasetDict:
    """The STS Benchmark as `sentence1`, `sentence2`, `score` (float32, 0 to 5) and `genre` (captions, forums, news).

    Args:
        source: a folder with the original `sts-{train,dev,test}.csv` (tab separated, never quoted), or with Parquet of
            the columns above; or a Hub id: `mteb/stsbenchmark-sts`, or `sentence-transformers/stsb`, which has no genre
            (None in every row, logged) and scores from 0 to 1 (multiplied by five, logged).

    Returns:
        `train`, `validation` and `test`; a missing one is left out and logged.

    Raises:
        InputError: nothing to read, columns missing, an unknown genre, or a score that is no number from 0 to 5.
    """
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


def _stsb_rows(path: Path) -> Iterator[Row]:
    """Rows of an original file: genre, file, year, number, score, two sentences; some have two columns more."""
    for place, line in text_lines(path):
        columns = line.split("\t")
        if len(columns) < 7:
            raise InputError(
                f"{place}: {len(columns)} columns; expected genre, file, year, number, score, two sentences"
            )
        yield place, columns[5], columns[6], columns[4], columns[0]


def _column_rows(source: str) -> dict[str, Iterator[Row]]:
    """Rows of each split of a folder of Parquet or of a Hub data set; scores from 0 to 1 are multiplied by five."""
    loaded = load_columns(source, tuple(PAIR_FEATURES))
    scale = score_scale(loaded, source)
    if not all("genre" in split.column_names for split in loaded.values()):
        logger.warning("%s: has no genre; scores by genre cannot be given", source)
    return {name: _split_rows(split, f"{source}, split {name}", scale) for name, split in loaded.items()}


def score_scale(splits: DatasetDict, source: str) -> float:
    """What the column `score` is multiplied by to go from 0 to 5: 5 where no score is above 1, logged; else 1."""
    scores = [score for split in splits.values() for score in split["score"] if isinstance(score, float | int)]
    if not scores or max(scores) > 1:
        return 1.0
    logger.warning("%s: scores go from 0 to 1; multiplied by %g", source, MAX_SCORE)
    return MAX_SCORE


def _split_rows(split: Dataset, name: str, scale: float) -> Iterator[Row]:
    genres = split["genre"] if "genre" in split.column_names else [None] * len(split)
    columns = zip(split["sentence1"], split["sentence2"], split["score"], genres, strict=True)
    for number, (sentence1, sentence2, score, genre) in enumerate(columns, start=1):
        place = f"{name}, row {number}"
        if not isinstance(sentence1, str) or not isinstance(sentence2, str):
            raise InputError(f"{place}: sentence1 and sentence2 must be texts; found {sentence1!r} and {sentence2!r}")
        yield place, sentence1, sentence2, score * scale if isinstance(score, float | int) else score, genre


def scored_dataset(rows: Iterable[Row], features: Features, name: str) -> Dataset:
    """Check every score (0 to 5) and genre, and make a data set of the columns in `features`."""
    kept: dict[str, list[Any]] = {"sentence1": [], "sentence2": [], "score": [], "genre": []}
    for place, sentence1, sentence2, score, genre in rows:
        values = (sentence1, sentence2, _score(score, place), _genre(genre, place))
        for column, value in zip(kept.values(), values, strict=True):
            column.append(value)
    if not kept["score"]:
        raise InputError(f"{name}: not one scored pair")
    return Dataset.from_dict({column: kept[column] for column in features}, features=features)


def _score(value: Any, place: str) -> float:
    try:
        score = float(value)
        if 0 <= score <= MAX_SCORE:
            return score
    except (TypeError, ValueError):
        pass
    raise InputError(f"{place}: score {value!r}; expected a number from 0 to {MAX_SCORE:g}")


def _genre(value: str | None, place: str) -> str | None:
    genre = GENRES.get(value, value) if value is not None else None
    if genre is not None and genre not in GENRES.values():
        raise InputError(f"{place}: genre {value!r}; expected one of {', '.join(GENRES)}")
    return genre


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_corpus_arguments(parser, "folder with sts-{train,dev,test}.csv; or a Hub id, for example mteb/stsbenchmark-sts")


def run(args: argparse.Namespace) -> None:
    """Write the splits as Parquet with report.json, and print the counts by genre."""
    with corpus_folder(args) as (folder, _):
        splits = load_stsb(args.source)
        report = {
            name: {"from": args.source, "rows": len(split), "genres": _genres(split)} for name, split in splits.items()
        }
        write_splits(splits, report, folder)
    for name, counts in report.items():
        genres = ", ".join(f"{genre} {number:,}" for genre, number in counts["genres"].items())
        print(f"{name}: {counts['rows']:,} pairs ({genres})")
    print(f"saved in {args.output}")


def _genres(split: Dataset) -> dict[str, int]:
    return dict(sorted(Counter(genre or "no genre" for genre in split["genre"]).items()))
