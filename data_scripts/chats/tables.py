"""Reads tables of messages or ready pairs: reply links, threads in order, pairs."""

import re
import shlex
from collections.abc import Callable
from contextlib import suppress

from data_scripts.chats.column_roles import BOTH, find_side, flat_columns, guess_roles, look_up, shape_of, side_of
from data_scripts.chats.dates import Dates
from data_scripts.chats.marks import find_marks, find_verdicts
from data_scripts.chats.messages import ChatLog, Fields, Items, Message, Pair
from data_scripts.clean.filters import is_placeholder
from data_scripts.clean.text import are_html, html_to_text, unescape
from modeling_convsim.files.errors import InputError, refuse_options
from modeling_convsim.files.records import DELIMITED, Record, Records, form_of
from modeling_convsim.files.texts import BrokenLineError

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

_BARE_AMPERSAND = re.compile(r"&(?!#?\w{1,32};)")  # in a text that nobody escaped

WHO_ANSWERS = "who answers"  # of what is detected
TEXTS = ("text", "input", "response")
RowConverter = Callable[[ChatLog, Fields, int], Message | Pair]  # (log, its values by role, number of the row)


def read_table(log: ChatLog) -> Items:
    """The messages or pairs of a table, with their locations; its columns determine which of the shapes it has.

    Raises:
        InputError: the columns have none of the shapes, a column that the user named does not exist, or the order of
            day and month in dates is not clear.
    """
    records = log.records
    names = find_columns(log, records)
    convert, dates = _row_converter(log, records, names), None
    find = find_verdicts if convert is _to_pair else find_marks
    columns, sample = flat_columns(records.columns, records.sample), records.sample
    marks, (side, answering) = find(columns, sample, names), find_side(columns, sample, names)
    rows = records.rows({part for name in (*names.values(), *marks.rules, side) for part in _paths(name)}, log.broken)
    if "time" in names and convert in (_to_turn, _to_message):  # the other shapes need no order in time
        rows, dates = log.with_dates(rows, lambda row: look_up(row[1], names["time"]))
    unseen = set(log.columns)
    if html := _html_roles(names, sample):
        log.detected["texts"] = "HTML"
    if answering:
        cells = [look_up(row, side) for row in sample]
        shown = dict.fromkeys(str(cell) if side_of(cell) else "missing" for cell in cells if side_of(cell) in answering)
        log.detected[WHO_ANSWERS] = f"{side} is {' or '.join(shown)}"

    def parse(values: Record, number: int) -> Message | Pair:
        texts = {role: values[role] for role in TEXTS if isinstance(values.get(role), str)}
        values |= {role: html_to_text(text) if role in html else _unescape(text) for role, text in texts.items()}
        if dates:
            values["time"] = dates.seconds(values["time"])
        return convert(log, Fields(values), number)

    for number, (location, record) in enumerate(rows, start=1):
        values = {role: look_up(record, name) for role, name in names.items()}
        values["is_answer"] = side_of(look_up(record, side)) in answering if answering else None
        unseen -= {role for role in unseen if values[role] is not None}
        if kind := marks.reason(record):
            log.leave_out(kind)
        elif item := log.attempt(location, parse, values, number):
            yield location, item
    if unseen:
        raise _unknown_columns(log, records, unseen)


def find_columns(log: ChatLog, records: Records) -> dict[str, str]:
    """Role -> column, of the roles that the table has; `SHAPES` lists which roles belong together.

    Columns that are named after their roles are used. If the user named none, the roles of others are guessed, and
    noted as detected.

    Raises:
        InputError: a column that the user named does not exist, or several may have a role that is needed.
    """
    if records.complete and (missing := missing_columns(log, records)):
        raise _unknown_columns(log, records, missing)
    names = default_columns(records.columns) | log.columns
    if log.columns or names.keys() >= {"input", "response"}:
        return names
    rows = records.sample
    names = {role: name for role, name in names.items() if not _are_objects(rows, name)}
    guess, ambiguous = guess_roles(flat_columns(records.columns, rows), rows)
    if shape_of(names) is None and ambiguous:
        role, candidates = next(iter(ambiguous.items()))
        raise InputError(
            f"{log.path}: several columns may be the {role} ({', '.join(candidates)}); choose one with --columns, "
            f"as in {shlex.quote(f'{role}={candidates[0]}')}{_inspect(log)}"
        )
    # What the names of columns say is not changed by a guess, but messages also need their speakers and times.
    roles = guess if shape_of(names) is None else {"speaker", "time"} & guess.keys()
    for role in ("time", "input"):  # the column that is named time has only times of day
        if BOTH in guess.get(role, ""):
            names.pop(role, None)
    guessed = {role: name for role, name in guess.items() if role in roles and role not in names}
    guessed = {role: name for role, name in guessed.items() if name not in names.values()}
    if shape_of(names | guessed):
        if guessed:
            log.detected["columns"] = " ".join(shlex.quote(f"{role}={name}") for role, name in guessed.items())
        names |= guessed
    return names


def default_columns(columns: list[str]) -> dict[str, str]:
    """Role -> column, of the columns that are named after their roles."""
    found = {role: next((name for name in names if name in columns), "") for role, names in COLUMN_NAMES.items()}
    return {role: name for role, name in found.items() if name}


