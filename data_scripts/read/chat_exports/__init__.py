"""The export formats of chat programs, one file each: a module in this folder declares `EXPORTS`.

No other list of formats exists: `path_export` and `record_export` find them here.
"""

import importlib
import pkgutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from data_scripts.read.messages import ChatLog, Items
from data_scripts.read.records import Records


@dataclass(frozen=True)
class PathExport:
    """A format that is recognized by its path, such as a folder or a .zip.

    Attributes:
        name: of the format, for people.
        recognizes: whether a path is such an export.
        read: reads the messages of the export.
        suffixes: of the names that only such exports have.
    """

    name: str
    recognizes: Callable[[Path], bool]
    read: Callable[[ChatLog], Items]
    suffixes: tuple[str, ...] = ()


@dataclass(frozen=True)
class RecordExport:
    """A format whose files hold JSON records, or rows of Parquet, with certain fields.

    Attributes:
        name: of the format, for people.
        fields: the fields of the first record that identify the format.
        read: reads the messages of the records.
        streamed: if the whole file is one object, the last of `fields`: a list that is too long for memory (`a.b`: the
            list b in the object a). Its elements are read as they are needed, provided that the other fields come
            before it.
        has_pauses: whether a pause may end a conversation (`ChatLog.gap`).
        message_fields: fields that the objects in the last of `fields`, a list, must have.
    """

    name: str
    fields: tuple[str, ...]
    read: Callable[[ChatLog, Records], Items]
    streamed: str | None = None
    has_pauses: bool = False
    message_fields: tuple[str, ...] = ()


@cache
def _exports() -> tuple[PathExport | RecordExport, ...]:
    modules = sorted(module.name for module in pkgutil.iter_modules(__path__))
    return tuple(export for name in modules for export in importlib.import_module(f"{__name__}.{name}").EXPORTS)


def path_export(path: Path) -> PathExport | None:
    """The format that recognizes a path, if there is one."""
    exports = (export for export in _exports() if isinstance(export, PathExport))
    return next((export for export in exports if export.recognizes(path)), None)


def path_suffixes() -> tuple[str, ...]:
    """The suffixes that are those of one format."""
    return tuple(suffix for export in _exports() if isinstance(export, PathExport) for suffix in export.suffixes)


def record_export(fields: set[str]) -> RecordExport | None:
    """The format that a record with these fields has, if any; of several, the one with the most fields."""
    matching = [
        export for export in _exports() if isinstance(export, RecordExport) and fields.issuperset(export.fields)
    ]
    return max(matching, key=lambda export: len(export.fields), default=None)


def streamed_lists() -> list[tuple[str, frozenset[str]]]:
    """(List, the fields before it) of the formats whose file is one object with a long list."""
    return [
        (export.streamed, frozenset(export.fields) - {export.streamed})
        for export in _exports()
        if isinstance(export, RecordExport) and export.streamed
    ]
