"""Load SemEval 2016 and 2017 Task 3, subtask B: which related questions answer a new question."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from datasets import Dataset, DatasetDict, Features, Value

from data_scripts.corpora import existing_folder, find_file, text_lines
from data_scripts.errors import InputError
from data_scripts.files import read_lines

CQA_FEATURES = Features(
    {
        "query_id": Value("string"),
        "query": Value("string"),
        "candidate_id": Value("string"),
        "candidate": Value("string"),
        "relevant": Value("bool"),
        "label": Value("string"),
        "rank": Value("int32"),
    }
)
# Split -> its parts: the official XML, and the same rows as JSON lines, read where the XML is not there.
FILES = {
    "train": [
        ("SemEval2016-Task3-CQA-QL-train-part1.xml", "subtaskB-train-part1.jsonl"),
        ("SemEval2016-Task3-CQA-QL-train-part2.xml", "subtaskB-train-part2.jsonl"),
    ],
    "validation": [("SemEval2016-Task3-CQA-QL-dev.xml", "subtaskB-dev.jsonl")],
    "test2017": [("SemEval2017-task3-English-test.xml", "subtaskB-test2017.jsonl")],
}
# The official scorer counts the first two as one; gold of 2017 does not tell them apart.
LABELS = {"PerfectMatch": True, "Relevant": True, "PerfectMatch/Relevant": True, "Irrelevant": False}

logger = logging.getLogger(__name__)


def load_cqa(folder: str) -> DatasetDict:
    """Subtask B in English (Nakov et al., 2016, 2017): a row for each related question that the search engine found.

    Args:
        folder: holds the official `SemEval2016-Task3-CQA-QL-{train-part1,train-part2,dev}.xml` and
            `SemEval2017-task3-English-test.xml`, or JSON lines `subtaskB-{train-part1,train-part2,dev,test2017}.jsonl`;
            plain or compressed.

    Returns:
        `train`, `validation` (dev of 2016) and `test2017` with `query_id`, `query` (subject and body), `candidate_id`,
        `candidate`, `relevant`, `label` (PerfectMatch, Relevant, Irrelevant; of 2017 also PerfectMatch/Relevant) and
        `rank` (the search engine's, from 1, with gaps). Missing files are left out and logged.

    Raises:
        InputError: no file at all, a file that is damaged, a field missing, or a wrong label or rank.
    """
    splits = DatasetDict()
    for split, parts in FILES.items():
        rows: list[dict[str, Any]] = []
        for names in parts:
            path = find_file(existing_folder(folder), *names)
            if path is None:
                logger.warning("%s: neither %s is there; left out of split %s", folder, " nor ".join(names), split)
                continue
            part = list(_xml_rows(path) if ".xml" in path.suffixes else _json_rows(path))
            if not part:
                raise InputError(
                    f"{path}: not one related question; expected a file of subtask B with RelQuestion elements"
                )
            rows += part
        if rows:
            splits[split] = Dataset.from_list(rows, features=CQA_FEATURES)
    if not splits:
        raise InputError(f"{folder}: no file of subtask B; expected for example {FILES['validation'][0][0]}")
    return splits


def _xml_rows(path: Path) -> Iterator[dict[str, Any]]:
    """Rows of an official file, in which the original question is repeated around each of its related questions."""
    parser = ElementTree.XMLParser()
    try:
        for _, line in read_lines(path, (".xml",)):
            parser.feed(line + b"\n")
        root = parser.close()
    except ElementTree.ParseError as error:
        raise InputError(f"{path}:{error.position[0]}: not well-formed XML ({error}): fetch the file again") from error
    for question in root.iter("OrgQuestion"):
        for related in question.iter("RelQuestion"):
            place = f"{path}, RelQuestion {related.get('RELQ_ID')}"
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
            yield _row(fields, place)


def _json_rows(path: Path) -> Iterator[dict[str, Any]]:
    for place, line in text_lines(path):
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(f"{place}: not JSON ({error}); expected an object a line") from error
        if not isinstance(fields, dict):
            raise InputError(
                f"{place}: not an object; expected one with orgq_id, relq_id, ir_rank, label and the texts"
            )
        yield _row(fields, place)


def _row(fields: dict[str, Any], place: str) -> dict[str, Any]:
    label, rank = fields.get("label"), str(fields.get("ir_rank"))
    if not isinstance(label, str) or label not in LABELS:
        raise InputError(
            f"{place}: label {label!r}; expected one of {', '.join(LABELS)} (a test file without gold has none)"
        )
    if not rank.isdecimal():
        raise InputError(f"{place}: the search engine's rank is {rank}; expected a number from 1")
    texts = {name: fields.get(name) for name in ("orgq_id", "relq_id")}
    for question in ("orgq", "relq"):
        subject, body = fields.get(f"{question}_subject"), fields.get(f"{question}_body")
        # Joined as the copies that have one text for both are, so that all splits read alike.
        joined = ". ".join(part for part in (subject, body) if part) if subject is not None else None
        texts[question] = fields.get(f"{question}_text", joined)
    for name, text in texts.items():
        if not isinstance(text, str) or not text.strip():
            raise InputError(f"{place}: {name} is {text!r}; expected a text")
    return {
        "query_id": texts["orgq_id"],
        "query": texts["orgq"],
        "candidate_id": texts["relq_id"],
        "candidate": texts["relq"],
        "relevant": LABELS[label],
        "label": label,
        "rank": int(rank),
    }
