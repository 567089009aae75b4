"""Reads the lines of text tables; a line that cannot be read is counted, and the lines after it are read."""

import csv
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from modeling_convsim.files.errors import InputError
from modeling_convsim.files.texts import CONVERT, BrokenLineError, BrokenLines, TextFile, decode

CSV_LINES = 1_000  # of a record; a longer one has a quote that is not closed


@dataclass(frozen=True)
class Dialect:
    """How the columns of a text table are separated.

    Attributes:
        delimiter: the character between two columns.
        escape: the character before a quote within a text, if quotes are not doubled.
        quoted: whether a text may be quoted.
    """

    delimiter: str = ","
    escape: str | None = None
    quoted: bool = True


TABS = Dialect("\t", quoted=False)


def tsv_lines(text: TextFile, broken: BrokenLines, dialect: Dialect) -> Iterator[tuple[str, list[str]]]:
    """The fields of each line that is not blank, without quotes, with its location."""
    for number, (location, line) in enumerate(text.lines()):
        try:
            if line.strip(b"\r"):  # a blank line is not a record
                yield location, decode(line.removesuffix(b"\r")).split(dialect.delimiter)
        except BrokenLineError as error:
            if not number:
                raise _not_utf8(location, error.args[1]) from error
            broken.add(error.args[0], location, error.args[1])


def csv_lines(text: TextFile, broken: BrokenLines, dialect: Dialect) -> Iterator[tuple[str, list[str]]]:
    """The fields of each record; if a quote is not closed, only the line in which it opens is left out."""
    unread = text.lines()
    again: deque[tuple[str, bytes]] = deque()
    record: list[tuple[str, bytes]] = []  # the lines of the record that is read

    def lines() -> Iterator[str]:
        while line := again.popleft() if again else next(unread, None):
            record.append(line)
            if len(record) > CSV_LINES:
                raise csv.Error(f"a record of more than {CSV_LINES:,} lines")
            yield line[1].decode("utf-8", "surrogateescape") + "\n"

    def new_reader() -> Any:
        # A field has at most csv.field_size_limit() characters (131,072).
        doubled, escape = dialect.escape is None, dialect.escape
        return csv.reader(lines(), delimiter=dialect.delimiter, escapechar=escape, doublequote=doubled, strict=True)

    reader, width = new_reader(), 0
    while True:
        record.clear()
        try:
            values = next(reader, None)
            if values is None:
                return
            if width and len(values) != width and len(record) > 1:
                raise csv.Error(f"{len(values)} fields, expected {width}")
            "".join(values).encode()
        except csv.Error as error:
            opens = len(record) > 1 or (b'"' in record[0][1] and "field limit" in str(error))
            reason = f"{error}; the quote that opens here is never closed" if opens else str(error)
            if not width:
                raise InputError(f"{record[0][0]}: not CSV ({reason}); correct this line") from error
            broken.add("not CSV", record[0][0], reason)
            again.extendleft(reversed(record[1:]))
            reader = new_reader()
            continue
        except UnicodeEncodeError as error:
            byte = f"byte 0x{ord(error.object[error.start]) - 0xDC00:02x}"
            if not width:
                raise _not_utf8(record[0][0], byte) from error
            broken.add("not UTF-8", record[0][0], byte)
            continue
        if values:  # a blank line is not a record
            width = width or len(values)
            yield record[0][0], values


def _not_utf8(location: str, byte: str) -> InputError:
    return InputError(f"{location}: the column names are not UTF-8 ({byte}); {CONVERT}")
