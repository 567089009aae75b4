"""Read subtask B of SemEval 2016 and 2017 Task 3 (related questions of a community forum), and write Parquet.

SOURCE is a folder with the official English XML, plain or compressed, and the official gold (X.xml.subtaskB.relevancy)
if the XML has no labels, or with the same rows as JSON lines (subtaskB-dev.jsonl and so on). Or it is any file, folder
or Hub id with the columns query or question, candidate or related, and relevant (true, false) or label (PerfectMatch,
Relevant, Irrelevant); the columns query_id, candidate_id and rank are optional.

Example: python -m data_scripts cqa semeval2016_task3 -o data/cqa
"""

from __future__ import annotations

import argparse
import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_scripts.files.dataset_folders import Report, add_dataset_arguments, write_loaded
from data_scripts.files.documents import xml_events
from data_scripts.files.errors import InputError
from data_scripts.files.records import Rows, read_records
from data_scripts.files.rows import SOURCE_HELP, ColumnNames, read_rows
from data_scripts.files.texts import BrokenLines, find_file, text_lines
from data_scripts.schemas import CQA_SCHEMA, features

if TYPE_CHECKING:
    from datasets import DatasetDict


COLUMN_NAMES: ColumnNames = {
    "query": ("query", "question"),
    "candidate": ("candidate", "related"),
    "relevant": ("relevant", "label"),
    "label": ("label",),
    "query_id": ("query_id",),
    "candidate_id": ("candidate_id",),
    "rank": ("rank",),
}


_QL = "SemEval2016-Task3-CQA-QL"
_TEST_2017 = "SemEval2017-task3-English-test"
# Split -> parts, named after their JSON lines, subtaskB-NAME.jsonl, which are read if there is no XML -> names of the
# official XML. X.xml.subtaskB.relevancy has the official gold.
FILES: dict[str, dict[str, tuple[str, ...]]] = {
    "train": {f"train-part{number}": (f"{_QL}-train-part{number}.xml",) for number in (1, 2)},
    "validation": {"dev": (f"{_QL}-dev.xml",)},
    "test2016": {"test2016": (f"{_QL}-test.xml", f"{_QL}-test-input.xml")},
    "test2017": {
        "test2017": (f"{_TEST_2017}.xml", f"{_TEST_2017}-input.xml", "SemEval2017-Task3-CQA-QL-test.xml"),
    },
}
# The official scorer treats the first two as one; the gold of 2017 does not distinguish them.
LABELS = {"PerfectMatch": True, "Relevant": True, "PerfectMatch/Relevant": True, "Irrelevant": False}
GOLD_LABELS = {"true": "PerfectMatch/Relevant", "false": "Irrelevant"}
NO_LABEL = (None, "?", "")

Gold = dict[str, str]  # related question -> label

logger = logging.getLogger(__name__)


def load_cqa(source: str) -> DatasetDict:
    """Load subtask B in English (Nakov et al., 2016, 2017): a row for each related question from the search engine.

    Args:
        source: a folder with the official `SemEval2016-Task3-CQA-QL-{train-part1,train-part2,dev,test}.xml` and
            `SemEval2017-task3-English-test.xml`, or JSON lines
            `subtaskB-{train-part1,train-part2,dev,test2016,test2017}.jsonl`; plain or compressed. If a row has no
            label, it is read from `X.xml.subtaskB.relevancy` in the same folder. Or the output of the command; or a
            file, a folder or a Hub id with columns of `COLUMN_NAMES`.

    Returns:
        `train`, `validation` (dev of 2016), `test2016` and `test2017` (for other sources, their own splits) with
        `query_id`, `query` (subject and body), `candidate_id`, `candidate`, `relevant`, `label` (PerfectMatch,
        Relevant, Irrelevant; in 2017 also PerfectMatch/Relevant) and `rank` (the search engine's, from 1, with gaps).
        Missing files are logged.

    Raises:
        InputError: there is no file, a file is damaged, a field is missing, a label or rank is invalid, or a label
            differs from the gold.
    """
    return _load(source, BrokenLines())[0]


load_evaluation = load_cqa  # for `leakage --against cqa=SOURCE`


def _load(source: str, broken: BrokenLines) -> tuple[DatasetDict, Report]:
    from datasets import Dataset, DatasetDict

    folder = Path(source)
    if folder.is_dir() and any(_part_file(folder, *part) for parts in FILES.values() for part in parts.items()):
        splits = _official_splits(folder)
    else:
        optional = ("label", "query_id", "candidate_id", "rank")
        try:
            rows = read_rows(source, COLUMN_NAMES, broken, optional=optional, label_names=True, cached=True)
        except InputError as error:
            if not folder.is_dir():
                raise
            raise InputError(f"{error}; there is no file of subtask B either, such as {_QL}-dev.xml") from error
        splits = DatasetDict(
            {split: Dataset.from_list(list(_column_rows(rows[split])), features=features(CQA_SCHEMA)) for split in rows}
        )
    report: Report = {}
    for split, dataset in splits.items():
        if not len(dataset):
            raise InputError(f"{source}, split {split}: contains no related question")
        report[split] = {"from": source, "rows": len(dataset), "questions": len(set(dataset["query_id"]))}
        report[split] |= dict(sorted(Counter(dataset["label"]).items()))
    return splits, report


def _part_file(folder: Path, name: str, xml: tuple[str, ...]) -> Path | None:
    return find_file(folder, *xml, f"subtaskB-{name}.jsonl")


