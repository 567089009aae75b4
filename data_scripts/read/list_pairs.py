"""Finds questions and answers that are lists: the patterns and responses of an intent, the answers to a question."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from data_scripts.read.files import BrokenLines
from data_scripts.read.messages import name_of_content
from data_scripts.read.records import Record, Records, Rows
from data_scripts.read.roles import has_usual_name, is_named

QUESTIONS = "question; questions; query; queries; prompt; prompts; patterns; utterances; examples; input; inputs"
ANSWERS = "answer; answers; response; responses; reply; replies; output; outputs"
MOST = 0.9  # of the values of a column are texts or lists of texts


@dataclass(frozen=True)
class ListPairs:
    """Two columns, of which at least one has lists of texts: each of the first belongs to each of the second."""

    questions: str
    answers: str

    def describe(self) -> str:
        """The columns, for people."""
        return f"each of {self.questions} with each of {self.answers}"


def find_list_pairs(columns: list[str], rows: list[Record]) -> ListPairs | None:
    """The columns of questions and answers, if at least one of them has lists of texts.

    Args:
        columns: the names of all columns.
        rows: the first rows.
    """
    found = [
        [name for name in columns if is_named(name, names) and _are_texts([row[name] for row in rows if row.get(name)])]
        for names in (QUESTIONS, ANSWERS)
    ]
    if [len(names) for names in found] != [1, 1]:
        return None
    (questions,), (answers,) = found
    has_lists = any(isinstance(row.get(name), list) for row in rows for name in (questions, answers))
    return ListPairs(questions, answers) if has_lists else None


def _are_texts(values: list[Any]) -> bool:
    have_roles = any(isinstance(each, dict) and "role" in each for value in values for each in _listed(value))
    return bool(values) and not have_roles and sum(bool(texts_of(value)) for value in values) >= MOST * len(values)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def texts_of(value: Any) -> list[str]:
    """The texts of a value that is a text, or a list of texts or of objects with one, such as answers with a score."""
    texts = []
    for each in _listed(value):
        fields = [name for name in each if has_usual_name(name, "text")] if isinstance(each, dict) else []
        text = each[fields[0]] if len(fields) == 1 else each
        if isinstance(text, str) and text.strip():
            texts.append(text)
    return texts


def list_pair_rows(records: Records, broken: BrokenLines, found: ListPairs) -> Records:
    """The pairs of all rows, with the columns input, response and thread: the pairs of a row are in one split."""

    def rows(_: Iterable[str]) -> Rows:
        for location, record in records.rows({found.questions, found.answers}):
            questions, answers = texts_of(record.get(found.questions)), texts_of(record.get(found.answers))
            for name, texts in ((found.questions, questions), (found.answers, answers)):
                value = record.get(name)
                surplus = len(value) - len(texts) if isinstance(value, list) and texts else 0
                for _number in range(surplus):
                    broken.add("no text", location, f"{name} should be a text, or a list of texts")
            if not (questions and answers):
                missing = found.answers if questions else found.questions
                broken.add("no pair", location, f"{missing} should be a text, or a list of texts")
            thread = name_of_content([questions, answers])
            for question in questions:
                for answer in answers:
                    yield location, {"input": question, "response": answer, "thread": thread}

    return Records(records.location, ["input", "response", "thread"], True, rows)
