"""Reads the JSON values of a file one by one, each with its location."""

import json
from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Any

from data_scripts.files.documents import JsonReader, NotJsonError
from data_scripts.files.errors import InputError
from data_scripts.files.texts import BrokenLineError, BrokenLines, TextFile, decode

JSON_LINES = (".jsonl", ".ndjson")

Values = Callable[[BrokenLines], Iterator[tuple[str, Any]]]  # the JSON values of a file, with their locations
Streamed = Collection[tuple[str, frozenset[str]]]  # (list in a .json file that is one object, the fields before it)


def _json_value(line: bytes) -> Any:
    try:
        return json.loads(decode(line))
    except (ValueError, RecursionError) as error:
        raise BrokenLineError("not JSON", str(error)) from error


def is_object(line: bytes) -> bool:
    """Whether the first line of a .json file is an object, so that the file has JSON lines."""
    try:
        return isinstance(_json_value(line), dict)
    except BrokenLineError:
        return False


def _values_of_lines(lines: Iterator[tuple[str, bytes]], broken: BrokenLines) -> Iterator[tuple[str, Any]]:
    for location, line in lines:
        try:
            if line.strip():
                yield location, _json_value(line)
        except BrokenLineError as error:
            broken.add(error.args[0], location, error.args[1])


def line_values(text: TextFile, broken: BrokenLines) -> Iterator[tuple[str, Any]]:
    """The value on each line of a text."""
    return _values_of_lines(text.lines(), broken)


def array_values(text: TextFile, broken: BrokenLines) -> Iterator[tuple[str, Any]]:
    """The elements of the array that a text is.

    Raises:
        InputError: the text is not JSON, which may be found after some of the elements.
    """
    number = 0
    with text.open() as stream:
        reader = JsonReader(stream, str(text.path))
        try:
            for number, value in enumerate(reader.elements(), start=1):
                yield f"{text.path}: record {number}", value
            reader.check_end()
        except NotJsonError as error:
            raise _not_json(text, number, error) from error


def _not_json(text: TextFile, number: int, error: NotJsonError) -> InputError:
    return InputError(
        f"{text.path}: not JSON, after {number:,} complete records ({error}); export or download it again"
    )


def read_object(text: TextFile, streamed: Streamed) -> dict[str, Any]:
    """The object that a .json file is, with an iterator over the elements in place of a `streamed` list.

    Raises:
        InputError: the file is not JSON; reading the list may raise it, too.
    """
    parts = _object_parts(text, streamed)
    record, key = next(parts)
    return record | {key: parts} if key else record


def _object_parts(text: TextFile, streamed: Streamed) -> Iterator[Any]:
    """Yield the fields before the streamed list, and its name or ""; then the elements of the list."""
    record, key, number = dict[str, Any](), "", 0
    with text.open() as stream:
        reader = JsonReader(stream, str(text.path))
        try:
            for name in reader.names():
                if key:
                    deque(reader.elements(), maxlen=0)  # skipped one by one: an array may be too long for memory
                    continue
                lists = (key for key, fields in streamed if key.partition(".")[0] == name and record.keys() >= fields)
                if key := next(lists, ""):
                    yield record, key
                    for element in reader.elements(key.partition(".")[2]):
                        number += 1
                        yield element
                else:
                    record[name] = reader.value()
            reader.check_end()
        except NotJsonError as error:
            if key:
                raise _not_json(text, number, error) from error
            raise InputError(
                f"{text.path}: neither one JSON value nor JSON lines ({error}); if it is a file of JSON lines some of "
                "which are broken, let its name end in .jsonl"
            ) from error
        if not key:
            yield record, ""
