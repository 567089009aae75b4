"""WhatsApp's text export of a chat (.txt, or the .zip that holds it), from a phone or a browser, in any language.

Android writes `31/03/2026, 18:05 - Ann: Hello`, an iPhone `[31/03/2026, 18:05:09] Ann: Hello`, or `31/03/2012 18:05:09:
Ann: Hello` long ago, with the date of the phone's region. A line without such a beginning continues the message before
it. What WhatsApp itself wrote is left out: lines without a sender, texts that begin with an invisible mark or are one
expression in angle brackets, and the phrases of `notices`.
"""

import re
from collections.abc import Iterator

from data_scripts.boilerplate.notices import MARKS, notice_kind, without_added
from data_scripts.chats.dates import NUMERIC, Dates
from data_scripts.chats.formats import Format
from data_scripts.chats.messages import ChatLog, Items, LeftOutError, Message
from data_scripts.chats.sample import Sample

PROGRAMS, MEDIA = ("WhatsApp", "Signal"), "WhatsApp's media"  # their texts have the same form
FIRST_LINES = 3  # of which one begins a message: a browser's export begins with a notice
_HEADER = re.compile(
    rf"[{MARKS}]*(?:\[(?P<iphone>[^\]]{{8,40}})\]|"
    r"(?P<android>\d.{8,38}?)(?:\s[-–]|(?:(?<=:\d\d:\d\d)|(?<=\d [ap]m)):))\s?(?P<rest>.*)",
    re.S | re.I,
)
# A name may have a nickname in quotation marks; a colon within them is in the text of a notice, such as a new subject.
_SENDER = re.compile(
    r"(?P<name>(?:[^:\n\"“„«]|\"[^:\"]*\"|“[^:”]*”|„[^:“”]*[“”]|«[^:»]*»){1,100}):(?P<space>\s|$)?(?P<text>.*)", re.S
)
# A colon without a space after it is in a notice if five words or more are before it, or in a time, link or emoticon.
_NO_SENDER = re.compile(r"(?:[^\s:]+\s+){4}[^\s:]|[^:]*(?:(?<!\d)\d{1,2}:\d\d(?!\d)|:(?://|[()DPp|*](?!\S)))")


def _matches(sample: Sample) -> bool:
    first = sample.lines[:FIRST_LINES] if sample.form in (".txt", ".zip") else []
    return any(_parse_header(line.lstrip(MARKS + " ")) for line in first)


def _parse_header(line: str) -> tuple[str, str] | None:
    """The date of the first line of a message and what follows it; None for another line."""
    if not (match := _HEADER.fullmatch(line)):
        return None
    date = NUMERIC.fullmatch(re.sub(f"[{MARKS}]", "", match["iphone"] or match["android"]))
    return (date[0], match["rest"]) if date and date["hour"] else None


def _read(log: ChatLog) -> Items:
    messages, dates = log.with_dates(_messages(log), lambda each: each[1][0])
    return log.parse_each(messages, lambda message: _parse_message(log, dates, *message))


def _messages(log: ChatLog) -> Iterator[tuple[str, tuple[str, list[str]]]]:
    """The location, and the date and lines, of each message."""
    begins, message = "", None
    for location, line in log.lines():
        if header := _parse_header(line):
            if message:
                yield begins, message
            begins, message = location, (header[0], [header[1]])
        elif message is None:
            log.broken.add("line before the first message", location)
        else:
            message[1].append(line)
    if message:
        yield begins, message


def _parse_message(log: ChatLog, dates: Dates, date: str, lines: list[str]) -> Message:
    time, content = dates.seconds(date), "\n".join(lines)
    parts = _SENDER.match(content)
    if not parts or (parts["space"] is None and _NO_SENDER.match(content)):
        raise LeftOutError("notice")
    sender, text = parts["name"].strip(MARKS + "~\u202f\xa0 "), without_added(parts["text"], *PROGRAMS, MEDIA)
    if text.startswith("\u200e") or not text.strip(MARKS + " \n"):
        raise LeftOutError("notice or media")
    text = text.strip(MARKS + " \n")
    if kind := notice_kind(text, *PROGRAMS):
        raise LeftOutError(kind)
    return Message("", None, log.name, sender or None, time, text, log.name, log.channel_gap)


FORMATS = (Format("WhatsApp", _read, _matches),)
