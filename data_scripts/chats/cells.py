"""Finds conversations in the cells of a table: transcripts in a column."""

import re
from collections import Counter
from dataclasses import dataclass

from data_scripts.chats.column_roles import ANSWERING, ASKING, answering_roles, guess_roles, plain_name, shape_of
from data_scripts.chats.formats.transcripts import Line, parse_line
from data_scripts.chats.messages import name_of_content
from modeling_convsim.files.records import Record, Records, Rows
from modeling_convsim.files.texts import BrokenLines

Conversation = list[tuple[str, str]]  # (speaker, text)

# Shares of the cells: those of two speakers or more, and those with one who speaks more than once
SPOKEN, RETURNS = 0.8, 0.5
COMMON = 0.5  # the sides, such as Agent, speak in a larger share of the conversations; others are names of people
MIN_CELLS = 2
REFUSED = "rejected"  # beside `chosen`, in data for preference tuning
SIDES = ASKING | ANSWERING | {"q", "a", "question", "answer"}
_BREAK = re.compile(r"<br\s*/?>", re.IGNORECASE)


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
    """The messages in the cells of a table, as records, after what is said of them; None if it has none."""
    columns, rows = records.columns, records.sample
    roles, _ = guess_roles(columns, rows)
    found = [found for name in columns if (found := _find_transcripts(name, rows))]
    found = [each for each in found if plain_name(each.column) != REFUSED] or found
    shape = shape_of(roles)
    if len(found) == 1 and (shape is None or roles.get("text") == found[0].column):
        return f"transcripts in the column {found[0].column}", _open_conversations(records, found[0])
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


def _open_conversations(records: Records, transcripts: Transcripts) -> Records:
    """The messages of all rows, with the columns thread, id, text and speaker.

    A conversation is named after its content, so that its name does not depend on the other rows, and the messages of
    equal conversations have equal ids.
    """

    def rows_of(location: str, record: Record, broken: BrokenLines) -> Rows:
        conversation, notices = transcripts.read(record)
        for notice in notices:
            broken.add("notice", location, notice)
        if len(conversation) < 2:
            broken.add("no conversation", location, f"found {len(conversation)} messages, expected two or more")
            return
        thread = name_of_content(conversation)
        for number, (speaker, text) in enumerate(conversation, start=1):
            fields = {"thread": thread, "id": f"{thread}/{number}", "text": text, "speaker": speaker}
            yield f"{location}, message {number}", fields

    return records.expanded(["thread", "id", "text", "speaker"], [transcripts.column], rows_of)
