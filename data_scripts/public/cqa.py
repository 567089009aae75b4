"""Read subtask B of SemEval 2016 and 2017 Task 3 (related questions of a community forum), and write Parquet.

SOURCE is a folder with the official English XML, compressed or not, and the official gold (X.xml.subtaskB.relevancy) if
the XML has no labels. Or it is any file, folder or Hub id with the columns query or question, candidate or related,
and relevant (true, false) or label (PerfectMatch, Relevant, Irrelevant); query_id, candidate_id and rank are optional.

Example: convsim data cqa semeval2016_task3 -o data/cqa
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_scripts.public import Kind, Part
from data_scripts.rows import SOURCE_HELP, ColumnNames
from data_scripts.schemas import CQA_SCHEMA
from modeling_convsim.files.documents import xml_events
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.records import Rows
from modeling_convsim.files.texts import find_file, text_lines

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element


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
# Split -> its parts, each with the names of the official XML. X.xml.subtaskB.relevancy has the official gold.
FILES: dict[str, list[tuple[str, ...]]] = {
    "train": [(f"{_QL}-train-part{number}.xml",) for number in (1, 2)],
    "validation": [(f"{_QL}-dev.xml",)],
    "test2016": [(f"{_QL}-test.xml", f"{_QL}-test-input.xml")],
    "test2017": [(f"{_TEST_2017}.xml", f"{_TEST_2017}-input.xml", "SemEval2017-Task3-CQA-QL-test.xml")],
}
# The official scorer treats the first two as one; the gold of 2017 does not distinguish them.
LABELS = {"PerfectMatch": True, "Relevant": True, "PerfectMatch/Relevant": True, "Irrelevant": False}
GOLD_LABELS = {"true": "PerfectMatch/Relevant", "false": "Irrelevant"}
NO_LABEL = (None, "?", "")

logger = logging.getLogger(__name__)


def _read_official(source: str) -> dict[str, Rows]:
    folder = Path(source)
    splits: dict[str, Rows] = {}
    if not folder.is_dir() or not any(find_file(folder, *names) for parts in FILES.values() for names in parts):
        return splits
    for split, parts in FILES.items():
        for names in parts:
            if path := find_file(folder, *names):
                gold = find_file(folder, *(f"{name}.subtaskB.relevancy" for name in names))
                splits[split] = chain(splits.get(split, ()), _official_rows(path, gold))
            else:
                logger.warning("%s: has no %s; left out of split %s", folder, names[0], split)
    return splits


def _gold(path: Path) -> dict[str, str]:
    """Related question -> label, of a .relevancy file: question, related question, rank, score, true or false."""
    gold = {}
    for location, line in text_lines(path):
        fields = line.split("\t")
        if len(fields) != 5 or fields[4] not in GOLD_LABELS:
            raise InputError(
                f"{location}: expected question, related question, rank, score and true or false, separated by tabs"
            )
        gold[fields[1]] = GOLD_LABELS[fields[4]]
    return gold


def _official_rows(path: Path, gold_path: Path | None) -> Rows:
    """Rows of an official file, which repeats the original question for each of its related questions."""
    gold = _gold(gold_path) if gold_path else {}
    candidates = set()
    for _, event, question in xml_events(path, "download the file again"):
        if event != "end" or question.tag != "OrgQuestion":
            continue
        for related in question.iter("RelQuestion"):
            candidate_id = related.get("RELQ_ID")
            location = f"{path}, RelQuestion {candidate_id}"
            label, official = related.get("RELQ_RELEVANCE2ORGQ"), gold.get(str(candidate_id))
            label = official if label in NO_LABEL and official else label
            candidates.add(candidate_id)
            yield (
                location,
                {
                    "query_id": question.get("ORGQ_ID"),
                    "query": _text(question, "OrgQ"),
                    "candidate_id": candidate_id,
                    "candidate": _text(related, "RelQ"),
                    "relevant": label,
                    "label": None,
                    "rank": str(related.get("RELQ_RANKING_ORDER")),
                },
            )
        question.clear()  # frees its memory
    if not candidates:
        raise InputError(
            f"{path}: contains no related question; expected a file of subtask B with RelQuestion elements"
        )


def _text(element: Element, name: str) -> str:
    """The text of a question; subject and body are joined as in copies that have a single text for both."""
    return ". ".join(filter(None, (element.findtext(f"{name}{part}") for part in ("Subject", "Body"))))


def _candidates(part: Part) -> Iterator[tuple[Any, ...]]:
    """A question without an id is identified by its text, candidates without ranks by their order."""
    part.counts["questions"] = 0
    ids: dict[str, str] = {}
    ranks: Counter[str] = Counter()
    for location, row in part.rows:
        for name in ("query", "candidate"):
            if not isinstance(row[name], str) or not row[name].strip():
                raise InputError(f"{location}: {name} is {row[name]!r}; expected a text")
        query_id = row["query_id"] or ids.setdefault(row["query"], f"Q{len(ids) + 1}")
        part.counts["questions"] += query_id not in ranks
        ranks[query_id] += 1
        rank = ranks[query_id] if row["rank"] is None else row["rank"]
        if not str(rank).isdecimal():
            raise InputError(f"{location}: rank {rank!r}; expected a number from 1")
        relevant, label = _relevance(row["relevant"], row["label"], location)
        part.counts[label] += 1
        candidate_id = str(row["candidate_id"] or f"{query_id}_R{rank}")
        yield str(query_id), row["query"], candidate_id, row["candidate"], relevant, label, int(rank)


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


KIND = Kind(
    schema=CQA_SCHEMA,
    columns=COLUMN_NAMES,
    convert=_candidates,
    content="related question",
    optional=("label", "query_id", "candidate_id", "rank"),
    source_help=f"folder with the official files; or {SOURCE_HELP}",
    label_names=True,
    read_originals=_read_official,
    originals=f"{_QL}-dev.xml",
)
add_arguments, run = KIND.add_arguments, KIND.run
load_cqa = KIND.load
