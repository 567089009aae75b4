"""Guesses which column of a table has which role, from the names of the columns and the values of the first rows."""

import json
import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from data_scripts.chats.dates import NUMERIC, Dates
from modeling_convsim.files.records import Record
from modeling_convsim.files.texts import BrokenLineError

BOTH = "+"  # between the names of two columns whose values are joined, such as those of dates and of times of day
SHAPES = {
    "ready pairs": ("input", "response"),
    "reply links": ("text", "id", "parent"),
    "threads in order": ("text", "thread"),
    "one chat": ("text", "speaker", "time"),
}

_LISTS = json.loads(Path(__file__).with_name("column_names.json").read_text(encoding="utf-8"))
# Role -> groups of names. A name in an earlier group is a better match; two columns of a group are ambiguous. Help
# desks have a plain body beside the same text in HTML, and data for preference tuning `chosen` beside `rejected`.
_NAMES: dict[str, list[list[str]]] = _LISTS["roles"]
MOST_SIDES = 4
# The values of a column that says of each message which side wrote it, and of a column of authors without names
_PEOPLE, _MACHINES = frozenset(_LISTS["people answer"]), frozenset(_LISTS["machines answer"])
ANSWERING, ASKING = _PEOPLE | _MACHINES, frozenset(_LISTS["ask"])
_SERVED = {"contact", "customer", "lead"}  # beside them, a user is one of the program of a help desk
# The names of columns that say of each message whether one side wrote it, such as `is_from_agent`, have one more word.
_FLAG_WORDS = frozenset(_LISTS["words of flags"])
_FLAGS = _PEOPLE | ASKING - {"human", "other"}
TRUE, FALSE = frozenset("true 1 1.0 yes y t".split()), frozenset("false 0 0.0 no n f".split())
_CLOCK = re.compile(r"\d{1,2}:\d{2}(:\d{2}([.,]\d+)?)?(\s*[ap]\.?\s?m\.?)?", re.IGNORECASE)
_PAIR, _OPTIONAL = ("input", "response"), ("speaker", "time")


def shape_of(roles: Iterable[str]) -> str | None:
    """The first of `SHAPES` whose roles are among these."""
    given = set(roles)
    return next((shape for shape, needed in SHAPES.items() if given.issuperset(needed)), None)


def answering_roles(values: Iterable[str]) -> list[str]:
    """The values of those who answer, if the values are the sides of conversations, such as agent, bot and customer.

    Where people answer, those of bots are left out.
    """
    values = list(values)
    answering = answering_sides("", values)
    return sorted((value for value in values if side_of(value) in answering), key=side_of)


def answering_sides(column: str, values: Iterable[Any]) -> frozenset[str]:
    """The sides (`side_of`) that answer, if a column says of each message which side wrote it; else none.

    Its values are the names of sides, or it is named after one side and says whether that side wrote the message.
    """
    sides = set(map(side_of, values))
    flag, answering = _flag(column), frozenset[str]()
    if flag and sides <= TRUE | FALSE | {""}:
        answering = TRUE if flag in _PEOPLE else FALSE if sides & FALSE else frozenset([""])
    elif sides & ASKING and len(sides - {""}) <= MOST_SIDES:
        answering = next((group for group in (_PEOPLE, _MACHINES) if sides & group), answering)
        if not answering and sides & _SERVED:
            answering = frozenset(["user"])
    return answering


def side_of(value: Any) -> str:
    """A value of a column of sides as in `ANSWERING` and `ASKING`, if one of them is its first or last word."""
    words = "" if _is_missing(value) else plain_name(str(value).strip().removesuffix(".0"))
    parts = words.split()
    joined = "".join(parts)
    return next((each for each in (joined, *parts[-1:], *parts[:1]) if each in ANSWERING | ASKING), joined)


def _flag(column: str) -> str | None:
    """The side that a column such as `author.is_staff` is named after; a `user` of 0 and 1 may be the number of one."""
    words = plain_name(column.rpartition(".")[2]).split()
    side = "".join([word for word in words if word not in _FLAG_WORDS] or words[1:][-1:])
    return side if side in _FLAGS else None


def guess_roles(columns: Sequence[str], rows: Sequence[Record]) -> tuple[dict[str, str], dict[str, list[str]]]:
    """Guess the roles of columns from their names and values.

    Args:
        columns: the names, in order; `a.b` is the field b of the objects in a.
        rows: the first rows, column -> value; without any, only names count.

    Returns:
        Role -> column, and role -> the columns that may have it, of which none is better than the others.
    """
    values = {name: [value for row in rows if not _is_missing(value := look_up(row, name))] for name in columns}
    chosen, ambiguous, speakers = _guess_by_names(rows, values)
    if time := _find_time(chosen, values):
        chosen["time"] = time
    parts = [name for wanted in ("instruction", "input") for name in columns if plain_name(name) == wanted]
    if chosen.keys() >= set(_PAIR) and len(parts) == 2:  # instructions, some of which have an input
        chosen["input"] = BOTH.join(parts)
    if not {"text", "input"} & {*chosen, *ambiguous} and (text := _only_text(chosen, values)):
        chosen["text"] = text
    if "text" in chosen and "speaker" not in chosen:
        person = _find_person(chosen, rows, values) or find_side(columns, rows, chosen)[0]
        if speaker := person or next(iter(speakers), None):
            chosen["speaker"] = speaker
    return chosen, ambiguous


