"""Read the datasets of SemEval STS 2012 to 2016 from local folders or the Hub and write them as Parquet.

A folder holds 2012-test ... 2016-test (and optionally 2012-train), each with STS.input.X.txt (two sentences, separated
by a tab) and STS.gs.X.txt (one score per line), for 2016 STS2016.input.X.txt and STS2016.gs.X.txt, as in the official
archives. Pairs with a blank gold line were not scored; they are left out and counted. On the Hub a year is one dataset,
named "all". SMT of 2013 may not be redistributed: add your own copy of its two files.

Examples: python -m data_scripts sts semeval -o data/sts
          python -m data_scripts sts mteb/sts12-sts mteb/sts13-sts mteb/sts14-sts mteb/sts15-sts mteb/sts16-sts -o sts
"""

from __future__ import annotations

import argparse
import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from data_scripts.files.dataset_folders import Report, add_dataset_arguments, write_loaded
from data_scripts.files.errors import InputError
from data_scripts.files.texts import text_lines
from data_scripts.public.stsb import COLUMN_NAMES, ScoredRow, scored_dataset, table_rows
from data_scripts.schemas import STS_SCHEMA

if TYPE_CHECKING:
    from datasets import Dataset, DatasetDict


# Names of the datasets as in table 1 of Siamese CBOW (Kenter et al., 2016), for 2016 those of the files -> the files'
# names.
STS_SETS = {
    "2012": {
        "MSRpar": "MSRpar",
        "MSRvid": "MSRvid",
        "OnWN": "surprise.OnWN",
        "SMTeuroparl": "SMTeuroparl",
        "SMTnews": "surprise.SMTnews",
    },
    "2013": {name: name for name in ("FNWN", "OnWN", "SMT", "headlines")},
    "2014": {name: name for name in ("OnWN", "deft-forum", "deft-news", "headlines", "images", "tweet-news")},
    "2015": {
        "answ-forums": "answers-forums",
        "answ-students": "answers-students",
        "belief": "belief",
        "headlines": "headlines",
        "images": "images",
    },
    "2016": {name: name for name in ("answer-answer", "headlines", "plagiarism", "postediting", "question-question")},
}
TRAIN_SETS = {"2012": ("MSRpar", "MSRvid", "SMTeuroparl")}  # later years train on the tests of earlier ones
EXPECTED = "2012-test/STS.input.MSRpar.txt and STS.gs.MSRpar.txt"
WHOLE_YEAR = "all"  # the dataset of a source that does not distinguish the datasets of a year
_YEAR = re.compile(r"sts-?(?:20)?(1[2-6])(?!\d)", re.IGNORECASE)

logger = logging.getLogger(__name__)


class _StsDataset(NamedTuple):
    """One dataset of a year's task."""

    split: str
    year: str
    name: str
    pairs: Dataset
    unscored: int


def load_sts_sets(source: str) -> dict[str, dict[str, Dataset]]:
    """Load the test sets of SemEval STS 2012 to 2016: year -> name, as in table 1 of Siamese CBOW -> scored pairs.

    Args:
        source: a folder of the official files, as the command's help describes it; the output of the command; or the
            Hub id of one year, such as `mteb/sts12-sts`.

    Returns:
        Datasets with `sentence1`, `sentence2`, `score` (float32, 0 to 5). Missing ones are logged.

    Raises:
        InputError: there is no dataset, the numbers of lines of a gold file and its input differ, or a line is invalid.
    """
    sets: dict[str, dict[str, Dataset]] = {}
    for each in _read(source):
        if each.split == "test":
            sets.setdefault(each.year, {})[each.name] = each.pairs
    return sets


def load_evaluation(source: str) -> DatasetDict:
    """Load the test sets for `leakage --against sts=SOURCE`: "YEAR NAME" -> scored pairs."""
    from datasets import DatasetDict

    sets = load_sts_sets(source)
    return DatasetDict({f"{year} {name}": pairs for year, names in sets.items() for name, pairs in names.items()})


def _read(source: str) -> list[_StsDataset]:
    official = any((Path(source) / f"{year}-test").is_dir() for year in STS_SETS)
    sets = list(_official_sets(Path(source)) if official else _column_sets(source))
    if not sets:
        raise InputError(f"{source}: no STS dataset; expected {EXPECTED} and so on")
    if official:
        available = {(each.split, each.year, each.name) for each in sets}
        for year, names in STS_SETS.items():
            for name in names:
                if ("test", year, name) not in available:
                    logger.warning("%s: STS %s %s is missing (STS.input and STS.gs); left out", source, year, name)
    return sets


