"""Read the STS Benchmark, or other scored pairs of sentences, and write Parquet; `sts` reads the SemEval datasets.

SOURCE is a folder with the original sts-{train,dev,test}.csv (tab-separated, never quoted); a file or a folder of
Parquet, JSON lines, CSV or TSV; or a Hub id: mteb/stsbenchmark-sts, or sentence-transformers/stsb, which has no genre
and scores from 0 to 1 (multiplied by five). The split comes from the column split or the file name, and is otherwise
test. Columns: sentence1, sentence2, score (0 to 5) and genre (captions, forums, news); SICK's column names work too.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from data_scripts.loading import find_split
from data_scripts.public import Kind, Part
from data_scripts.rows import ColumnNames, read_rows, text_tables
from data_scripts.schemas import MAX_SCORE, STS_SCHEMA, STSB_SCHEMA
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.records import Rows
from modeling_convsim.files.texts import BrokenLines, find_file, text_lines

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

logger = logging.getLogger(__name__)


def _read_splits(source: str) -> dict[str, Rows]:
    files = {split: find_file(Path(source), name) for split, name in STSB_FILES.items()}
    if any(files.values()):
        return {split: _original_rows(file) for split, file in files.items() if file is not None}
    tables = text_tables(source)
    default = "test" if tables and not any(find_split(file.name) for file in tables) else None
    splits: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for name, rows in scored_rows(source, COLUMN_NAMES).items():
        for location, row in rows:
            splits.setdefault(find_split(str(row["split"]), complete=True) or default or name, []).append(
                (location, row)
            )
    return {split: iter(rows) for split, rows in splits.items()}


def _original_rows(path: Path) -> Rows:
    """Rows of an original file: genre, file, year, number, score, two sentences; some have two more columns."""
    for location, line in text_lines(path):
        columns = line.split("\t")
        if len(columns) < 7:
            raise InputError(
                f"{location}: {len(columns)} columns; expected genre, file, year, number, score, two sentences"
            )
        yield (
            location,
            dict(zip(("genre", "score", "sentence1", "sentence2"), [columns[0], *columns[4:7]], strict=True)),
        )


def scored_rows(source: str, names: ColumnNames) -> dict[str, list[tuple[str, dict[str, Any]]]]:
    """Split -> rows (location, role -> value) of tables or of a Hub dataset; `names` are as for `read_rows`.

    If no score is above 1, all are multiplied by five, which is logged.

    Raises:
        InputError: as `read_rows`, or a line cannot be read.
    """
    broken = BrokenLines()
    optional = tuple(name for name in names if name not in STS_SCHEMA.names)
    read = read_rows(source, names, broken, optional=optional)
    splits = {name: list(rows) for name, rows in read.items()}
    if broken.examples:
        raise InputError(f"{broken.examples[0]}; correct this line")
    scored = []
    for _, row in (row for rows in splits.values() for row in rows):
        with suppress(TypeError, ValueError):  # `check_pair` refuses others
            row["score"] = float(row["score"])
            scored.append(row)
    if scored and max(row["score"] for row in scored) <= 1:
        logger.warning("%s: scores range from 0 to 1; multiplied by %g", source, MAX_SCORE)
        for row in scored:
            row["score"] *= MAX_SCORE
    return splits


def check_pair(location: str, row: dict[str, Any]) -> tuple[str, str, float]:
    """The two sentences and the score of a row.

    Raises:
        InputError: a sentence is not a text, or the score is not a number from 0 to 5.
    """
    sentence1, sentence2 = row["sentence1"], row["sentence2"]
    if not isinstance(sentence1, str) or not isinstance(sentence2, str):
        raise InputError(f"{location}: sentence1 and sentence2 must be texts; found {sentence1!r} and {sentence2!r}")
    with suppress(TypeError, ValueError, OverflowError):
        if 0 <= (score := float(row["score"])) <= MAX_SCORE:
            return sentence1, sentence2, score
    raise InputError(f"{location}: score {row['score']!r}; expected a number from 0 to {MAX_SCORE:g}")


def _pairs(part: Part) -> Iterator[tuple[str, str, float, str | None]]:
    for location, row in part.rows:
        genre = GENRES.get(row["genre"], row["genre"] or None)
        if genre not in (None, *GENRES.values()):
            raise InputError(f"{location}: genre {genre!r}; expected one of {', '.join(GENRES)}")
        part.counts[genre or "no genre"] += 1
        yield *check_pair(location, row), genre


KIND = Kind(
    schema=STSB_SCHEMA,
    columns=COLUMN_NAMES,
    convert=_pairs,
    content="scored pair",
    source_help="folder with sts-{train,dev,test}.csv; a file or a folder of Parquet, .jsonl, .csv or .tsv with the "
    "columns sentence1, sentence2 and score; or a Hub id, for example mteb/stsbenchmark-sts",
    read_originals=_read_splits,
)
add_arguments, run = KIND.add_arguments, KIND.run
load_stsb = KIND.load
