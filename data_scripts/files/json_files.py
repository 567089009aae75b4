"""Reads the JSON files that the project writes, which people edit: a value of another type is named, not used."""

import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, cast, get_args, get_origin, get_type_hints

from data_scripts.files.errors import InputError

Settings = TypeVar("Settings")


def read_object(path: Path, remedy: str = "restore it, or write it again") -> dict[str, Any]:
    """The JSON object in a file.

    Args:
        path: the file.
        remedy: what to do if it is damaged, for the message.

    Raises:
        InputError: it cannot be read, or is not a JSON object.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not readable as JSON ({error}); {remedy}") from error
    if not isinstance(values, dict):
        raise InputError(f"{path}: holds {_show(values)}, expected a JSON object; {remedy}")
    return values


def from_json(kind: type[Settings], values: Mapping[str, Any], name: str = "") -> Settings:
    """Build a dataclass from a JSON object whose values have the types of its fields.

    A type is str, bool, int, float (finite), None, a Literal, another such dataclass, a list, or a union of these.

    Args:
        kind: the dataclass.
        values: the object.
        name: of the object, for messages.

    Raises:
        ValueError: a field is missing or unknown, or its value has another type; the message names it.
    """
    hints = get_type_hints(kind)
    required = {
        each.name for each in fields(cast(Any, kind)) if each.default is MISSING and each.default_factory is MISSING
    }
    if missing := required - values.keys():
        raise ValueError(f"{name}{min(missing)} is missing")
    if unknown := values.keys() - hints.keys():
        raise ValueError(f"{name}{min(unknown)} is unknown, expected some of {', '.join(hints)}")
    return kind(**{key: _convert(hints[key], value, f"{name}{key}") for key, value in values.items()})


def _convert(kind: Any, value: Any, name: str) -> Any:
    kinds = get_args(kind) if get_origin(kind) is UnionType else (kind,)
    chosen = next((each for each in kinds if _is_of(each, value)), None)
    if chosen is None:
        raise ValueError(f"{name} is {_show(value)}, expected {' or '.join(map(_describe, kinds))}")
    if get_origin(chosen) is list:
        return [_convert(get_args(chosen)[0], each, f"{name}[{row}]") for row, each in enumerate(value)]
    return from_json(cast(type[Any], chosen), value, f"{name}.") if is_dataclass(chosen) else value


def _is_of(kind: Any, value: Any) -> bool:
    """Whether a value has a type, apart from the items of a list and the fields of a dataclass."""
    if get_origin(kind) is Literal:
        return any(value == each and type(value) is type(each) for each in get_args(kind))
    if kind is float:
        return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(value, dict if is_dataclass(kind) else get_origin(kind) or kind)


def _describe(kind: Any) -> str:
    names = {str: "a text", float: "a number", int: "a whole number", NoneType: "null", bool: "true or false"}
    if get_origin(kind) is Literal:
        return " or ".join(map(json.dumps, get_args(kind)))
    return "a list" if get_origin(kind) is list else names.get(kind, "an object")


def _show(value: Any) -> str:
    return repr(value)[:60]
