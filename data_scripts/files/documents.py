"""Reads JSON and XML documents piece by piece, so that memory holds one record and a chunk of text."""

import codecs
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree  # nosec B405

from data_scripts.files.errors import InputError
from data_scripts.files.texts import MAX_LINE_BYTES, read_lines

CHUNK_BYTES = 1 << 18
LOOKAHEAD = 12  # characters that must follow a value, unless the document ends: a number may continue
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class NotJsonError(ValueError):
    """The document is not JSON; the message says why."""


class JsonReader:
    """Reads a document value by value.

    Its methods raise a NotJsonError if the document is not JSON in UTF-8, and an InputError if a value exceeds a limit.

    Args:
        stream: a binary stream of UTF-8, without a byte order mark.
        location: begins the message if a limit is exceeded.
    """

    def __init__(self, stream: Any, location: str) -> None:
        self.stream, self.location = stream, location
        self.decoder = codecs.getincrementaldecoder("utf-8")()
        self.text, self.position, self.at_end = "", 0, False

    def names(self) -> Iterator[str]:
        """Yield the name of each field of the next value; the caller reads the field's value before the next name."""
        if self._peek() != "{":
            self.value()
            return
        self.position += 1
        if self._peek() == "}":
            self.position += 1
            return
        separator = ","
        while separator == ",":
            if self._peek() != '"':
                raise NotJsonError("expected the name of a field in double quotes")
            name = self.value()
            self._expect(":")
            yield name
            separator = self._expect(",}")

    def elements(self, field: str = "") -> Iterator[Any]:
        """Yield the elements of the next value, or of a field of it; none if that is not an array."""
        if field:
            for name in self.names():
                # Other arrays are skipped one element at a time, too, because they may be too long for memory.
                yield from (element for element in self.elements() if name == field)
            return
        if self._peek() != "[":
            self.value()
            return
        self.position += 1
        if self._peek() == "]":
            self.position += 1
            return
        separator = ","
        while separator == ",":
            yield self.value()
            separator = self._expect(",]")

    def value(self) -> Any:
        """Read the next value completely."""
        self._peek()
        while True:
            try:
                value, end = _DECODER.raw_decode(self.text, self.position)
                if self.at_end or end + LOOKAHEAD <= len(self.text):
                    self.position = end
                    return value
            except json.JSONDecodeError as error:
                may_go_on = error.msg.startswith("Unterminated string") or error.pos + LOOKAHEAD > len(self.text)
                if self.at_end or not may_go_on:
                    raise NotJsonError(error.msg) from error
            except RecursionError as error:
                raise self._limit_error("too many arrays and objects within each other") from error
            except ValueError as error:
                raise self._limit_error("too many digits in a number") from error
            size = len(self.text) - self.position
            if size > MAX_LINE_BYTES:
                raise self._limit_error(f"more than {MAX_LINE_BYTES >> 20} MiB in a record")
            self._read(max(size, CHUNK_BYTES))  # as much again: reading a long value takes time in proportion to it

    def check_end(self) -> None:
        """Check that nothing follows the last value."""
        if self._peek():
            raise NotJsonError("something follows the end of the document")

    def _peek(self) -> str:
        """The first character of the next token, which is not consumed; "" at the end."""
        while True:
            space = _SPACE.match(self.text, self.position)
            assert space
            self.position = space.end()
            if self.position < len(self.text) or self.at_end:
                return self.text[self.position : self.position + 1]
            self._read(CHUNK_BYTES)

    def _expect(self, characters: str) -> str:
        character = self._peek()
        if not character or character not in characters:
            found = repr(character) if character else "the end"
            raise NotJsonError(f"expected {' or '.join(characters)}, found {found}")
        self.position += 1
        return character

    def _read(self, size: int) -> None:
        chunk = self.stream.read(size)
        self.at_end = not chunk
        try:
            self.text = self.text[self.position :] + self.decoder.decode(chunk, final=self.at_end)
        except UnicodeDecodeError as error:
            raise NotJsonError(f"not UTF-8: byte 0x{error.object[error.start]:02x}") from error
        self.position = 0

    def _limit_error(self, limit: str) -> InputError:
        return InputError(
            f"{self.location}: {limit}; the limit protects the memory; leave this record out, or write the "
            "records as JSON lines (.jsonl), of which those that cannot be read are counted"
        )


SUFFIX = ".xml"
Event = tuple[str, str, Any]  # file:line, `start` or `end`, element


def xml_events(path: Path, remedy: str, repair: Callable[[bytes], bytes] | None = None) -> Iterator[Event]:
    """Yield the beginning and the end of each element; who reads an element at its end may clear it.

    Args:
        path: the file, compressed or not.
        remedy: what to do about a file that is damaged, for the message.
        repair: corrects a line before it is parsed.

    Raises:
        InputError: the file cannot be read, or is not well-formed XML in an encoding that the parser knows.
    """
    parser: Any = ElementTree.XMLPullParser(["start", "end"])  # bounds the text that entities expand to
    location = str(path)
    try:
        for location, line in read_lines(path, (SUFFIX,)):
            parser.feed((repair(line) if repair else line) + b"\n")
            yield from ((location, event, element) for event, element in parser.read_events())
        parser.close()
        yield from ((location, event, element) for event, element in parser.read_events())
    except InputError:
        raise
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise InputError(f"{location}: not well-formed XML ({error}): {remedy}") from error
