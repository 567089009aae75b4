"""Messages and ready pairs, and the tables that hold them: reply links, threads in order, pairs."""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any, NamedTuple

from data_scripts.clean.filters import PLACEHOLDERS
from data_scripts.errors import InputError
from data_scripts.read.files import BrokenLineError, BrokenLines
from data_scripts.read.records import Record, Records

# Role -> the columns that have it where none is named: the column of that name, then ConvoKit's names.
COLUMN_NAMES = {
    "input": ("input",),
    "response": ("response",),
    "text": ("text",),
    "id": ("id",),
    "parent": ("parent", "reply-to", "reply_to"),
    "thread": ("thread", "conversation_id", "root"),
    "speaker": ("speaker", "user"),
    "time": ("time", "timestamp"),
    "source": ("source",),
}


class Message(NamedTuple):
    """One message. Its id is unique in its source; where one is there twice, the first counts."""

    id: str
    parent: str | None  # the id of the message that it answers; "": it answers none; None: the turn before it
    thread: str | None  # messages without a parent are in order within it
    speaker: str | None
    time: float | None  # seconds since 1970, or a position; None: in the order of the file
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
    """A file to read, and what is counted as it is read.

    Attributes:
        path: a file, or the folder or .zip of a Slack export.
        name: the source of what does not name its own.
        columns: role -> name of its column, of those that the user named.
        gap: seconds, or None for each form's own.
        broken: lines that could not be read.
        left_out: messages that are nobody's words, by kind.
    """

    path: Path
    name: str
    columns: dict[str, str]
    gap: float | None
    broken: BrokenLines
    left_out: Counter[str]


Items = Iterator[tuple[str, Message | Pair]]


def read_table(log: ChatLog, records: Records) -> Items:
    """The messages or pairs of a table, with their places; its columns say which of the three shapes it has.

    Raises:
        InputError: the columns make none of the shapes, or one that the user named is not there.
    """
    names = _columns(log, records)
    convert = _shape(log, records, names)
    unseen = set(log.columns)
    wanted = {part for name in names.values() for part in _paths(name)}
    for number, (place, record) in enumerate(records.rows(wanted), start=1):
        values = {role: _look_up(record, name) for role, name in names.items()}
        unseen -= {role for role in unseen if values[role] is not None}
        try:
            yield place, convert(log, values, number)
        except BrokenLineError as error:
            log.broken.add(error.args[0], place, error.args[1])
    if unseen:
        _refuse_columns(log, records, unseen)


def _columns(log: ChatLog, records: Records) -> dict[str, str]:
    """Role -> column, of the roles that the table has."""
    there = set(records.columns)
    if records.complete:
        missing = {role for role, name in log.columns.items() if not there & set(_paths(name))}
        if missing:
            _refuse_columns(log, records, missing)
    found = {role: next((name for name in names if name in there), "") for role, names in COLUMN_NAMES.items()}
    return {role: name for role, name in (found | log.columns).items() if name}


def _refuse_columns(log: ChatLog, records: Records, roles: set[str]) -> None:
    named = " ".join(f"{role}={log.columns[role]}" for role in sorted(roles))
    raise InputError(
        f"--columns {named}: nothing of that name in {log.path}; {records.place} has {', '.join(records.columns)}"
    )


def _shape(log: ChatLog, records: Records, names: dict[str, str]) -> Callable[[ChatLog, Record, int], Message | Pair]:
    if names.keys() >= {"input", "response"} and "text" not in log.columns:
        return _pair
    if names.keys() >= {"text", "id", "parent"}:
        return _reply
    if names.keys() >= {"text", "thread"}:
        if log.gap is not None and "time" not in names:
            raise InputError(
                f"--gap: {log.path} says no time; name its column (--columns time=NAME) or leave --gap out"
            )
        return _turn
    raise InputError(
        f"{records.place}: the columns are {', '.join(records.columns)}; expected input and response (ready pairs), "
        "text, id and parent (reply links) or text and thread (threads in order); name columns that are called "
        "otherwise with --columns, as in text=body"
    )


def _paths(name: str) -> tuple[str, str]:
    """The columns that may hold a name: that of the whole name, that of the first part of a dotted path."""
    return name, name.partition(".")[0]


def _look_up(record: Record, name: str) -> Any:
    if name in record:
        return record[name]
    value: Any = record
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _pair(log: ChatLog, values: Record, number: int) -> Pair:
    if not all(isinstance(values[role], str) for role in ("input", "response")):
        raise BrokenLineError("wrong type", "input and response should be texts")
    source = label(values, "source") or log.name
    return Pair(values["input"], values["response"], label(values, "thread") or None, source)


def _reply(log: ChatLog, values: Record, number: int) -> Message:
    return Message(
        id=required_label(values, "id"),
        parent=label(values, "parent"),
        thread=label(values, "thread") or None,
        speaker=_speaker(values),
        time=None,
        text=required_text(values, "text"),
        source=label(values, "source") or log.name,
        gap=None,
    )


def _turn(log: ChatLog, values: Record, number: int) -> Message:
    return Message(
        id=label(values, "id") or f"row {number}",
        parent=None,
        thread=required_label(values, "thread"),
        speaker=_speaker(values),
        time=seconds(values["time"]) if "time" in values else None,
        text=required_text(values, "text"),
        source=label(values, "source") or log.name,
        gap=log.gap,
    )


def _speaker(values: Record) -> str | None:
    name = label(values, "speaker")
    return None if name in PLACEHOLDERS else name  # who was deleted is not always the same


def required_text(values: Record, name: str) -> str:
    """A field that is a text; raises BrokenLineError where it is none."""
    value = values.get(name)
    if not isinstance(value, str):
        raise BrokenLineError("wrong type", f"{name} should be a text, found {type(value).__name__}")
    return value


def required_label(values: Record, name: str) -> str:
    """A field that is a name or an id, as text; raises BrokenLineError where there is none."""
    value = label(values, name)
    if not value:
        raise BrokenLineError("missing field", name)
    return value


def label(values: Record, name: str) -> str:
    """A field that is a name or an id, as text; "" where there is none. Raises BrokenLineError for a list or object."""
    value = values.get(name)
    if value is None or value != value:
        return ""
    if isinstance(value, dict | list):
        raise BrokenLineError("wrong type", f"{name} should be a text or a number, found {type(value).__name__}")
    # pandas keeps whole numbers as 12.0 where some of the column are missing.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def seconds(value: Any) -> float:
    """A number, or a time (ISO 8601; UTC where it names no zone) in seconds since 1970; raises BrokenLineError."""
    try:
        if isinstance(value, str):
            value = _number_or_time(value.strip())
        elif isinstance(value, date) and not isinstance(value, datetime):
            value = datetime(value.year, value.month, value.day)
        if isinstance(value, datetime):
            value = (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
        if math.isfinite(number := float(value)):
            return number
    except (TypeError, ValueError, OverflowError):
        pass
    raise BrokenLineError("wrong time", f"expected a number or a time in ISO 8601, found {str(value)[:40]!r}")


def _number_or_time(text: str) -> float | datetime:
    try:
        return float(text)
    except ValueError:
        return datetime.fromisoformat(text)