def missing_columns(log: ChatLog, records: Records) -> set[str]:
    """The roles whose columns, which the user named, are not in the records."""
    columns = set(records.columns)
    parts = {role: [name] if name in columns else name.split(BOTH) for role, name in log.columns.items()}
    return {role for role, own in parts.items() if not all(columns & {part, part.partition(".")[0]} for part in own)}


def _html_roles(names: dict[str, str], rows: list[Record]) -> list[str]:
    """The roles whose texts are HTML, as are those of Skype's messages of the type RichText."""
    is_rich = any("RichText" in row.values() for row in rows)
    texts = {role: [look_up(row, names[role]) for row in rows] for role in TEXTS if role in names}
    texts = {role: [each for each in values if each and isinstance(each, str)] for role, values in texts.items()}
    return [role for role, values in texts.items() if is_rich or are_html(values)]


def _unescape(text: str) -> str:
    """A text as its author wrote it, if the program that made the table escaped texts, as those of tweets are."""
    return text if _BARE_AMPERSAND.search(text) else unescape(text)


def _are_objects(rows: list[Record], name: str) -> bool:
    """Whether all values of a column are objects, as those of `user` may be, whose fields are columns (`user.name`)."""
    values = [row[name] for row in rows if row.get(name) is not None]
    return bool(values) and all(isinstance(value, dict) for value in values)


def _inspect(log: ChatLog) -> str:
    command = f"convsim inspect {shlex.quote(str(log.path))}"
    return "" if log.is_shown else f"; `{command}` shows their values"


def _example(records: Records, names: dict[str, str]) -> str:
    """How to state the role of a column that has none: the longest texts are those of messages."""
    rows = records.sample
    columns = flat_columns(records.columns, rows) or ["NAME"]
    free = [name for name in columns if name not in names.values()] or columns
    if "text" in names:
        return shlex.quote(f"thread={free[0]}")
    longest = max(free, key=lambda name: sum(len(str(look_up(row, name) or "")) for row in rows))
    return shlex.quote(f"text={longest}")


def _unknown_columns(log: ChatLog, records: Records, roles: set[str]) -> InputError:
    named = " ".join(f"{role}={log.columns[role]}" for role in sorted(roles))
    return InputError(
        f"--columns {named}: no such column in {log.path}; {records.location} has {', '.join(records.columns)}"
    )


def _row_converter(log: ChatLog, records: Records, names: dict[str, str]) -> RowConverter:
    gap = {"--gap": log.gap is not None}
    if names.keys() >= {"input", "response"} and "text" not in log.columns:
        refuse_options(gap, f"{log.path} contains ready pairs, which have no pauses; leave it out")
        return _to_pair
    if names.keys() >= {"text", "id", "parent"}:
        refuse_options(gap, f"{log.path} has reply links, which do not depend on pauses; leave it out")
        return _to_reply
    if names.keys() >= {"text", "thread"}:
        if "time" not in names:
            refuse_options(gap, f"{log.path} has no times; name their column (--columns time=NAME), or leave it out")
        return _to_turn
    if names.keys() >= {"text", "speaker", "time"}:
        return _to_message
    chat = "neither a chat, with lines such as '31/03/2026, 18:05 - Ann: Hi', 'Ann: Hi' or '<ann> hi', nor a table: "
    header = "; if the first line is a message, add a header line with the column names"
    raise InputError(
        f"{records.location}: {chat if form_of(log.path) == '.txt' else ''}the columns are "
        f"{', '.join(records.columns)}; expected input and response (ready pairs); text, id and parent (reply links); "
        "text and thread (threads in order); or text, speaker and time (one chat); if columns have other names, use "
        f"--columns, as in {_example(records, names)}{_inspect(log)}{header if form_of(log.path) in DELIMITED else ''}"
    )


def _paths(name: str) -> set[str]:
    """The columns that a name may refer to: the one with this name, or those with the first parts of dotted paths."""
    return {name, *(part.partition(".")[0] for part in (name, *name.split(BOTH)))}


def _to_pair(log: ChatLog, values: Fields, number: int) -> Pair:
    if not all(isinstance(values.get(role), str) for role in ("input", "response")):
        raise BrokenLineError("wrong type", "input and response should be texts")
    source = values.label("source") or log.name
    return Pair(values.text("input"), values.text("response"), values.label("thread") or None, source)


def _to_reply(log: ChatLog, values: Fields, number: int) -> Message:
    # pandas writes 12 as 12.0 if other values are missing
    name, parent = (text.removesuffix(".0") for text in (values.required("id"), values.label("parent")))
    time = None
    with suppress(BrokenLineError):  # links need no times; only the parts of an answer are in their order
        time = Dates(log.date_order).seconds(values.get("time"))
    return _message(log, values, name)._replace(parent=parent, thread=values.label("thread") or None, time=time)


def _to_turn(log: ChatLog, values: Fields, number: int) -> Message:
    thread = values.required("thread")
    message = _message(log, values, values.label("id") or f"row {number}")
    return message._replace(thread=thread, time=values.get("time"), gap=log.gap)


def _message(log: ChatLog, values: Fields, name: str) -> Message:
    text, source = values.text("text"), values.label("source") or log.name
    author = values.label("speaker")
    speaker = None if is_placeholder(author) else author  # different deleted users have the same name
    return Message(name, None, None, speaker, None, text, source, None, values.get("is_answer"))


def _to_message(log: ChatLog, values: Fields, number: int) -> Message:
    return _to_turn(log, Fields(values.values | {"thread": log.name}), number)._replace(gap=log.channel_gap)
