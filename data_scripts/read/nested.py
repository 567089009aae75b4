"""Finds records within records: the messages of a conversation, and the only list of a file that is one object.

Exports of help desks and of APIs have them: tickets with comments, dialogs with turns, `{"data": {"items": [...]}}`.
"""

import hashlib
import json
from collections.abc import Iterator

from data_scripts.read.files import BrokenLines
from data_scripts.read.records import Record, Records, Rows
from data_scripts.read.roles import SAMPLE_ROWS, flat_columns, guess_roles, is_named, look_up

MESSAGES = (
    "messages; message list; turns; utterances; dialog; dialogue; conversation; conversations; comments; chat; log; "
    "chat log; history; transcript; thread; conversation parts; parts; events"
)
ROLES = ("text", "speaker", "time")  # of messages that are in order


def find_messages(rows: list[Record]) -> tuple[str, dict[str, str]] | None:
    """The column, `b` or `a.b`, with the messages of each record, and the fields of a message that have `ROLES`.

    Its name is one of `MESSAGES`. A message is an object with a text, and a speaker or a time, or it is a text, and has
    no fields. None unless there is one such column.
    """
    found = []
    columns = dict.fromkeys(column for row in rows for column in _lists(row, (dict, str)))
    for column in (each for each in columns if is_named(each.rpartition(".")[2], MESSAGES)):
        lists = [value for row in rows if isinstance(value := look_up(row, column), list)]
        messages = [message for value in lists for message in value]
        objects = [message for message in messages if isinstance(message, dict)][:SAMPLE_ROWS]
        if not objects:
            found.append((column, dict[str, str]()))
            continue
        fields = flat_columns(dict.fromkeys(name for message in objects for name in message), objects)
        guessed = guess_roles(fields, objects).columns
        roles = {role: guessed[role] for role in ROLES if role in guessed}
        if "text" in roles and len(roles) > 1:
            found.append((column, roles))
    return found[0] if len(found) == 1 else None


def message_rows(records: Records, broken: BrokenLines, column: str, roles: dict[str, str]) -> Records:
    """The messages of all records, with the columns `thread`, `id` and those of `roles`, or `text`.

    A conversation is named after its content, so that its name does not depend on the other records of the file, and
    the messages of equal conversations have equal ids.
    """
    kind, expected = (dict, "objects") if roles else (str, "texts")

    def rows(_: set[str]) -> Rows:
        for location, record in records.rows({column.partition(".")[0]}):
            messages = look_up(record, column)
            if not isinstance(messages, list) or not all(isinstance(message, kind) for message in messages):
                broken.add("wrong type", location, f"{column} should be a list of {expected}")
                continue
            content = json.dumps(messages, ensure_ascii=False, default=str)
            thread = hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:16]
            for number, message in enumerate(messages, start=1):
                fields = {role: look_up(message, field) for role, field in roles.items()} or {"text": message}
                yield f"{location}, {column} {number}", {"thread": thread, "id": f"{thread}/{number}", **fields}

    return Records(records.location, ["thread", "id", *(roles or ["text"])], True, rows)


def find_only_list(rows: list[Record]) -> str | None:
    """The column of the only list of objects, if there is only one record."""
    columns = list(_lists(rows[0], dict)) if len(rows) == 1 else []
    return columns[0] if len(columns) == 1 else None


def list_elements(records: Records, column: str) -> Records:
    """The elements of the list of the only record, as records, which can be read repeatedly: they are in memory."""
    location, record = next(records.rows({column.partition(".")[0]}))
    elements = look_up(record, column)
    rows = [(f"{location}, {column} {number}", element) for number, element in enumerate(elements, start=1)]
    return Records(records.location, list(elements[0]), False, lambda _: iter(rows))


def _lists(record: Record, kinds: type | tuple[type, ...], prefix: str = "") -> Iterator[str]:
    """The columns of lists whose elements are of some type, at least one."""
    for name, value in record.items():
        if isinstance(value, dict):
            yield from _lists(value, kinds, f"{prefix}{name}.")
        elif isinstance(value, list) and value and all(isinstance(each, kinds) for each in value):
            yield prefix + name
