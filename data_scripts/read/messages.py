"""The messages and ready pairs of chat logs, and functions that read the fields of their records."""

import hashlib
import json
from collections import Counter
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from data_scripts.errors import one_line
from data_scripts.read.dates import Dates
from data_scripts.read.files import BrokenLineError, BrokenLines
from data_scripts.read.layouts import DELIMITERS, UTF8, TextLayout, detect_layout
from data_scripts.read.records import Record, form_of

MAX_KIND, MAX_KINDS, OTHER_KIND = 80, 100, "other types"  # characters and number of the kinds of messages left out
CHANNEL_GAP = 3600.0  # seconds: a longer pause ends a conversation in a channel of a chat program


class Message(NamedTuple):
    """One message. Its id is unique within its source; of several messages with the same id, the first is used."""

    id: str
    parent: str | None  # id of the message that it answers; "": it answers none; None: it answers the turn before it
    thread: str | None  # messages without a parent are in order within it
    speaker: str | None
    time: float | None  # seconds since 1970, or a position; None: messages are in the order of the file
    text: str
    source: str
    gap: float | None  # seconds of silence that end a conversation; None: the thread is one conversation


class Pair(NamedTuple):
    """A ready pair."""

    input: str
    response: str
    thread: str | None
    source: str


@dataclass
class ChatLog:
    """A file to read, and the counts of what is left out while it is read.

    Attributes:
        path: a file, or the folder or .zip of an export.
        name: the source of messages that do not name their source.
        columns: role -> column, for the roles that the user named.
        gap: seconds, or None for the format's default.
        broken: lines that could not be read.
        left_out: messages that nobody wrote, such as a bot's or a notice, by kind.
        encoding: of a text file, if the user stated it.
        date_order: of day and month in dates of numbers (`dates.ORDERS`), if the user stated it.
        detected: what was detected of the file and is not as expected, such as its delimiter; for the report.
    """

    path: Path
    name: str
    columns: dict[str, str]
    gap: float | None
    broken: BrokenLines
    left_out: Counter[str]
    encoding: str | None = None
    date_order: str | None = None
    detected: dict[str, str] = field(default_factory=dict)

    def detect_layout(self, is_table: bool) -> TextLayout:
        """The layout of the text file, which is also noted as detected if it is not the usual one."""
        layout = detect_layout(self.path, is_table, self.encoding)
        if layout.encoding != UTF8:
            self.detected["encoding"] = layout.encoding
        if is_table and layout.delimiter != ("\t" if form_of(self.path) == ".tsv" else ","):
            self.detected["delimiter"] = DELIMITERS[layout.delimiter]
        return layout

    def uncounted(self) -> "ChatLog":
        """The log, for another look at it: what is left out then is not counted again."""
        return replace(self, broken=BrokenLines(), left_out=Counter())

    def describe(self) -> str:
        """What was detected, in a line."""
        return "; ".join(f"{name}: {value}" for name, value in self.detected.items())

    def note_dates(self, dates: Dates) -> None:
        """Note how dates were read, if they are neither seconds nor ISO 8601."""
        if dates.readings:
            self.detected["dates"] = ", ".join(sorted(dates.readings))

    def leave_out(self, kind: str) -> None:
        """Count a message that is left out; names of kinds come from the file, so their number is limited."""
        kind = one_line(kind, MAX_KIND) or "no name"
        self.left_out[kind if kind in self.left_out or len(self.left_out) < MAX_KINDS else OTHER_KIND] += 1


Items = Generator[tuple[str, Message | Pair], None, None]  # each with its location, as in file:line


def name_of_content(content: Any) -> str:
    """A name for JSON values, such as the texts of a conversation; equal values have the same name."""
    text = json.dumps(content, ensure_ascii=False, default=str)  # half of a surrogate pair is refused later
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def required_text(values: Record, name: str) -> str:
    """A field that must be a text; raises BrokenLineError if it is not."""
    value = values.get(name)
    if not isinstance(value, str):
        raise BrokenLineError("wrong type", f"{name} should be a text, found {type(value).__name__}")
    return value


def required_label(values: Record, name: str) -> str:
    """A field that must be a name or an id, as text; raises BrokenLineError if it is missing."""
    value = label(values, name)
    if not value:
        raise BrokenLineError("missing field", name)
    return value


def label(values: Record, name: str) -> str:
    """A field that is a name or an id, as text; "" if it is missing. Raises BrokenLineError for a list or object."""
    value = values.get(name)
    if value is None or value != value:
        return ""
    if isinstance(value, dict | list):
        raise BrokenLineError("wrong type", f"{name} should be a text or a number, found {type(value).__name__}")
    # pandas writes integers as 12.0 if some values of the column are missing.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def object_field(values: Any, name: str) -> Record:
    """A field that must be an object; raises BrokenLineError if it is not."""
    value = values.get(name) if isinstance(values, dict) else None
    if not isinstance(value, dict):
        raise BrokenLineError("wrong type", f"{name} should be an object, found {type(value).__name__}")
    return value


def list_of_objects(value: Any, name: str) -> list[Record]:
    """A value that must be a list of objects; raises BrokenLineError if it is not."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise BrokenLineError("wrong type", f"{name} should be a list of objects")
    return value


def seconds(value: Any) -> float:
    """A number, or a time of a program (ISO 8601; UTC if it has no zone), in seconds since 1970.

    Raises:
        BrokenLineError: it is neither.
    """
    return Dates().seconds(value)
