"""Reads the JSON values of a file one by one, each with its location."""

import codecs
import json
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from typing import Any

from modeling_convsim.files.errors import InputError
from modeling_convsim.files.texts import BrokenLineError, BrokenLines, TextFile, decode

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


def line_values(text: TextFile, broken: BrokenLines) -> Iterator[tuple[str, Any]]:
    """The value on each line of a text."""
    for location, line in text.lines():
        try:
            if line.strip():
                yield location, _json_value(line)
        except BrokenLineError as error:
            broken.add(error.args[0], location, error.args[1])


def array_values(text: TextFile, broken: BrokenLines) -> Iterator[tuple[str, Any]]:
    """The elements of the array that a text is.

    Raises:
        InputError: the text is not JSON, which may be found after some of the elements.
    """
    for number, value in enumerate(_values_at("item", text), start=1):
        yield f"{text.path}: record {number}", value


def read_document(text: TextFile, streamed: Streamed) -> dict[str, Any]:
    """The object that a .json file is, with an iterator over the elements in place of a `streamed` list.

    Raises:
        InputError: the file is not JSON, or not an object; reading the list may raise the former, too.
    """
    import ijson

    builder = ijson.ObjectBuilder()
    with suppress(ijson.JSONError):  # the beginning is complete only if it is the whole file
        for path, event, value in ijson.parse(text.head.removeprefix(codecs.BOM_UTF8), use_float=True):
            if event == "start_array":
                name = path.partition(".")[0]
                before = {key: value for key, value in builder.value.items() if key != name}
                if any(path == key and before.keys() >= fields for key, fields in streamed):
                    return {**before, path: _values_at(f"{path}.item", text)}
            builder.event(event, value)
    document = next(_values_at("", text))
    if not isinstance(document, dict):
        found = type(document).__name__
        raise InputError(f"{text.path}: is a single JSON value ({found}), expected an object, an array or JSON lines")
    return document


def _values_at(path: str, text: TextFile) -> Iterator[Any]:
    import ijson

    number = 0
    try:
        with text.open() as stream:
            for value in ijson.items(stream, path, use_float=True):
                yield value
                number += 1
    except ijson.JSONError as error:
        records = f", after {number:,} complete records" if path else " and not JSON lines either"
        raise InputError(
            f"{text.path}: not JSON{records} ({error}); export or download it again; if it has JSON lines, some "
            "of which are broken, rename it to end in .jsonl"
        ) from error