def _guess_by_names(
    rows: Sequence[Record], values: dict[str, list[Any]]
) -> tuple[dict[str, str], dict[str, list[str]], list[str]]:
    """As `guess_roles`: what the names say, if the values fit; and all columns named like speakers, even if few fit."""
    chosen: dict[str, str] = {}
    ambiguous: dict[str, list[str]] = {}
    speakers: list[str] = []
    for role, names in _NAMES.items():
        groups = _named_columns(role, [name for name in values if name not in chosen.values()], rows, values)
        if role == "speaker" and "text" in chosen:
            speakers = list(chain(*groups))
            groups = [[name for name in group if _covers(rows, name, chosen["text"])] for group in groups]
        best = next(filter(None, groups), [])
        if len(best) > 1 and role not in _OPTIONAL:
            ambiguous[role] = best
        elif best:
            order = list(chain(*names))
            chosen[role] = min(best, key=lambda name: order.index(plain_name(name)))
        if role == _PAIR[1] and len(chosen) == 1:  # a question without answers is no pair
            chosen.clear()
    return chosen, ambiguous, speakers


def _named_columns(
    role: str, columns: Sequence[str], rows: Sequence[Record], values: dict[str, list[Any]]
) -> list[list[str]]:
    """For each group of names of a role, the columns with such a name and values that fit."""
    found = []
    for group in _NAMES[role]:
        # A column `agent` may hold names, unlike a column `answer`.
        fits = are_long_texts if role in _PAIR and group is not _NAMES[role][0] else _FITS[role]
        named = [name for name in columns if plain_name(name) in group]
        found.append([name for name in named if not rows or (values[name] and fits(values[name]))])
    return found


def _free(chosen: dict[str, str], values: dict[str, list[Any]]) -> dict[str, list[Any]]:
    """The columns that have values, and no role yet."""
    return {name: own for name, own in values.items() if own and name not in chosen.values()}


def _find_time(chosen: dict[str, str], values: dict[str, list[Any]]) -> str | None:
    """The column of times; one that has only dates is joined to the column of times of day, if there is only one."""
    time = chosen.get("time")
    if time is None:
        stamps = [name for name, own in _free(chosen, values).items() if _are_stamps(name, own)]
        return stamps[0] if len(stamps) == 1 else None
    if _most(lambda value: ":" in str(value), values[time]):
        return time
    clocks = [name for name, own in _free(chosen, values).items() if _are_clocks(own)]
    return f"{time}{BOTH}{clocks[0]}" if len(clocks) == 1 else time


def flat_columns(columns: Iterable[str], rows: Sequence[Record]) -> list[str]:
    """The columns, with `a.b` for each field b of the objects in a, and `a.b.c` if b is named like a person."""
    flat: dict[str, None] = {}
    for name in columns:
        objects = [value for row in rows if isinstance(value := row.get(name), dict)]
        fields = dict.fromkeys(field for value in objects for field in value)
        for field in fields:
            parts = flat_columns([field], objects) if is_named(field, "persons") else [field]
            flat |= {f"{name}.{part}": None for part in parts}
        if not fields:
            flat[name] = None
    return list(flat)


def look_up(record: Record, name: str) -> Any:
    """The value of a column, of a field of an object in it (`a.b`), or of two columns, joined by a space (`a+b`)."""
    if name in record:
        return record[name]
    if BOTH in name:
        parts = [look_up(record, part) for part in name.split(BOTH)]
        return " ".join(str(part).strip() for part in parts).strip() if None not in parts else parts[0]
    value: Any = record
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    return value


def has_usual_name(name: str, role: str) -> bool:
    """Whether a column is named like those of a role."""
    return plain_name(name) in chain(*_NAMES[role])


def is_named(name: str, names: str) -> bool:
    """Whether a column has a name of this list in column_names.json, in any spelling (`plain_name`)."""
    return plain_name(name) in _LISTS[names]


def plain_name(name: str) -> str:
    """A name in lower case, its words separated by a space: `createdAt`, `Created at` and `created_at` are equal.

    So is `createdAt.$date`: in MongoDB's JSON, dates and ids are objects of one field, `$date` or `$oid`.
    """
    name = re.sub(r"\.\$(date|oid)$", "", name)
    return re.sub(r"[\W_]+", " ", re.sub(r"([a-z])([A-Z])", r"\1 \2", name)).strip().lower()


def _is_missing(value: Any) -> bool:
    return value is None or value != value or value == ""


def is_date(value: Any) -> bool:
    """Whether a value can be read as a date; with numbers in any order of day and month."""
    if isinstance(value, str) and NUMERIC.fullmatch(value.strip()):
        return True
    try:
        Dates().seconds(value)
        return True
    except BrokenLineError:
        return False


def _most(test: Callable[[Any], bool], values: Sequence[Any]) -> bool:
    return sum(map(test, values)) * 10 >= len(values) * 9


