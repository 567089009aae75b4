"""Reads the fields of records that programs wrote; an error says what a message should have and lacks."""

import hashlib
import json
from collections.abc import Iterable, Iterator
from typing import Any

from data_scripts.chats.dates import Dates
from data_scripts.chats.messages import LeftOutError
from data_scripts.files.records import Record
from data_scripts.files.texts import BrokenLineError


def numbered(location: str, messages: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    """Each message of a list with its location."""
    return ((f"{location}: message {number}", message) for number, message in enumerate(messages, start=1))


def name_of_content(content: Any) -> str:
    """A name for JSON values, such as the texts of a conversation; equal values have the same name."""
    text = json.dumps(content, ensure_ascii=False, default=str)  # half of a surrogate pair is refused later
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def wrong_type(name: str, expected: str, value: Any) -> BrokenLineError:
    """The error for a field that has another type."""
    return BrokenLineError("wrong type", f"{name} should be {expected}, found {type(value).__name__}")


def required_text(values: Record, name: str) -> str:
    """A field that must be a text; raises BrokenLineError if it is not."""
    value = values.get(name)
    if not isinstance(value, str):
        raise wrong_type(name, "a text", value)
    return value


def required_label(values: Record, name: str) -> str:
    """A field that must be a name or an id, as text; raises BrokenLineError if it is missing."""
    value = label(values, name)
    if not value:
        raise BrokenLineError("missing field", name)
    return value


def label(values: Record, name: str) -> str:
    """A field that is a name or an id, as text; "" if it is missing. Raises BrokenLineError for a list or object."""
    value = values.get(name)
    if value is None or value != value:
        return ""
    if isinstance(value, dict | list):
        raise wrong_type(name, "a text or a number", value)
    # pandas writes integers as 12.0 if some values of the column are missing.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def written(values: Record, name: str) -> str:
    """A field that is a text; raises LeftOutError if it is blank or missing."""
    text = label(values, name)
    if not text.strip():
        raise LeftOutError("no text")
    return text


def object_field(values: Any, name: str) -> Record:
    """A field that must be an object; raises BrokenLineError if it is not."""
    value = values.get(name) if isinstance(values, dict) else None
    if not isinstance(value, dict):
        raise wrong_type(name, "an object", value)
    return value


def list_of_objects(value: Any, name: str) -> list[Record]:
    """A value that must be a list of objects; raises BrokenLineError if it is not."""
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise BrokenLineError("wrong type", f"{name} should be a list of objects")
    return value


def seconds(value: Any) -> float:
    """A number, or a time of a program (ISO 8601; UTC if it has no zone), in seconds since 1970.

    Raises:
        BrokenLineError: it is neither.
    """
    return Dates().seconds(value)
