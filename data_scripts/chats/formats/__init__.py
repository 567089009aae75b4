"""The export formats of chat programs, one file each: a module in this folder declares `FORMATS`.

No other list of formats exists: `formats` finds them here, in the order in which they are tried.
"""

import importlib
import pkgutil
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from data_scripts.chats.messages import ChatLog, Items
from data_scripts.chats.sample import Sample
from modeling_convsim.files.json_values import Streamed
from modeling_convsim.files.records import read_records

MESSAGES = "messages"
_LIST = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{.{,10000}?"messages"\s*:\s*\[', re.DOTALL)


@dataclass(frozen=True)
class Format:
    """A format of a chat program.

    Attributes:
        name: of the format, for people.
        read: reads the messages of a log.
        beginning: whether the beginning of a log shows that it has this format; None if its records do.
        suffixes: of the names that only such exports have.
        fields: of one of the first records, which identify the format.
        names: of fields that the beginning of a .json file has which is one object with the list `messages`, too long
            for memory.
        message_fields: fields that the last of `fields`, an object, or one of the objects in it, a list, must have.
        streamed: the last of `fields`: a list that is too long for memory if the whole file is one object (`a.b`: the
            list b in the object a). Its elements are read as they are needed, provided that the other fields come
            before it.
        has_pauses: whether a pause may end a conversation (`ChatLog.gap`).
    """

    name: str
    read: Callable[[ChatLog], Items]
    beginning: Callable[[Sample], bool] | None = None
    suffixes: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    message_fields: tuple[str, ...] = ()
    streamed: str | None = None
    has_pauses: bool = True

    def matches(self, sample: Sample) -> bool:
        """Whether a log has this format."""
        if self.beginning:
            return self.beginning(sample)
        if self.names:
            head = sample.file.head if sample.form == ".json" else b""
            return _LIST.match(head) is not None and all(f'"{name}"'.encode() in head for name in self.names)
        for record in sample.records.sample:
            if record.keys() >= {*self.fields}:
                value, needed = record[self.fields[-1]], {*self.message_fields}
                listed = value if isinstance(value, list) else [value]
                if not needed or any(isinstance(each, dict) and each.keys() >= needed for each in listed):
                    return True
        return False


@cache
def formats() -> tuple[Format, ...]:
    """All formats; those that are recognized by their records come last, the one with the most fields first."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__))
    found = [each for name in names for each in importlib.import_module(f"{__name__}.{name}").FORMATS]
    return tuple(sorted(found, key=lambda each: (bool(each.fields), -len(each.fields))))


def suffixes() -> tuple[str, ...]:
    """The suffixes that are those of one format."""
    return tuple(suffix for each in formats() for suffix in each.suffixes)


def streamed_lists() -> Streamed:
    """(List, the fields before it) of the formats whose file is one object with a long list."""
    return [(each.streamed, frozenset(each.fields) - {each.streamed}) for each in formats() if each.streamed]


def message_lists(log: ChatLog) -> Iterator[tuple[str, Iterable[Any]]]:
    """The list `messages` of each object in a file, read as it is needed, with its location."""
    records = read_records(log.path, log.text, streamed=[(MESSAGES, frozenset())])
    for location, record in records.rows({MESSAGES}, log.broken):
        listed = record.get(MESSAGES)
        yield location, listed if isinstance(listed, Iterable) else []
