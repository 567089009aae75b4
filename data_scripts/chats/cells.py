"""Finds conversations in the cells of a table, and lists of questions or answers.

A conversation is a transcript in a column, or a turn in each of several columns. Questions and answers may be lists:
the patterns and responses of an intent, the answers to a question.
"""

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from data_scripts.chats.formats.transcripts import Line, parse_line
from data_scripts.chats.messages import name_of_content
from data_scripts.chats.roles import (
    ANSWERING,
    ASKING,
    answering_roles,
    are_long_texts,
    guess_roles,
    has_usual_name,
    is_named,
    plain_name,
    shape_of,
)
from data_scripts.files.records import Record, Records, Rows
from data_scripts.files.texts import BrokenLines

Conversation = list[tuple[str | None, str]]  # (speaker, text)

# Shares of the cells: those of two speakers or more, and those with one who speaks more than once
SPOKEN, RETURNS = 0.8, 0.5
COMMON = 0.5  # the sides, such as Agent, speak in a larger share of the conversations; others are names of people
MIN_CELLS = 2
REFUSED = "rejected"  # beside `chosen`, in data for preference tuning
SIDES = ASKING | ANSWERING | {"q", "a", "question", "answer"}
TURNS = "turn; utterance; utt; message; msg"
QUESTIONS = "question; questions; query; queries; prompt; prompts; patterns; utterances; examples; input; inputs"
ANSWERS = "answer; answers; response; responses; reply; replies; output; outputs"
MOST = 0.9  # of the values of a column of questions or answers are texts or lists of texts
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)
_NUMBERED = re.compile(r"(.*\D)(\d{1,3})")


@dataclass(frozen=True)
class Transcripts:
    """A column whose cells are transcripts, with lines such as `Agent: hello`.

    Attributes:
        column: its name.
        sides: the speakers of most conversations. If they are such as Customer and Agent, there are no others.
        headings: what is before a colon in most conversations, but never twice, such as `Chat started`.
    """

    column: str
    sides: frozenset[str]
    headings: frozenset[str]

    def read(self, record: Record) -> tuple[Conversation, list[str]]:
        """The messages of a row, and the lines that are none: headings, and notices such as `*** Ann joined ***`."""
        lines = cell_lines(record.get(self.column))
        notices = [line.text for line in lines if line.speaker in self.headings]
        lines = [line for line in lines if line.speaker not in self.headings]
        speakers = self.sides | self._people(lines)
        have_times = any(line.has_time for line in lines if line.speaker in speakers)
        messages: list[tuple[str, list[str]]] = []
        for name, text, has_time in lines:
            if name in speakers:
                messages.append((name, [text]))
            elif not messages or (have_times and has_time) or text.startswith("***"):
                notices.append(text)
            else:
                messages[-1][1].append(text if name is None else f"{name}: {text}")
        return [(name, "\n".join(texts).strip()) for name, texts in messages], notices

    def _people(self, lines: list[Line]) -> set[str]:
        """The other speakers of a conversation; `Note: ` or the like may be within a text."""
        if answering_roles(self.sides):
            return set()
        others = Counter(line.speaker for line in lines if line.speaker and line.speaker not in self.sides)
        if len(others) <= 2 - len(self.sides):
            return set(others)
        return {name for name, count in others.items() if count > 1} or set(list(others)[:1])


def open_cells(records: Records) -> tuple[str, Records] | None:
    """The messages or pairs in the cells of a table, as records, after what is said of them; None if it has none."""
    columns, rows = records.columns, records.sample
    roles = guess_roles(columns, rows).columns
    found = [found for name in columns if (found := _find_transcripts(name, rows))]
    found = [each for each in found if not is_named(each.column, REFUSED)] or found
    shape = shape_of(roles)
    if len(found) == 1 and (shape is None or roles.get("text") == found[0].column):
        column = found[0].column
        return f"a transcript in {column} of each row", _open_conversations(records, [column], found[0].read)
    if turns := _find_turns(columns, rows) if shape is None else None:
        description = f"a conversation in {turns[0]} to {turns[-1]} of each row"
        return description, _open_conversations(records, turns, partial(_read_turns, turns))
    if pairs := _find_list_pairs(records):
        return f"each of {pairs[0]} with each of {pairs[1]}", _open_list_pairs(records, *pairs)
    return None


def _find_transcripts(column: str, rows: list[Record]) -> Transcripts | None:
    cells = [row for row in rows if row.get(column)]
    names = [[line.speaker for line in cell_lines(row[column]) if line.speaker] for row in cells]
    if len(cells) < MIN_CELLS or sum(map(bool, names)) < SPOKEN * len(cells):
        return None
    conversations = Counter(name for each in names for name in set(each))
    common = {name for name, count in conversations.items() if count > COMMON * len(cells)}
    repeated = {name for each in names for name, count in Counter(each).items() if count > 1}
    headings = {name for name in common - repeated if name.casefold() not in SIDES}
    for each in names:  # headings are at the beginning
        first = next((index for index, name in enumerate(each) if name not in headings), len(each))
        headings -= set(each[first:])
    found = Transcripts(column, frozenset(common - headings), frozenset(headings))
    counts = [Counter(name for name, _ in found.read(row)[0]) for row in cells]
    spoken = [turns for turns in counts if len(turns) > 1]
    returns = sum(max(turns.values()) > 1 for turns in spoken)
    is_spoken = len(spoken) >= SPOKEN * len(cells) and (len(found.sides) > 1 or returns >= RETURNS * len(cells))
    return found if is_spoken else None


