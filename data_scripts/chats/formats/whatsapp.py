"""WhatsApp's text export of a chat (.txt, or the .zip that holds it), from a phone or a browser, in any language.

Android writes `31/03/2026, 18:05 - Ann: Hello`, an iPhone `[31/03/2026, 18:05:09] Ann: Hello`, or `31/03/2012 18:05:09:
Ann: Hello` long ago, with the date of the phone's region. A line without such a beginning continues the message before
it. What WhatsApp itself wrote is left out: lines without a sender, texts that begin with an invisible mark or are one
expression in angle brackets, and the phrases of `notices`.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from data_scripts.boilerplate.names import is_title_case
from data_scripts.boilerplate.notices import MARKS, is_forwarded, notice_kind, without_marks
from data_scripts.chats.dates import NUMERIC, Dates, with_dates
from data_scripts.chats.formats import Format
from data_scripts.chats.messages import ChatLog, Items, LeftOutError, Message
from data_scripts.chats.sample import Sample
from modeling_convsim.files.texts import BrokenLineError

FIRST_LINES = 3  # of which one begins a message: a browser's export begins with a notice
_HEADER = re.compile(
    rf"[{MARKS}]*(?:\[(?P<iphone>[^\]]{{8,40}})\]|"
    r"(?P<android>\d.{8,38}?)(?:\s[-–]|(?:(?<=:\d\d:\d\d)|(?<=\d [ap]m)):))\s(?P<rest>.*)",
    re.S | re.I,
)
# A name may have a nickname in quotation marks; a colon within them is in the text of a notice, such as a new subject.
_SENDER = re.compile(r"((?:[^:\"“„«]|\"[^:\"]*\"|“[^:”]*”|„[^:“”]*[“”]|«[^:»]*»){1,100}):(?:\s(.*))?$", re.S)
_ATTACHED = re.compile(rf"[{MARKS}]*(?:\S.*\.\w{{2,5}} \([^()]+\)|<[^<>]+>)[{MARKS}]*(?:\n|$)")  # by either system
_SECOND = re.compile(r"([^:\n]{1,40}):\s")  # of the parts of a name with a colon
# A title that is no name by itself, as `Sir` may be.
_TITLE = re.compile(rf"[{MARKS}~\u202f\xa0 ]*(?:[DM]r|Prof|Mrs|Ms|Mx|Mme|Mlle|Sra?|Srta|Dott|Dhr|Mevr)\.?")
_ADDED = re.compile(r"\s?\u200e<[^<>]*>\s*$")  # an attachment after its caption


def _matches(sample: Sample) -> bool:
    first = sample.lines[:FIRST_LINES] if sample.form in (".txt", ".zip") else []
    return any(_parse_header(line.lstrip(MARKS + " ")) for line in first)


def _parse_header(line: str) -> tuple[re.Match[str], str] | None:
    """The date of the first line of a message, as a match of `NUMERIC`, and what follows it; None for another line."""
    if not (match := _HEADER.fullmatch(line)):
        return None
    date = NUMERIC.fullmatch(re.sub(f"[{MARKS}]", "", match["iphone"] or match["android"]))
    return (date, match["rest"]) if date and date["hour"] else None


def _read(log: ChatLog) -> Items:
    messages, dates = with_dates(_messages(log), lambda each: each[1][1][0], log.date_order, str(log.path))
    names = _names_with_colons(log)
    try:
        yield from log.parse_each(messages, lambda message: _parse_message(log, dates, names, *message))
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


def _names_with_colons(log: ChatLog) -> dict[str, str]:
    """The first part of a name such as `Dr: Cid` -> its second part.

    All messages of a sender begin with the second part, and there is more than one: `Ben` could also write to Cid.
    After an abbreviated title, one message is enough, unless another sender is called Cid.
    """
    seconds: dict[str, Counter[str]] = defaultdict(Counter)
    for line in log.text.head.decode(log.text.encoding, "replace").splitlines():
        if (header := _parse_header(line)) and (parts := _SENDER.match(header[1])):
            second = _SECOND.match(parts[2] or "")
            seconds[parts[1]][second[1] if second else ""] += 1
    return {
        first: second
        for first, counts in seconds.items()
        for second, count in counts.items()
        if count == counts.total() and (count > 1 or _is_titled(first, second, seconds))
    }


def _is_titled(first: str, second: str, senders: Iterable[str]) -> bool:
    """Whether the parts are a title and a name that is not one of another sender."""
    words = second.split()
    is_name = 0 < len(words) <= 3 and all(map(is_title_case, words)) and not any(second in name for name in senders)
    return is_name and _TITLE.fullmatch(first) is not None


def _parse_message(
    log: ChatLog, dates: Dates, names: dict[str, str], number: int, date: re.Match[str], lines: list[str]
) -> Message:
    content = "\n".join(lines)
    try:
        time = dates.parse_numbers(date).timestamp()
    except (ValueError, OverflowError) as error:
        raise BrokenLineError("wrong time", str(error)) from error
    parts = _SENDER.match(content)
    if not parts:
        raise LeftOutError("notice")
    sender, text = parts[1], parts[2] or ""
    if second := names.get(sender):
        sender, text = f"{sender}: {second}", text.removeprefix(f"{second}: ")
    text = _written(text)
    sender = sender.strip(MARKS + "~\u202f\xa0 ")
    return Message(f"message {number}", None, log.name, sender or None, time, text, log.name, log.channel_gap)


def _written(text: str) -> str:
    """What the sender wrote; raises LeftOutError if it is WhatsApp's or somebody else's."""
    text = _ADDED.sub("", without_marks(text))
    text = _ATTACHED.sub("", text, count=1) if _ATTACHED.match(text) else text
    if text.startswith("\u200e") or not text.strip(MARKS + " \n") or text == "null":
        raise LeftOutError("notice or media")
    text = text.strip(MARKS + " \n")
    if is_forwarded(text):
        raise LeftOutError("forwarded")
    if kind := notice_kind(text):
        raise LeftOutError(kind)
    return text


FORMATS = (Format("WhatsApp", _read, _matches),)
