"""The messages and ready pairs of chat logs, the log that they are read from, and the fields of programs' records.

Errors of fields state what was expected and what was found.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import tee
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from data_scripts.chats.dates import Dates, find_order
from data_scripts.chats.sample import Sample
from modeling_convsim.files.errors import one_line
from modeling_convsim.files.records import Record, Records
from modeling_convsim.files.texts import UTF8, BrokenLineError, BrokenLines, TextFile, decode

MAX_KIND, MAX_KINDS, OTHER_KIND = 80, 100, "other types"  # characters and number of the kinds of messages left out
CHANNEL_GAP = 3600.0  # seconds: a longer pause ends a conversation in a channel of a chat program
Parsed = TypeVar("Parsed")


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
    is_answer: bool | None = None  # whether the side that answers wrote it; None: the log does not say


class Pair(NamedTuple):
    """A ready pair."""

    input: str
    response: str
    thread: str | None
    source: str


Messages = Generator[tuple[str, Message], None, None]  # each with its location, as in file:line
Items = Generator[tuple[str, Message | Pair], None, None]


class LeftOutError(Exception):
    """A message to leave out: it has no text, or no person wrote it, such as a notice; the argument is its kind."""


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
        sample: the beginning of the file, while it is read.
        is_shown: whether the user sees its columns, so that no message has to say how to see them.
    """

    path: Path
    name: str
    columns: dict[str, str] = field(default_factory=dict)
    gap: float | None = None
    broken: BrokenLines = field(default_factory=BrokenLines)
    left_out: Counter[str] = field(default_factory=Counter)
    encoding: str | None = None
    date_order: str | None = None
    detected: dict[str, str] = field(default_factory=dict)
    sample: Sample | None = None
    is_shown: bool = False

    @property
    def text(self) -> TextFile:
        """The text file, whose encoding is noted as detected if it is not the usual one."""
        assert self.sample
        if self.sample.text.encoding != UTF8:
            self.detected["encoding"] = self.sample.text.encoding
        return self.sample.text

    def lines(self) -> Iterator[tuple[str, str]]:
        """The lines of the text file with their locations; those in another encoding are counted."""
        for location, line in self.text.lines():
            text = self.attempt(location, decode, line)
            if text is not None:
                yield location, text.rstrip("\r").removeprefix("\ufeff")

    @property
    def records(self) -> Records:
        """The records of a table or of JSON."""
        assert self.sample
        return self.sample.records

    @property
    def channel_gap(self) -> float:
        """The pause that ends a conversation in a channel."""
        return CHANNEL_GAP if self.gap is None else self.gap

    def describe(self) -> str:
        """What was detected, in a line."""
        return "; ".join(f"{name}: {value}" for name, value in self.detected.items())

    def with_dates(self, items: Iterable[Parsed], date_of: Callable[[Parsed], Any]) -> tuple[Iterator[Parsed], Dates]:
        """The items, and what reads their dates; memory holds those before the first one that decides the order."""
        rest, ahead = tee(items)
        return rest, Dates(find_order(map(date_of, ahead), self.date_order, str(self.path)), self.detected)

    def leave_out(self, kind: str) -> None:
        """Count a message that is left out; names of kinds come from the file, so their number is limited."""
        kind = one_line(kind, MAX_KIND) or "no name"
        self.left_out[kind if kind in self.left_out or len(self.left_out) < MAX_KINDS else OTHER_KIND] += 1

    def attempt(self, location: str, parse: Callable[..., Parsed], *arguments: Any) -> Parsed | None:
        """What a function returns, or None if it raises an error for what is broken or left out, which is counted."""
        try:
            return parse(*arguments)
        except LeftOutError as left_out:
            self.leave_out(str(left_out))
        except BrokenLineError as error:
            self.broken.add(error.args[0], location, error.args[1])
        return None

    def objects(self, location: str, value: Any, name: str) -> list[tuple[str, Record]]:
        """The objects in the list `name`, with their locations; another value or element is counted."""
        if not isinstance(value, list):
            self.broken.add("wrong type", location, f"{name} should be a list of objects")
            return []
        found = list(numbered(location, value))
        for where, element in found:
            if not isinstance(element, dict):
                self.broken.add("wrong type", where, f"expected an object, found {type(element).__name__}")
        return [(where, element) for where, element in found if isinstance(element, dict)]

    def parse_each(
        self, located: Iterable[tuple[str, Any]], parse: Callable[[Any], Message], prefix: str = "message "
    ) -> Messages:
        """The messages of values with their locations (`attempt`); an id that is "" becomes the prefix and a number."""
        for number, (location, value) in enumerate(located, start=1):
            if message := self.attempt(location, parse, value):
                yield location, message._replace(id=message.id or f"{prefix}{number}")


def numbered(location: str, messages: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Each message of a list with its location."""
    return ((f"{location}: message {number}", message) for number, message in enumerate(messages, start=1))


def name_of_content(content: Any) -> str:
    """A name for JSON values, such as the texts of a conversation; equal values have the same name."""
    text = json.dumps(content, ensure_ascii=False, default=str)  # half of a surrogate pair is refused later
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def wrong_type(name: str, expected: str, value: Any) -> BrokenLineError:
    """The error for a field that has another type."""
    return BrokenLineError("wrong type", f"{name} should be {expected}, found {type(value).__name__}")


class Fields:
    """The fields of an object that a program wrote; an error says what the object should have.

    Raises:
        BrokenLineError: it is no object.
    """

    def __init__(self, values: Any, name: str = "a message") -> None:
        if not isinstance(values, dict):
            raise wrong_type(name, "an object", values)
        self.values: Record = values

    def get(self, name: str) -> Any:
        """A field as it is; None if it is missing."""
        return self.values.get(name)

    def text(self, name: str) -> str:
        """A field that must be a text; raises BrokenLineError if it is not."""
        value = self.get(name)
        if value is None and name in ("text", "content"):  # as of a call, or somebody who joined
            raise BrokenLineError("event without a text", f"{name} is null or missing")
        if not isinstance(value, str):
            raise wrong_type(name, "a text", value)
        return value

    def required(self, name: str) -> str:
        """A field that must be a name or an id, as text; raises BrokenLineError if it is missing."""
        value = self.label(name)
        if not value:
            raise BrokenLineError("missing field", name)
        return value

    def label(self, name: str) -> str:
        """A field that is a name or an id, as text ("" if missing); raises BrokenLineError for a list or object."""
        value = self.get(name)
        if value is None or value != value:
            return ""
        if isinstance(value, dict | list):
            raise wrong_type(name, "a text or a number", value)
        # pandas writes integers as 12.0 if some values of the column are missing.
        return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)

    def written(self, name: str) -> str:
        """A field that is a text; raises LeftOutError if it is blank or missing."""
        text = self.label(name)
        if not text.strip():
            raise LeftOutError("no text")
        return text

    def elements(self, name: str) -> Iterable[Any]:
        """A field that must be a list, which may be read as it is needed; raises BrokenLineError if it is not."""
        value = self.get(name)
        if not isinstance(value, list | Iterator):
            raise wrong_type(name, "a list", value)
        return value

    def object(self, name: str) -> Fields:
        """A field that must be an object; raises BrokenLineError if it is not."""
        return Fields(self.get(name), name)

    def seconds(self, name: str) -> float:
        """A number, or a time of a program (ISO 8601; UTC if it has no zone), in seconds since 1970.

        Raises:
            BrokenLineError: it is neither.
        """
        return Dates().seconds(self.get(name))