def cell_lines(cell: object) -> list[Line]:
    """The lines of a cell, without blank ones."""
    if not isinstance(cell, str):
        return []
    lines = (line.strip() for line in _BREAK.sub("\n", cell).splitlines())
    return [parse_line(line) for line in lines if line]


def _find_turns(columns: list[str], rows: list[Record]) -> list[str] | None:
    """Columns such as turn1, turn2 and turn3, each with a message of a conversation, if there are some."""
    numbered: dict[str, list[tuple[int, str]]] = {}
    for column in columns:
        match = _NUMBERED.fullmatch(column)
        if match and is_named(match[1], TURNS):
            numbered.setdefault(plain_name(match[1]), []).append((int(match[2]), column))
    for turns in numbered.values():
        numbers = [number for number, _ in sorted(turns)]
        columns = [column for _, column in sorted(turns)]
        texts = [row[column] for row in rows for column in columns if row.get(column)]
        is_complete = len(turns) > 1 and numbers == list(range(numbers[0], numbers[0] + len(numbers)))
        if is_complete and texts and are_long_texts(texts):
            return columns
    return None


def _read_turns(columns: list[str], record: Record) -> tuple[Conversation, list[str]]:
    """The messages of a row, which may have fewer than there are columns, and no notices."""
    texts = [record.get(column) for column in columns]
    return [(None, text) for text in texts if isinstance(text, str) and text.strip()], []


def _open_conversations(
    records: Records, needed: list[str], read: Callable[[Record], tuple[Conversation, list[str]]]
) -> Records:
    """The messages of all rows, with the columns thread, id, text and speaker.

    A conversation is named after its content, so that its name does not depend on the other rows, and the messages of
    equal conversations have equal ids.
    """

    def rows_of(location: str, record: Record, broken: BrokenLines) -> Rows:
        conversation, notices = read(record)
        for notice in notices:
            broken.add("notice", location, notice)
        if len(conversation) < 2:
            broken.add("no conversation", location, f"found {len(conversation)} messages, expected two or more")
            return
        thread = name_of_content(conversation)
        for number, (speaker, text) in enumerate(conversation, start=1):
            fields = {"thread": thread, "id": f"{thread}/{number}", "text": text, "speaker": speaker}
            yield f"{location}, message {number}", fields

    columns = ["thread", "id", "text", *(["speaker"] if len(needed) == 1 else [])]  # turns name no speakers
    return records.expanded(columns, needed, rows_of)


def _find_list_pairs(records: Records) -> tuple[str, str] | None:
    """The columns of questions and answers, if at least one of them has lists of texts."""
    rows, found = records.sample, list[str]()
    for names in (QUESTIONS, ANSWERS):
        named = [name for name in records.columns if is_named(name, names)]
        named = [name for name in named if _are_texts([row[name] for row in rows if row.get(name)])]
        if len(named) != 1:
            return None
        found += named
    has_lists = any(isinstance(row.get(name), list) for row in rows for name in found)
    return (found[0], found[1]) if has_lists else None


def _are_texts(values: list[Any]) -> bool:
    have_roles = any(isinstance(each, dict) and "role" in each for value in values for each in _listed(value))
    return bool(values) and not have_roles and sum(bool(_texts_of(value)) for value in values) >= MOST * len(values)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _texts_of(value: Any) -> list[str]:
    """The texts of a value that is a text, or a list of texts or of objects with one, such as answers with a score."""
    texts = []
    for each in _listed(value):
        fields = [name for name in each if has_usual_name(name, "text")] if isinstance(each, dict) else []
        text = each[fields[0]] if len(fields) == 1 else each
        if isinstance(text, str) and text.strip():
            texts.append(text)
    return texts


def _open_list_pairs(records: Records, questions: str, answers: str) -> Records:
    """The pairs of all rows, with the columns input, response and thread: the pairs of a row are in one split."""

    def rows_of(location: str, record: Record, broken: BrokenLines) -> Rows:
        texts = {name: _texts_of(record.get(name)) for name in (questions, answers)}
        for name, found in texts.items():
            value = record.get(name)
            for _ in range(len(value) - len(found) if isinstance(value, list) and found else 0):
                broken.add("no text", location, f"{name} should be a text, or a list of texts")
        if missing := [name for name, found in texts.items() if not found]:
            broken.add("no pair", location, f"{missing[0]} should be a text, or a list of texts")
        thread = name_of_content(list(texts.values()))
        for question in texts[questions]:
            for answer in texts[answers]:
                yield location, {"input": question, "response": answer, "thread": thread}

    return records.expanded(["input", "response", "thread"], [questions, answers], rows_of)
