"""Reads the JSON files that the project writes, which people edit: a value of another type is named, not used."""

import json
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar, cast

import msgspec

from modeling_convsim.files.errors import InputError

REMEDY = "restore it, or write it again"
Settings = TypeVar("Settings")


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object in a file.

    Raises:
        InputError: it cannot be read, or is not a JSON object.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{path}: not readable as JSON ({error}); {REMEDY}") from error
    if not isinstance(values, dict):
        raise InputError(f"{path}: holds {values!r:.60}, expected a JSON object; {REMEDY}")
    return values


def from_json(kind: type[Settings], values: Mapping[str, Any]) -> Settings:
    """Build a dataclass from a JSON object whose values have the types of its fields.

    Args:
        kind: the dataclass.
        values: the object.

    Raises:
        ValueError: a field is missing or unknown, or its value has another type; the message names it.
    """
    known = [each.name for each in fields(cast(Any, kind))]
    if unknown := values.keys() - set(known):
        raise ValueError(f"{min(unknown)} is unknown, expected some of {', '.join(known)}")
    return msgspec.convert(values, kind)  # whose error is a ValueError
