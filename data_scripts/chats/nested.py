"""Finds records within records: the messages of a conversation, and the only list of a file that is one object.

Exports of help desks and of APIs have them: tickets with comments, dialogs with turns, `{"data": {"items": [...]}}`.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

from data_scripts.chats.column_roles import (
    are_long_texts,
    find_side,
    flat_columns,
    guess_roles,
    has_usual_name,
    is_named,
    look_up,
    plain_name,
    shape_of,
)
from data_scripts.chats.marks import rule_of
from data_scripts.chats.messages import ChatLog, name_of_content
from data_scripts.chats.tables import default_columns, missing_columns
from modeling_convsim.files.records import SAMPLE_RECORDS, Record, Records, Rows
from modeling_convsim.files.texts import BrokenLines

DESCRIPTIONS = ("description text", "description")  # of tickets: their first message
ROLES = ("text", "speaker", "time")  # of messages that are in order


@dataclass(frozen=True)
class Messages:
    """The messages of each record.

    Attributes:
        column: `b` or `a.b`, the list.
        roles: role -> the field of a message; empty if the messages are texts.
        marks: the fields that may say which messages are left out, or who answers.
        opening: role or mark -> the field of the record that is its first message; empty if the list has that, too.
    """

    column: str
    roles: dict[str, str]
    marks: list[str]
    opening: dict[str, str]

    def describe(self) -> str:
        """The column and the fields, for people."""
        fields = ", ".join(f"{role}={name}" for role, name in self.roles.items()) or "texts"
        first = f", after {self.opening['text']}" if self.opening else ""
        return f"{self.column} of each record ({fields}){first}"


def find_messages(rows: list[Record]) -> Messages | None:
    """The messages of each record, if there is one column of them.

    Its name is one of `messages` in column_names.json, or ends with one, or is `data` if it holds texts. A message is
    an object with a text, and a speaker or a time unless the list is named like a dialog, or it is a text.
    """
    found = []
    columns = dict.fromkeys(column for row in rows for column in _list_columns(row, (dict, str)))
    for column in columns:
        lists = [value for row in rows if isinstance(value := look_up(row, column), list)]
        messages = [message for value in lists for message in value if message is not None]
        objects = [message for message in messages if isinstance(message, dict)][:SAMPLE_RECORDS]
        if not (_is_named(column, "messages") or (plain_name(column) == "data" and are_long_texts(messages))):
            continue
        if not objects:
            found.append(Messages(column, {}, [], {}))
            continue
        if len(rows) == 1 and find_messages(objects):  # a list of conversations
            continue
        fields = flat_columns(dict.fromkeys(name for message in objects for name in message), objects)
        guessed, _ = guess_roles(fields, objects)
        roles = {role: guessed[role] for role in ROLES if role in guessed}
        if "text" in roles and (len(roles) > 1 or _is_named(column, "dialogs")):
            side, _ = find_side(fields, objects, roles)
            marks = [name for name in fields if (rule_of(name) or name == side) and name not in ROLES]
            found.append(Messages(column, roles, marks, _find_opening(rows, marks)))
    return found[0] if len(found) == 1 else None


def _is_named(column: str, names: str) -> bool:
    """Whether a column has a name of this list (`is_named`), or ends with one."""
    words = plain_name(column).split()
    return any(is_named(" ".join(words[-number:]), names) for number in (1, 2) if len(words) >= number)


def _find_opening(rows: list[Record], marks: list[str]) -> dict[str, str]:
    """Role or mark -> the field of a record, or of an object in it, that is its first message.

    Such is a ticket's description. It has a text and a speaker, by their names. Empty if there is no such message.
    """
    candidates = {"": rows}
    for name in dict.fromkeys(name for row in rows for name in row):
        candidates[f"{name}."] = [row[name] for row in rows if isinstance(row.get(name), dict)]
    for prefix, records in candidates.items():
        fields = flat_columns(dict.fromkeys(name for record in records for name in record), records)
        roles, _ = guess_roles(fields, records)
        texts = [name for wanted in DESCRIPTIONS for name in fields if plain_name(name) == wanted]
        if "text" in roles and has_usual_name(roles["text"], "text"):
            texts = [roles["text"]]
        if texts and "speaker" in roles:
            chosen = roles | {"text": texts[0]}
            found = {role: chosen[role] for role in ROLES if role in chosen} | {name: name for name in marks}
            return {name: prefix + field for name, field in found.items()}
    return {}


def open_inner(log: ChatLog, records: Records) -> Records | None:
    """The records within records, if these are not a table themselves; messages are noted as detected."""
    rows = records.sample
    if log.columns and not missing_columns(log, records):
        return None
    roles, _ = guess_roles(flat_columns(records.columns, rows), rows)
    defaults = default_columns(records.columns)
    if shape_of(defaults) or {"input", "response"} & (defaults | roles).keys():
        return None
    if messages := None if log.columns else find_messages(rows):
        log.detected["format"] = messages.describe()
        return message_rows(records, messages)
    if find_only_mapping(rows):
        values = [(f"{records.location}, {name}", _conversation(value)) for name, value in rows[0].items()]
        return _held(records.location, values)
    lists = [] if shape_of(roles) or len(rows) != 1 else _list_columns(rows[0], dict)
    if len(lists) != 1:
        return None
    elements = enumerate(look_up(rows[0], lists[0]), start=1)
    return _held(records.location, [(f"{records.location}, {lists[0]} {number}", each) for number, each in elements])


def _held(location: str, values: list[tuple[str, Any]]) -> Records:
    """Records that are in memory, some of which may be null."""

    def rows(needed: Collection[str], broken: BrokenLines) -> Rows:
        for where, record in values:
            if record is None:
                broken.add("not a JSON object", where, "found null")
            else:
                yield where, record

    first = [record for _, record in values if record is not None][:SAMPLE_RECORDS]
    return Records(location, list(dict.fromkeys(chain.from_iterable(first))), False, first, rows)


def message_rows(records: Records, messages: Messages) -> Records:
    """The messages of all records, with the columns `thread`, `id`, those of their roles or `text`, and the marks.

    A conversation is named after its content, so that its name does not depend on the other records of the file, and
    the messages of equal conversations have equal ids.
    """
    column, roles, opening = messages.column, messages.roles, messages.opening
    kind, expected = (dict, "objects") if roles else (str, "texts")

    def rows_of(location: str, record: Record, broken: BrokenLines) -> Rows:
        listed = look_up(record, column)
        if not isinstance(listed, list) or not all(isinstance(message, kind | None) for message in listed):
            broken.add("wrong type", location, f"{column} should be a list of {expected}")
            return
        for number, message in enumerate(listed, start=1):
            if message is None:
                broken.add("wrong type", f"{location}, {column} {number}", "expected a message, found null")
        listed = [message for message in listed if message is not None]
        thread = name_of_content(listed)
        named = [
            {role: look_up(message, field) for role, field in roles.items()} or {"text": message} for message in listed
        ]
        first = {role: look_up(record, field) for role, field in opening.items()}
        if first.get("text") and not (named and named[0]["text"] == first["text"]):
            first["time"] = first.get("time") or (named[0].get("time") if named else None)
            yield f"{location}, {opening['text']}", {"thread": thread, "id": f"{thread}/0", **first}
        for number, (message, fields) in enumerate(zip(listed, named, strict=True), start=1):
            marks = {name: look_up(message, name) for name in messages.marks}
            yield f"{location}, {column} {number}", {"thread": thread, "id": f"{thread}/{number}", **fields, **marks}

    needed = {name.partition(".")[0] for name in (column, *opening.values())}
    return records.expanded(["thread", "id", *(roles or ["text"]), *messages.marks], needed, rows_of)


def find_only_mapping(rows: list[Record]) -> bool:
    """Whether the only record maps the names of conversations to them.

    These are objects, as in `{"c1": {"turns": [...]}, "c2": ...}`, or lists of messages, as in Snapchat's
    chat_history.json. Lists in `{"posts": [...], "comments": [...]}` are none.
    """
    first = list(islice(rows[0].values(), SAMPLE_RECORDS)) if len(rows) == 1 else []
    values = [_conversation(value) for value in first if value or not isinstance(value, list)]  # some chats are empty
    return (
        len(first) > 1
        and len(values) > 0
        and not any(_is_named(name, names) for name in rows[0] for names in ("messages", "other lists"))
        and all(isinstance(value, dict) and find_messages([value]) for value in values)
        and find_messages(values) is not None
    )


def _conversation(value: Any) -> Any:
    """A conversation as an object: a list of messages is one without other fields."""
    return {"messages": value} if isinstance(value, list) else value


def _list_columns(record: Record, kinds: type | tuple[type, ...]) -> list[str]:
    """The columns of `_lists`, without those that `look_up` does not find: a field may be named `a.b` or `a+b`."""
    return [column for column in _lists(record, kinds) if isinstance(look_up(record, column), list)]


def _lists(record: Record, kinds: type | tuple[type, ...], prefix: str = "") -> Iterator[str]:
    """The columns of lists whose elements are of some type, at least one."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _lists(value, kinds, f"{prefix}{name}.")
        elif isinstance(value, list):
            found = [each for each in value if each is not None]
            if found and all(isinstance(each, kinds) for each in found):
                yield prefix + name
