"""Reads XML documents piece by piece, so that memory holds one record and a chunk of text."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from modeling_convsim.files.errors import InputError
from modeling_convsim.files.texts import TextFile, check_file

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
        check_file(path, (SUFFIX,))
        for location, line in TextFile(path).lines():
            parser.feed((repair(line) if repair else line) + b"\n")
            yield from ((location, event, element) for event, element in parser.read_events())
        parser.close()
        yield from ((location, event, element) for event, element in parser.read_events())
    except InputError:
        raise
    except (ElementTree.ParseError, LookupError, ValueError) as error:
        raise InputError(f"{location}: not well-formed XML ({error}): {remedy}") from error