def _are_texts(values: Sequence[Any]) -> bool:
    return _most(lambda value: isinstance(value, str), values) and not _most(is_date, values)


def are_long_texts(values: Sequence[Any]) -> bool:
    """Whether most of the values are texts, of three words or more on average."""
    return _are_texts(values) and sum(len(value.split()) for value in values if isinstance(value, str)) >= 3 * len(
        values
    )


def _are_labels(values: Sequence[Any]) -> bool:
    return _most(lambda value: not isinstance(value, dict | list) and len(str(value)) <= 100, values)


def _are_ids(values: Sequence[Any]) -> bool:
    return _are_labels(values) and len(set(map(str, values))) * 10 >= len(values) * 9


def _are_clocks(values: Sequence[Any]) -> bool:
    return _most(lambda value: _CLOCK.fullmatch(str(value).strip()) is not None, values)


def _are_stamps(name: str, values: Sequence[Any]) -> bool:
    """Whether a name such as `originalarrivaltime` and its values are those of times; durations are numbers."""
    named = plain_name(name).endswith(("time", "timestamp"))
    return named and _most(lambda value: ":" in str(value) and is_date(value), values)


def _are_names(values: Sequence[Any]) -> bool:
    return _are_labels(values) and not (are_long_texts(values) or _most(lambda value: isinstance(value, bool), values))


_FITS: dict[str, Callable[[Sequence[Any]], bool]] = {
    "input": _are_texts,
    "response": _are_texts,
    "text": _are_texts,
    "id": _are_ids,
    "parent": _are_labels,
    "thread": _are_labels,
    "speaker": _are_names,
    "time": lambda values: _most(is_date, values),
}


def _covers(rows: Sequence[Record], name: str, text: str) -> bool:
    """Whether at least half of the rows that have a text have a value in another column."""
    said = [row for row in rows if not _is_missing(look_up(row, text))]
    return 2 * sum(not _is_missing(look_up(row, name)) for row in said) >= len(said)


def _find_person(chosen: dict[str, str], rows: Sequence[Record], values: dict[str, list[Any]]) -> str | None:
    """The field of a person, such as `u.username`."""
    named = [name for name, own in _free(chosen, values).items() if _are_names(own)]
    free = [name for name in named if _covers(rows, name, chosen["text"])]
    for field in _LISTS["fields of persons"]:  # the best first
        for name in free:
            *parents, last = name.split(".")
            if plain_name(last) == field and any(is_named(parent, "persons") for parent in parents):
                return name
    return None


def find_side(columns: Sequence[str], rows: Sequence[Record], names: dict[str, str]) -> tuple[str, frozenset[str]]:
    """The column that says of each message which side wrote it, and the sides (`side_of`) that answer.

    If there is none, or two contradict each other, the name is empty. If the column says which messages are one's own,
    as in a chat of friends, no side is the one that answers. The arguments are those of `find_marks`.
    """
    rows = [row for row in rows if not _is_missing(look_up(row, names.get("text", "")))]
    found: dict[str, tuple[set[int], frozenset[str]]] = {}
    for name in columns:
        if name in names.values() and name != names.get("speaker"):
            continue
        sides = [side_of(look_up(row, name)) for row in rows]
        answering = answering_sides(name, sides)
        answers = [side in answering for side in sides]
        if answering and _divides(answers, rows, names):
            is_own = _flag(name) == "me" or _PEOPLE & set(sides) == {"me"}
            numbers = {number for number, is_answer in enumerate(answers) if is_answer}
            found[name] = numbers, frozenset() if is_own else answering
    fewest = min(found, key=lambda name: len(found[name][0]), default="")  # others may count bots, which answer, too
    is_clear = fewest and all(found[fewest][0] <= numbers for numbers, _ in found.values())
    return (fewest, found[fewest][1]) if is_clear else ("", frozenset())


def _divides(answers: list[bool], rows: Sequence[Record], names: dict[str, str]) -> bool:
    """Whether both sides write at least a tenth, most authors are on one side, and some thread has both sides.

    A column that says who began each call, `inbound` or `outbound`, says nothing about a message.
    """
    groups: dict[str, dict[str, list[bool]]] = {"speaker": {}, "thread": {}}
    for role in groups.keys() & names.keys():
        for row, is_answer in zip(rows, answers, strict=True):
            if not _is_missing(value := look_up(row, names[role])):
                groups[role].setdefault(str(value), []).append(is_answer)
    authors, threads = (list(group.values()) for group in groups.values())
    usual = sum(max(sum(own), len(own) - sum(own)) for own in authors)
    is_divided = any(len(set(each)) > 1 for each in threads) or all(len(each) == 1 for each in threads)
    has_both = len(answers) <= 10 * sum(answers) <= 9 * len(answers)
    return has_both and is_divided and usual * 10 >= 9 * sum(map(len, authors))


def _only_text(chosen: dict[str, str], values: dict[str, list[Any]]) -> str | None:
    """The column of long texts, if there is exactly one."""
    long = [name for name, own in _free(chosen, values).items() if are_long_texts(own)]
    return long[0] if len(long) == 1 else None
