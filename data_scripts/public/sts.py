"""Read the datasets of SemEval STS 2012 to 2016 from local folders or the Hub and write them as Parquet.

A folder holds 2012-test ... 2016-test (and optionally 2012-train), each with STS.input.X.txt (two sentences, separated
by a tab) and STS.gs.X.txt (one score per line), for 2016 STS2016.input.X.txt and STS2016.gs.X.txt, as in the official
archives. Pairs without a score (a blank gold line) are left out and counted. On the Hub, each year is one dataset,
named "all". SMT of 2013 may not be redistributed: add your own copy of its two files.

Examples: convsim data sts semeval -o data/sts
          convsim data sts mteb/sts12-sts mteb/sts13-sts mteb/sts14-sts mteb/sts15-sts mteb/sts16-sts -o sts
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

from data_scripts.public import Kind, Part
from data_scripts.public.stsb import COLUMN_NAMES, check_pair, scored_rows
from data_scripts.schemas import STS_SCHEMA, text_fields
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.records import Rows
from modeling_convsim.files.texts import text_lines

if TYPE_CHECKING:
    from datasets import Dataset


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
WHOLE_YEAR = "all"  # the dataset of a source that does not distinguish the datasets of a year
_YEAR = re.compile(r"sts-?(?:20)?(1[2-6])(?!\d)", re.IGNORECASE)

logger = logging.getLogger(__name__)


def _read_sets(source: str) -> dict[str, Rows]:
    """The datasets of a source: split, year and name -> rows."""
    folder, sets = Path(source), dict[str, Rows]()
    if not any((folder / f"{year}-test").is_dir() for year in STS_SETS):
        return _table_sets(source)
    for year, names in STS_SETS.items():
        for split, set_names in (("train", TRAIN_SETS.get(year, ())), ("test", tuple(names))):
            for name in set_names:
                if files := _original_files(folder / f"{year}-{split}", year, names[name]):
                    sets[f"{split} {year} {name}"] = _original_rows(*files, year, name)
                elif split == "test":
                    logger.warning("%s: STS %s %s is missing (STS.input and STS.gs); left out", folder, year, name)
    return sets


def _original_files(folder: Path, year: str, name: str) -> tuple[Path, Path] | None:
    for prefix in ("STS", f"STS{year}"):
        pairs, gold = (folder / f"{prefix}.{part}.{name}.txt" for part in ("input", "gs"))
        if pairs.is_file() and gold.is_file():
            return pairs, gold
    return None


def _original_rows(pairs: Path, gold: Path, year: str, name: str) -> Rows:
    """The pairs, of which some have an empty score; the files of 2016 also name the sources of the sentences."""
    pair_lines, scores = list(text_lines(pairs)), list(text_lines(gold))
    if len(pair_lines) != len(scores):
        raise InputError(
            f"{gold}: {len(scores)} lines for the {len(pair_lines)} pairs of {pairs.name}; expected one each, blank "
            "if a pair has no score; download both files again"
        )
    for (pair_location, line), (gold_location, score) in zip(pair_lines, scores, strict=True):
        sentences = line.split("\t")
        if len(sentences) < 2 or (len(sentences) > 2 and year != "2016"):
            raise InputError(f"{pair_location}: {len(sentences)} columns; expected two sentences separated by a tab")
        row = {"sentence1": sentences[0], "sentence2": sentences[1], "score": score.strip()}
        yield gold_location, row | {"year": year, "set": name}


def _table_sets(source: str) -> dict[str, Rows]:
    """The datasets in a folder of Parquet or on the Hub, with columns `year` and `set` or a year in the name."""
    named = _YEAR.search(source)
    sets: dict[str, list] = {}
    for split, rows in scored_rows(source, KIND.columns).items():
        for location, row in rows:
            if not named and not (row["year"] and row["set"]):
                raise InputError(
                    f"{source}: unknown STS dataset; expected columns year and set, or a name such as mteb/sts12-sts"
                )
            year, name = str(row["year"] or f"20{named[1] if named else ''}"), row["set"] or WHOLE_YEAR
            sets.setdefault(f"{split} {year} {name}", []).append((location, row | {"year": year, "set": name}))
    return {name: iter(rows) for name, rows in sets.items()}


def _pairs(part: Part) -> Iterator[tuple[str, str, float, str, str]]:
    part.counts["not scored"] = 0
    for location, row in part.rows:
        if row["score"] == "":
            part.counts["not scored"] += 1
        else:
            yield *check_pair(location, row), row["year"], row["set"]


KIND = Kind(
    schema=pa.schema([*STS_SCHEMA, *text_fields("year", "set")]),
    columns={name: COLUMN_NAMES.get(name, (name,)) for name in (*STS_SCHEMA.names, "year", "set")},
    convert=_pairs,
    content="scored pair",
    rows="pairs",
    source_help="folders of the official files, or Hub ids",
    several=True,
    read_originals=_read_sets,
    originals="2012-test/STS.input.MSRpar.txt and STS.gs.MSRpar.txt",
)
add_arguments, run = KIND.add_arguments, KIND.run


def load_sts_sets(source: str) -> dict[str, dict[str, Dataset]]:
    """Load the test sets of SemEval STS 2012 to 2016: year -> name, as in table 1 of Siamese CBOW -> scored pairs.

    Args:
        source: a folder of the official files, as the command's help describes it; the output of the command; or the
            Hub id of one year, such as `mteb/sts12-sts`.

    Returns:
        Datasets with `sentence1`, `sentence2`, `score` (float32, 0 to 5). Official files that are missing are
        logged.

    Raises:
        InputError: there is no dataset, the numbers of lines of a gold file and its input differ, or a line is invalid.
    """
    rows = KIND.load(source).get("test")
    if rows is None:
        return {}
    indices: dict[tuple[str, str], list[int]] = {}
    for index, key in enumerate(zip(rows["year"], rows["set"], strict=True)):
        indices.setdefault(key, []).append(index)
    sets: dict[str, dict[str, Dataset]] = {}
    for (year, name), own in indices.items():
        sets.setdefault(year, {})[name] = rows.select(own).select_columns(STS_SCHEMA.names)
    return sets
