"""Reads tables of messages or ready pairs: reply links, threads in order, pairs."""

from collections.abc import Callable
from typing import Any

from data_scripts.clean.filters import is_placeholder
from data_scripts.errors import InputError, refuse_options
from data_scripts.read.files import BrokenLineError
from data_scripts.read.messages import ChatLog, Items, Message, Pair, label, required_label, required_text, seconds
from data_scripts.read.records import Record, Records

# Role -> its possible columns, unless the user names one. The names after the first are those of ConvoKit's
# utterances.jsonl, which is a table of reply links.
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

RowConverter = Callable[[ChatLog, Record, int], Message | Pair]  # (log, role -> value, number of the row)


def read_table(log: ChatLog, records: Records) -> Items:
    """The messages or pairs of a table, with their locations; its columns determine which of the three shapes it has.

    Raises:
        InputError: the columns have none of the shapes, or a column that the user named does not exist.
    """
    names = _find_columns(log, records)
    convert = _row_converter(log, records, names)
    unseen = set(log.columns)
    columns_needed = {part for name in names.values() for part in _paths(name)}
    for number, (location, record) in enumerate(records.rows(columns_needed), start=1):
        values = {role: _look_up(record, name) for role, name in names.items()}
        unseen -= {role for role in unseen if values[role] is not None}
        try:
            yield location, convert(log, values, number)
        except BrokenLineError as error:
            log.broken.add(error.args[0], location, error.args[1])
    if unseen:
        raise _unknown_columns(log, records, unseen)


def _find_columns(log: ChatLog, records: Records) -> dict[str, str]:
    """Role -> column, of the roles that the table has."""
    available = set(records.columns)
    if records.complete:
        missing = {role for role, name in log.columns.items() if not available & set(_paths(name))}
        if missing:
            raise _unknown_columns(log, records, missing)
    defaults = {role: next((name for name in names if name in available), "") for role, names in COLUMN_NAMES.items()}
    return {role: name for role, name in (defaults | log.columns).items() if name}


def _unknown_columns(log: ChatLog, records: Records, roles: set[str]) -> InputError:
    named = " ".join(f"{role}={log.columns[role]}" for role in sorted(roles))
    return InputError(
        f"--columns {named}: no such column in {log.path}; {records.location} has {', '.join(records.columns)}"
    )


def _row_converter(
    log: ChatLog, records: Records, names: dict[str, str]
) -> Callable[[ChatLog, Record, int], Message | Pair]:
    if names.keys() >= {"input", "response"} and "text" not in log.columns:
        refuse_options(
            {"--gap": log.gap is not None}, f"{log.path} holds ready pairs, which have no pauses; leave it out"
        )
        return _to_pair
    if names.keys() >= {"text", "id", "parent"}:
        refuse_options(
            {"--gap": log.gap is not None}, f"{log.path} has reply links, which pauses do not interrupt; leave it out"
        )
        return _to_reply
    if names.keys() >= {"text", "thread"}:
        if log.gap is not None and "time" not in names:
            raise InputError(
                f"--gap: {log.path} has no times; name their column (--columns time=NAME), or leave it out"
            )
        return _to_turn
    raise InputError(
        f"{records.location}: the columns are {', '.join(records.columns)}; expected input and response (ready pairs), "
        "text, id and parent (reply links) or text and thread (threads in order); name columns with other names with "
        "--columns, as in text=body"
    )


def _paths(name: str) -> tuple[str, str]:
    """The columns that a name may refer to: the one with this name, or the one with the first part of a dotted path."""
    return name, name.partition(".")[0]


def _look_up(record: Record, name: str) -> Any:
    if name in record:
        return record[name]
    value: Any = record
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def _to_pair(log: ChatLog, values: Record, number: int) -> Pair:
    if not all(isinstance(values[role], str) for role in ("input", "response")):
        raise BrokenLineError("wrong type", "input and response should be texts")
    source = label(values, "source") or log.name
    return Pair(values["input"], values["response"], label(values, "thread") or None, source)


def _to_reply(log: ChatLog, values: Record, number: int) -> Message:
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


def _to_turn(log: ChatLog, values: Record, number: int) -> Message:
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
    return None if is_placeholder(name) else name  # different deleted users have the same name
