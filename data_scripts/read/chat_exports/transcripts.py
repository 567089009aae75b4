"""Transcripts as plain text (.txt or .log): lines such as `<ann> hello` (IRC) or `Ann: hello`, perhaps after a time.

Or a line has only the time and the name, and the text is in the lines after it, as Teams, Discord and Zoom write it.
LINE and WeeChat separate the time, the name and the text by tabs. All other lines of IRC are notices, as are lines of
columns that begin with a time. Elsewhere they continue the message before them, and a line of dashes ends a
conversation, as a blank line does unless most messages have one before them. If the lines have times, pauses end it.
"""

import codecs
import re
from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from data_scripts.errors import refuse_options
from data_scripts.read.chat_exports import PathExport
from data_scripts.read.dates import Dates, find_order
from data_scripts.read.files import BrokenLineError, decode, read_head, read_lines
from data_scripts.read.layouts import DELIMITERS, UTF8
from data_scripts.read.messages import CHANNEL_GAP, ChatLog, Items, Message
from data_scripts.read.records import form_of

SUFFIXES = (".txt", ".log")
HEAD_BYTES = 1 << 16  # from which a transcript is recognized
RARE = 0.05  # of the messages: if fewer have a name that no other message has, these are no names, as in `Note: a text`
TEXTS = 0.9  # of the names above texts: if fewer have one, they are no names
MAX_LINES = 10_000  # of a message
DAY, DISORDER = 24 * 3600, 3600  # seconds: a clock that goes back by more than an hour begins a new day
_TIME = r"(?P<time>(?:\d[\d./-]{4,9}(?:T|,? ))?\d{1,2}:\d{2}(?::\d{2})?(?:\s?[AaPp]\.?[Mm]\.?)?)"
_NAME = r"(?P<speaker>[^\W\d_][^:<>|;,\t\"]{0,39}?)"
_IRC = re.compile(rf"(?:\[?{_TIME}\]?\s+)?<[ @+%&~!]?(?P<speaker>[^<>\s]{{1,40}})>\s(?P<text>.*)")
# A date in brackets is WhatsApp's.
_SAID = re.compile(rf"(?!\[\d+[./-])(?:[\[(]?{_TIME}[\])]?\s+|\((?:\s*\d+[hms])+\s*\)\s*)?{_NAME}:\s+(?P<text>\S.*)")
_TIMED = re.compile(rf"[\[(]?{_TIME}[\])]?\s+\S.*")
_ABOVE = re.compile(rf"[\[(]?{_TIME}[\])]?\s+{_NAME}:?\s*(?P<text>)")
# The times after a name are those since the beginning, in minutes and seconds or longer.
_ABOVE_FIRST = re.compile(rf"{_NAME}\s+[\[(]?(?:\d{{1,2}}:)?\d{{1,2}}:\d{{2}}[\])]?:?\s*(?P<time>(?!))?(?P<text>)")
_FROM_TO = re.compile(r"From\s+(\S.*?)\s+[tT]o\s+\S.*")  # in the chat of Zoom
_CLOCK = re.compile(r"\s*[\[(]?(?:\d{1,2}:)?\d{1,2}:\d{2}[\])]?\s*")
_COLUMNS = re.compile(rf"{_TIME}\t(?!(?:-->|<--|--| ?\*)\t)[@+%&~]?(?P<speaker>[^\t]{{1,40}})\t(?P<text>.*)")
_BRACKETS = re.compile(  # of KakaoTalk: `[Ann] [오후 5:29] hello`
    r"\[(?P<speaker>[^\[\]]{1,40})\] \[(?P<time>(?:\w{2} )?\d{1,2}:\d{2}(?: [AP]M)?)\] (?P<text>.*)"
)
_STICKER = re.compile(r"\[[^\[\]]{1,30}\]")  # in LINE, or [Photo]
_STAMPED = re.compile(rf"{_TIME}\t")  # in columns, others of these are notices
_RULE = re.compile(r"\s*([-=*_#])\1{2,}\s*")
_NEW_DAY = re.compile(  # of irssi, of KakaoTalk, and of LINE: `Mon, 03/02/2026`, `2026.03.02 Monday`
    r"--- (?:Day changed|Log opened)|-{6,} .*\d{4}.* -{6,}$|"
    r"(?:\w{2,9}, ?)?\d{1,4}[./]\d{1,2}[./]\d{1,4}(?:[ (]*\w{1,9}\)?)?$"
)


@dataclass
class _Spoken:
    """A message: where it begins, and what is between it and the one before it."""

    location: str
    speaker: str
    time: str | None
    lines: list[str]
    after_blank: bool
    after_rule: bool
    is_next_day: bool


def _recognizes(path: Path, pattern: re.Pattern[str], share: float) -> bool:
    """Whether more than a share of the first lines are messages, of at least two people, and one has more than one."""
    if form_of(path) not in SUFFIXES or not path.is_file():
        return False
    head = read_head(path, HEAD_BYTES)
    is_utf16 = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    text = head.decode("utf-16" if is_utf16 else UTF8, "replace").lstrip("\ufeff")
    lines = [line for line in text.splitlines() if line.strip()]
    if not lines or (
        pattern is _SAID and not _SAID.fullmatch(lines[0]) and any(mark in lines[0] for mark in DELIMITERS)
    ):
        return False  # the first line may be a heading, but not one of columns
    matches = [pattern.fullmatch(line) for line in lines]
    speakers = Counter(_speaker(match) for match in matches if match)
    if pattern in (_ABOVE, _ABOVE_FIRST):  # such lines of a program's log have no texts after them
        with_texts = sum(first is not None and second is None for first, second in pairwise(matches))
        if with_texts < TEXTS * speakers.total() - 1:
            return False
    return len(speakers) > 1 and max(speakers.values()) > 1 and speakers.total() > share * len(lines)


