"""WhatsApp's text export of a chat (.txt, or the .zip that holds it), from Android or an iPhone, in any language.

Android writes `31/03/2026, 18:05 - Ann: Hello`, an iPhone `[31/03/2026, 18:05:09] Ann: Hello`, with the date of the
phone's region. A line without such a beginning continues the message before it. What WhatsApp itself wrote is left out:
lines without a sender, texts that begin with an invisible mark or are one expression in angle brackets, and messages
that were deleted, if the export is in English.
"""

import re
from collections.abc import Iterator

from data_scripts.chats.dates import NUMERIC, Dates, with_dates
from data_scripts.chats.formats import Format
from data_scripts.chats.messages import ChatLog, Items, LeftOutError, Message
from data_scripts.chats.sample import Sample
from data_scripts.files.texts import BrokenLineError

MARKS = "\u200e\u200f\u202a\u202c\ufeff"  # invisible, of the direction of writing
_HEADER = re.compile(
    rf"[{MARKS}]*(?:\[(?P<iphone>[^\]]{{8,40}})\]|(?P<android>\d.{{8,38}}?)\s[-–])\s(?P<rest>.*)", re.S
)
# A name may have a nickname in quotation marks; a colon within them is in the text of a notice, such as a new subject.
_SENDER = re.compile(r"((?:[^:\"“„«]|\"[^:\"]*\"|“[^:”]*”|„[^:“”]*[“”]|«[^:»]*»){1,100}):(?:\s(.*))?$", re.S)
_ATTACHED = re.compile(rf"[{MARKS}]*(?:\S.*\.\w{{2,5}} \([^()]+\)|<[^<>]+>)[{MARKS}]*(?:\n|$)")  # by either system
_ADDED = re.compile(r"\s?\u200e<[^<>]*>\s*$")  # "This message was edited", or an attachment after its caption
_DELETED = re.compile(r"(?:This message was deleted|You deleted this message)\.?$")


def _matches(sample: Sample) -> bool:
    is_text = sample.form in (".txt", ".zip") and bool(sample.lines)
    return is_text and _parse_header(sample.lines[0].lstrip(MARKS + " ")) is not None


def _parse_header(line: str) -> tuple[re.Match[str], str] | None:
    """The date of the first line of a message, as a match of `NUMERIC`, and what follows it; None for another line."""
    if not (match := _HEADER.fullmatch(line)):
        return None
    date = NUMERIC.fullmatch(re.sub(f"[{MARKS}]", "", match["iphone"] or match["android"]))
    return (date, match["rest"]) if date and date["hour"] else None


def _read(log: ChatLog) -> Items:
    messages, dates = with_dates(_messages(log), lambda each: each[1][1][0], log.date_order, str(log.path))
    try:
        yield from log.parse_each(messages, lambda message: _parse_message(log, dates, *message))
    finally:  # also if only the first messages are read
        log.note_dates(dates)


def _messages(log: ChatLog) -> Iterator[tuple[str, tuple[int, re.Match[str], list[str]]]]:
    """The location, and the number, date and lines, of each message."""
    begins, message, number = "", None, 0
    for location, line in log.lines():
        if header := _parse_header(line):
            if message:
                yield begins, message
            number += 1
            begins, message = location, (number, header[0], [header[1]])
        elif message is None:
            log.broken.add("line before the first message", location)
        else:
            message[2].append(line)
    if message:
        yield begins, message


def _parse_message(log: ChatLog, dates: Dates, number: int, date: re.Match[str], lines: list[str]) -> Message:
    content = "\n".join(lines)
    try:
        time = dates.parse_numbers(date).timestamp()
    except (ValueError, OverflowError) as error:
        raise BrokenLineError("wrong time", str(error)) from error
    parts = _SENDER.match(content)
    if not parts:
        raise LeftOutError("notice")
    sender, text = parts[1].strip(MARKS + "~\u202f\xa0 "), parts[2] or ""
    text = _ATTACHED.sub("", _ADDED.sub("", text), count=1) if _ATTACHED.match(text) else _ADDED.sub("", text)
    if text.startswith("\u200e") or not text.strip(MARKS + " \n") or text == "null":
        raise LeftOutError("notice or media")
    if _DELETED.fullmatch(text.strip(MARKS + " ")):
        raise LeftOutError("deleted")
    text = text.strip(MARKS + " \n")
    return Message(f"message {number}", None, log.name, sender or None, time, text, log.name, log.channel_gap)


FORMATS = (Format("WhatsApp", _read, _matches),)