def _official_splits(folder: Path) -> DatasetDict:
    from datasets import Dataset, DatasetDict

    splits = DatasetDict()
    for split, parts in FILES.items():
        rows: list[dict[str, Any]] = []
        for name, xml in parts.items():
            path = _part_file(folder, name, xml)
            if path is None:
                names = f"{xml[0]} nor subtaskB-{name}.jsonl"
                logger.warning("%s: has neither %s; left out of split %s", folder, names, split)
                continue
            gold_path = find_file(folder, *(f"{each}.subtaskB.relevancy" for each in xml))
            gold = _gold(gold_path) if gold_path else {}
            official = _xml_rows(path) if ".xml" in path.suffixes else _json_rows(path)
            read = list(_column_rows(_official_rows(official, gold)))
            if not read:
                raise InputError(
                    f"{path}: contains no related question; expected a file of subtask B with RelQuestion elements"
                )
            if missing := gold.keys() - {row["candidate_id"] for row in read}:
                raise InputError(
                    f"{gold_path}: {len(missing)} of its related questions, such as {min(missing)}, are not in "
                    f"{path.name}: download both files again"
                )
            rows += read
        if rows:
            splits[split] = Dataset.from_list(rows, features=features(CQA_SCHEMA))
    return splits


def _gold(path: Path) -> Gold:
    """The labels of an official .relevancy file: question, related question, rank, score, true or false."""
    gold = {}
    for location, line in text_lines(path):
        fields = line.split("\t")
        if len(fields) != 5 or fields[4] not in GOLD_LABELS:
            raise InputError(
                f"{location}: expected question, related question, rank, score and true or false, separated by tabs"
            )
        gold[fields[1]] = GOLD_LABELS[fields[4]]
    return gold


def _xml_rows(path: Path) -> Rows:
    """Rows of an official file, which repeats the original question for each of its related questions."""
    for _, event, question in xml_events(path, "download the file again"):
        if event != "end" or question.tag != "OrgQuestion":
            continue
        for related in question.iter("RelQuestion"):
            fields = {
                "orgq_id": question.get("ORGQ_ID"),
                "orgq_subject": question.findtext("OrgQSubject"),
                "orgq_body": question.findtext("OrgQBody"),
                "relq_id": related.get("RELQ_ID"),
                "relq_subject": related.findtext("RelQSubject"),
                "relq_body": related.findtext("RelQBody"),
                "label": related.get("RELQ_RELEVANCE2ORGQ"),
                "ir_rank": related.get("RELQ_RANKING_ORDER"),
            }
            yield f"{path}, RelQuestion {related.get('RELQ_ID')}", fields
        question.clear()  # frees its memory


def _json_rows(path: Path) -> Rows:
    broken = BrokenLines()
    yield from read_records(path).rows((), broken)
    if broken.examples:
        raise InputError(f"{broken.examples[0]}; correct this line")


def _official_rows(rows: Rows, gold: Gold) -> Rows:
    """The rows of an official file as those of a table; the labels that it lacks are those of the gold."""
    for location, fields in rows:
        label, official = fields.get("label"), gold.get(str(fields.get("relq_id")))
        label = official if label in NO_LABEL and official else label
        if official and LABELS[official] != LABELS.get(str(label)):
            raise InputError(
                f"{location}: label {label!r}, but {official!r} in the .relevancy file: download both again"
            )
        yield (
            location,
            {
                "query_id": fields.get("orgq_id"),
                "query": _question(fields, "orgq"),
                "candidate_id": fields.get("relq_id"),
                "candidate": _question(fields, "relq"),
                "relevant": label,
                "label": None,
                "rank": str(fields.get("ir_rank")),
            },
        )


def _question(fields: dict[str, Any], name: str) -> Any:
    """The text of a question; subject and body are joined as in copies that have a single text for both."""
    subject, body = fields.get(f"{name}_subject"), fields.get(f"{name}_body")
    return fields.get(f"{name}_text", ". ".join(filter(None, (subject, body))))


def _column_rows(rows: Rows) -> Iterator[dict[str, Any]]:
    """Rows of a table; a question without an id is identified by its text, candidates without ranks by their order."""
    ids: dict[str, str] = {}
    ranks: Counter[str] = Counter()
    for location, row in rows:
        for name in ("query", "candidate"):
            if not isinstance(row[name], str) or not row[name].strip():
                raise InputError(f"{location}: {name} is {row[name]!r}; expected a text")
        query_id = row["query_id"] or ids.setdefault(row["query"], f"Q{len(ids) + 1}")
        ranks[query_id] += 1
        rank = ranks[query_id] if row["rank"] is None else row["rank"]
        if not str(rank).isdecimal():
            raise InputError(f"{location}: rank {rank!r}; expected a number from 1")
        relevant, label = _relevance(row["relevant"], row["label"], location)
        yield {
            "query_id": str(query_id),
            "query": row["query"],
            "candidate_id": str(row["candidate_id"] or f"{query_id}_R{rank}"),
            "candidate": row["candidate"],
            "relevant": relevant,
            "label": label,
            "rank": int(rank),
        }


def _relevance(relevant: Any, label: Any, location: str) -> tuple[bool, str]:
    """Relevance and label, derived from either column: a label of the task, or a truth value (true, false, 1, 0)."""
    for value in (label, relevant):
        if isinstance(value, str) and value in LABELS:
            return LABELS[value], value
    truth = str(relevant).lower()
    if truth in ("true", "1", "false", "0"):
        return truth in ("true", "1"), GOLD_LABELS["true" if truth in ("true", "1") else "false"]
    raise InputError(
        f"{location}: label {relevant!r}; expected true or false, or one of {', '.join(LABELS)} (if an official file "
        "has none, its gold, X.xml.subtaskB.relevancy, must be in the same folder)"
    )


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    add_dataset_arguments(parser, f"folder with the official files; or {SOURCE_HELP}")


def run(args: argparse.Namespace) -> None:
    """Write the splits as Parquet with report.json, and print the counts by label."""
    write_loaded(args, lambda broken: _load(args.source, broken))