class Line(NamedTuple):
    """A line of a transcript: who said what; a line that has no name has None."""

    speaker: str | None
    text: str
    has_time: bool


def parse_line(line: str) -> Line:
    """A line such as `Ann: hello` or `hello`, perhaps after a time."""
    if match := _SAID.fullmatch(line):
        return Line(_speaker(match), match["text"], match["time"] is not None)
    return Line(None, line, _TIMED.fullmatch(line) is not None)


def _speaker(match: re.Match[str]) -> str:
    """The name in a match of one of the patterns."""
    return _FROM_TO.sub(r"\1", match["speaker"].strip())


def _read(log: ChatLog, pattern: re.Pattern[str]) -> Items:
    encoding = log.detect_layout(is_table=False).encoding
    number = timed = after_blank = 0
    names = Counter[str]()
    for spoken in _messages(log.uncounted(), pattern, encoding):
        number += 1
        timed += spoken.time is not None
        after_blank += spoken.after_blank
        names[spoken.speaker] += 1
    has_times, has_blocks = 2 * timed > number, 2 * after_blank <= number
    once = {name for name, count in names.items() if count == 1}
    no_names = once if pattern is _SAID and len(once) < RARE * number else set[str]()
    if not has_times:
        refuse_options({"--gap": log.gap is not None}, f"{log.path} has no times, so it has no pauses; leave it out")
    stamps = (each.time for each in _messages(log.uncounted(), pattern, encoding, no_names) if has_times)
    dates = Dates(find_order(stamps, log.date_order, str(log.path)))
    conversation, clock = 1, 0.0
    try:
        for number, spoken in enumerate(_messages(log, pattern, encoding, no_names), start=1):
            conversation += number > 1 and (spoken.after_rule or (spoken.after_blank and has_blocks))
            thread, time, gap = f"{log.name}/{conversation}", None, None
            if has_times:
                try:
                    clock = _seconds(spoken, dates, clock)
                except BrokenLineError as error:
                    log.broken.add(error.args[0], spoken.location, error.args[1])
                    continue
                thread, time, gap = log.name, clock, CHANNEL_GAP if log.gap is None else log.gap
            text = "\n".join(spoken.lines).strip()
            if not text or (pattern is _COLUMNS and _STICKER.fullmatch(text)):
                log.leave_out("no text")
                continue
            yield spoken.location, Message(f"message {number}", None, thread, spoken.speaker, time, text, log.name, gap)
    finally:  # also if only the first messages are read
        log.note_dates(dates)


def _messages(
    log: ChatLog, pattern: re.Pattern[str], encoding: str, no_names: Container[str] = ()
) -> Iterator[_Spoken]:
    """The messages of a transcript; a line that begins with one of `no_names` continues the message before it."""
    message: _Spoken | None = None
    after_blank = after_rule = is_next_day = False
    for location, line in read_lines(log.path, SUFFIXES, encoding):
        try:
            text = decode(line).rstrip("\r").removeprefix("\ufeff")
            match = pattern.fullmatch(text)
            if match and message and not (match["time"] or after_rule) and _speaker(match) in no_names:
                match = None
            if match:
                if message:
                    yield message
                said, speaker = [match["text"].strip()], _speaker(match)
                message = _Spoken(location, speaker, match["time"], said, after_blank, after_rule, is_next_day)
                after_blank = after_rule = is_next_day = False
            elif not text.strip():
                after_blank = True
            elif _CLOCK.fullmatch(text):
                log.leave_out("line with only a time")
            elif _NEW_DAY.match(text):
                is_next_day = True
            elif pattern is _IRC or (pattern is _COLUMNS and _STAMPED.match(text)):
                log.leave_out("notice")
            elif _RULE.fullmatch(text):
                after_rule = True
            elif message is None or after_rule:
                raise BrokenLineError("line before the first message of a conversation", "")
            elif len(message.lines) >= MAX_LINES:
                raise BrokenLineError(f"line after {MAX_LINES:,} lines of a message", "")
            else:
                message.lines.append(text.strip())
                after_blank = False
        except BrokenLineError as error:
            log.broken.add(error.args[0], location, error.args[1])
    if message:
        yield message


def _seconds(spoken: _Spoken, dates: Dates, before: float) -> float:
    """The time of a message; of one with the time of day alone, seconds since the first day of the file.

    Args:
        spoken: the message; without a time, it has that of the message before it.
        dates: parses dates.
        before: the time of the message before it.

    Raises:
        BrokenLineError: there is no such time.
    """
    if spoken.time is None:
        return before
    if re.match(r"\d[\d./-]{4}", spoken.time):
        return dates.seconds(spoken.time)
    midnight = before // DAY * DAY + DAY * spoken.is_next_day
    time = midnight + dates.seconds(f"1970-01-01 {spoken.time}")
    return time if spoken.is_next_day or time >= before - DISORDER else time + DAY


# (Name, pattern, the share of the lines from which it is recognized), the first that fits
_STYLES = (
    ("IRC", _IRC, 0.2),
    ("KakaoTalk", _BRACKETS, 0.2),
    ("transcript", _SAID, 0.5),
    ("transcript in columns", _COLUMNS, 0.2),
    ("transcript, names above texts", _ABOVE, 0.2),
    ("transcript, names and times above texts", _ABOVE_FIRST, 0.2),
)
EXPORTS = tuple(
    PathExport(name, partial(_recognizes, pattern=pattern, share=share), partial(_read, pattern=pattern))
    for name, pattern, share in _STYLES
)
