"""WhatsApp's text export of a chat (.txt, or the .zip that holds it), from Android or an iPhone, in any language.

Android writes `31/03/2026, 18:05 - Ann: Hello`, an iPhone `[31/03/2026, 18:05:09] Ann: Hello`, with the date of the
phone's region. A line without such a beginning continues the message before it. What WhatsApp itself wrote is left out:
lines without a sender, texts that begin with an invisible mark or are one expression in angle brackets, and messages
that were deleted, if the export is in English.
"""

import codecs
import re
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from data_scripts.errors import InputError
from data_scripts.read.chat_exports import PathExport
from data_scripts.read.dates import NUMERIC, Dates, find_order
from data_scripts.read.files import UNREADABLE, BrokenLineError, decode, read_lines, unpacked
from data_scripts.read.layouts import UTF8
from data_scripts.read.messages import CHANNEL_GAP, ChatLog, Items, Message
from data_scripts.read.records import FORMS, form_of, member_lines

HEAD_BYTES = 4_096  # in which the first message begins
MAX_LINES = 10_000  # of a message
MARKS = "\u200e\u200f\u202a\u202c\ufeff"  # invisible, of the direction of writing
_HEADER = re.compile(
    rf"[{MARKS}]*(?:\[(?P<iphone>[^\]]{{8,40}})\]|(?P<android>\d.{{8,38}}?)\s[-–])\s(?P<rest>.*)", re.S
)
_SENDER = re.compile(r"([^:\"“„«]{1,100}):(?:\s(.*))?$", re.S)
_ATTACHED = re.compile(rf"[{MARKS}]*(?:\S.*\.\w{{2,5}} \([^()]+\)|<[^<>]+>)[{MARKS}]*(?:\n|$)")  # by either system
_ADDED = re.compile(r"\s?\u200e<[^<>]*>\s*$")  # "This message was edited", or an attachment after its caption
_DELETED = re.compile(r"(?:This message was deleted|You deleted this message)\.?$")


def _recognizes(path: Path) -> bool:
    try:
        with _opened(path) as stream:
            head = stream.read(HEAD_BYTES) if stream else b""
    except (EOFError, InputError, *UNREADABLE):
        return False  # whoever reads the file says why
    is_utf16 = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    lines = head.decode("utf-16" if is_utf16 else UTF8, "replace").lstrip(MARKS + "\r\n ").splitlines()
    return bool(lines) and _parse_header(lines[0]) is not None


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    """The stream of the text of an export; None if the path cannot be one."""
    if path.suffix == ".zip" and path.is_file():
        with _opened_zip(path) as stream:
            yield stream
    elif form_of(path) == ".txt" and path.is_file():
        with path.open("rb") as raw:
            yield unpacked(raw, path.suffix)
    else:
        yield None


@contextmanager
def _opened_zip(path: Path) -> Iterator[IO[bytes] | None]:
    """The only text file in a .zip, which an iPhone names _chat.txt; None if there is no such file."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name for name in archive.namelist() if name.endswith(".txt") and "/" not in name]
            if len(names) == 1:
                with archive.open(names[0]) as stream:
                    yield stream
            else:
                yield None
    # zipfile raises NotImplementedError for a later version of the format, RuntimeError for an encrypted file.
    except (OSError, ValueError, RuntimeError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: not a readable .zip ({error}); check the path, or export it again") from error


def _parse_header(line: str) -> tuple[re.Match[str], str] | None:
    """The date of the first line of a message, as a match of `NUMERIC`, and what follows it; None for another line."""
    if not (match := _HEADER.fullmatch(line)):
        return None
    date = NUMERIC.fullmatch(re.sub(f"[{MARKS}]", "", match["iphone"] or match["android"]))
    return (date, match["rest"]) if date and date["hour"] else None


def _lines(log: ChatLog, encoding: str) -> Iterator[tuple[str, bytes]]:
    if log.path.suffix != ".zip":
        yield from read_lines(log.path, FORMS, encoding)
        return
    with _opened_zip(log.path) as stream:
        if stream:
            yield from ((location, line.rstrip(b"\n")) for location, line in member_lines(stream, str(log.path)))


def _read(log: ChatLog) -> Items:
    encoding = UTF8 if log.path.suffix == ".zip" else log.detect_layout(is_table=False).encoding
    headers = (_parse_header(line.decode(UTF8, "replace").strip("\r")) for _, line in _lines(log, encoding))
    stamps = (header[0][0] for header in headers if header)
    dates = Dates(find_order(stamps, log.date_order, str(log.path)))
    try:
        for number, (location, date, lines) in enumerate(_messages(log, encoding), start=1):
            try:
                message = _parse_message(log, dates, number, date, "\n".join(lines))
            except BrokenLineError as error:
                log.broken.add(error.args[0], location, error.args[1])
                continue
            if message:
                yield location, message
    finally:  # also if only the first messages are read
        log.note_dates(dates)


def _messages(log: ChatLog, encoding: str) -> Iterator[tuple[str, re.Match[str], list[str]]]:
    """The location, date and lines of each message."""
    message: tuple[str, re.Match[str], list[str]] | None = None
    for location, line in _lines(log, encoding):
        try:
            text = decode(line).rstrip("\r")
            header = _parse_header(text)
            if header:
                if message:
                    yield message
                message = location, header[0], [header[1]]
            elif message is None:
                raise BrokenLineError("line before the first message", "")
            elif len(message[2]) >= MAX_LINES:
                raise BrokenLineError(f"line after {MAX_LINES:,} lines of a message", "")
            else:
                message[2].append(text)
        except BrokenLineError as error:
            log.broken.add(error.args[0], location, error.args[1])
    if message:
        yield message


def _parse_message(log: ChatLog, dates: Dates, number: int, date: re.Match[str], content: str) -> Message | None:
    """The message, or None if WhatsApp wrote it, which is counted."""
    try:
        time = dates.parse_numbers(date).timestamp()
    except (ValueError, OverflowError) as error:
        raise BrokenLineError("wrong time", str(error)) from error
    parts = _SENDER.match(content)
    if not parts:
        log.leave_out("notice")
        return None
    sender, text = parts[1].strip(MARKS + "~\u202f\xa0 "), parts[2] or ""
    text = _ATTACHED.sub("", _ADDED.sub("", text), count=1) if _ATTACHED.match(text) else _ADDED.sub("", text)
    if text.startswith("\u200e") or not text.strip(MARKS + " \n") or text == "null":
        log.leave_out("notice or media")
        return None
    if _DELETED.fullmatch(text.strip(MARKS + " ")):
        log.leave_out("deleted")
        return None
    text, gap = text.strip(MARKS + " \n"), CHANNEL_GAP if log.gap is None else log.gap
    return Message(f"message {number}", None, log.name, sender or None, time, text, log.name, gap)


EXPORTS = (PathExport("WhatsApp", _recognizes, _read),)