def _official_sets(folder: Path) -> Iterator[_StsDataset]:
    for year, names in STS_SETS.items():
        for split, set_names in (("train", TRAIN_SETS.get(year, ())), ("test", tuple(names))):
            for name in set_names:
                files = _official_files(folder / f"{year}-{split}", year, names[name])
                if files:
                    pairs, gold = files
                    rows, unscored = _scored_rows(pairs, gold, more_columns=year == "2016")
                    yield _StsDataset(split, year, name, scored_dataset(rows, STS_SCHEMA, str(gold)), unscored)


def _official_files(folder: Path, year: str, name: str) -> tuple[Path, Path] | None:
    for prefix in ("STS", f"STS{year}"):
        pairs, gold = (folder / f"{prefix}.{part}.{name}.txt" for part in ("input", "gs"))
        if pairs.is_file() and gold.is_file():
            return pairs, gold
    return None


def _scored_rows(pairs: Path, gold: Path, more_columns: bool) -> tuple[list[ScoredRow], int]:
    """The scored pairs, and the number of the others; the files of 2016 also name the sources of the sentences."""
    pair_lines, scores = list(text_lines(pairs)), list(text_lines(gold))
    if len(pair_lines) != len(scores):
        raise InputError(
            f"{gold}: {len(scores)} lines for the {len(pair_lines)} pairs of {pairs.name}; expected one each, blank "
            "if a pair is not scored; download both files again"
        )
    rows: list[ScoredRow] = []
    for (pair_location, line), (gold_location, score) in zip(pair_lines, scores, strict=True):
        sentences = line.split("\t")
        if len(sentences) < 2 or (len(sentences) > 2 and not more_columns):
            raise InputError(f"{pair_location}: {len(sentences)} columns; expected two sentences separated by a tab")
        if score.strip():
            rows.append((gold_location, sentences[0], sentences[1], score, None))
    unscored = len(scores) - len(rows)
    if unscored:
        logger.warning("%s: %d of %d pairs are not scored; left out", gold, unscored, len(scores))
    return rows, unscored


def _column_sets(source: str) -> Iterator[_StsDataset]:
    """The datasets in a folder of Parquet or on the Hub, with columns `year` and `set` or a year in the name."""
    try:
        splits = table_rows(
            source, {name: COLUMN_NAMES.get(name, (name,)) for name in (*STS_SCHEMA.names, "year", "set")}
        )
    except InputError as error:
        if not Path(source).is_dir():
            raise
        raise InputError(f"{error}; there is no STS dataset such as {EXPECTED} either") from error
    named = _YEAR.search(source)
    for split, pairs in splits.items():
        sets: dict[tuple[str, str], list[ScoredRow]] = {}
        for location, row in pairs:
            if not named and not (row["year"] and row["set"]):
                raise InputError(
                    f"{source}: which STS dataset is this? Expected columns year and set, or a name such as "
                    "mteb/sts12-sts"
                )
            year = str(row["year"] or f"20{named[1] if named else ''}")
            scored = location, row["sentence1"], row["sentence2"], row["score"], None
            sets.setdefault((year, row["set"] or WHOLE_YEAR), []).append(scored)
        for (year, name), rows in sets.items():
            yield _StsDataset(split, year, name, scored_dataset(rows, STS_SCHEMA, source), 0)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_dataset_arguments(parser, "folders of the official files, or Hub ids", nargs="+")


def run(args: argparse.Namespace) -> None:
    """Write `test` (and `train` of 2012) as Parquet with report.json, and print the counts by dataset."""
    write_loaded(args, lambda broken: _join_sources(args.source))


def _join_sources(sources: list[str]) -> tuple[DatasetDict, Report]:
    from datasets import DatasetDict, Value, concatenate_datasets

    parts: dict[str, list[Dataset]] = {}
    report: Report = {}
    seen: set[tuple[str, str, str]] = set()
    for source in sources:
        for split, year, name, pairs, unscored in _read(source):
            if (split, year, name) in seen:
                raise InputError(f"{source}: STS {year} {name}, {split}: an earlier source has it already")
            seen.add((split, year, name))
            columns = {"year": [year] * len(pairs), "set": [name] * len(pairs)}
            for column, values in columns.items():
                pairs = pairs.add_column(column, values, feature=Value("string"))
            parts.setdefault(split, []).append(pairs)
            counts = {"from": source, "pairs": len(pairs), "not scored": unscored}
            report[f"{split} {year} {name}"] = counts
    missing = [
        f"{year} {name}" + (" (may not be redistributed: needs your own copy)" if name == "SMT" else "")
        for year, names in STS_SETS.items()
        for name in names
        if ("test", year, name) not in seen and ("test", year, WHOLE_YEAR) not in seen
    ]
    if missing:
        report["missing"] = missing
    return DatasetDict({split: concatenate_datasets(datasets) for split, datasets in parts.items()}), report
