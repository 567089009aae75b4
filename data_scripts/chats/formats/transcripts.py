"""Transcripts as plain text (.txt or .log): lines such as `<ann> hello` (IRC) or `Ann: hello`, perhaps after a time.

Or a line has only the name and the time, and the text is in the lines after it, as Teams, Discord, Zoom and copies of
Telegram have it. LINE and WeeChat separate the time, the name and the text by tabs, and LINE for the desktop by spaces.
All other lines of IRC are notices, as are lines of columns that begin with a time. Elsewhere they continue the message
before them, and a line of dashes ends a conversation, as a blank line does unless most messages have one before them.
If the lines have times, pauses end it. Tables of KakaoTalk and Discord have the notices of their transcripts.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from data_scripts.boilerplate.notices import notice_kind, without_added
from data_scripts.chats.dates import CLOCK, DATE, DATE_AND_CLOCK, Dates
from data_scripts.chats.formats import Format
from data_scripts.chats.messages import ChatLog, Items, Message
from data_scripts.chats.sample import DELIMITERS, Sample
from data_scripts.chats.tables import read_table
from modeling_convsim.files.errors import refuse_options

SUFFIXES = (".txt", ".log")
RARE = 0.05  # of the messages: if fewer have a name that no other message has, these are no names, as in `Note: a text`
TEXTS = 0.9  # of the names above texts: if fewer have one, they are no names
DAY, DISORDER = 24 * 3600, 3600  # seconds: a clock that goes back by more than an hour begins a new day
_TIME = rf"(?P<time>{DATE_AND_CLOCK}|(?:\d{{8}} )?{CLOCK})"
_NAME = r"(?P<speaker>[^\W\d_][^:<>|;,\t\"]{0,39}?)"
_HEADING = r"(?P<speaker>[^\s:<>|;,\"(\[*-][^:<>|;,\t\"]{0,39}?)"  # a name above a text may begin with any character
_WEEKDAY = r"[ (（]*[^\W\d]{1,9}[)）]?"  # after a date
_IRC = re.compile(rf"(?:\[?{_TIME}\]?\s+)?<[ @+%&~!]?(?P<speaker>[^<>\s]{{1,40}})>\s(?P<text>.*)")
# A date in brackets is WhatsApp's.
_SAID = re.compile(rf"(?!\[\d+[./-])(?:[\[(]?{_TIME}[\])]?\s+|\((?:\s*\d+[hms])+\s*\)\s*)?{_NAME}:\s+(?P<text>\S.*)")
_TIMED = re.compile(rf"[\[(]?{_TIME}[\])]?\s+\S.*")
_ABOVE = re.compile(rf"[\[(]?{_TIME}[\])]?\s+{_HEADING}(?: \(pinned\))?:?\s*(?P<text>)")
# Without a date, a time after a name and one space is since the beginning, in minutes and seconds or longer.
_ABOVE_FIRST = re.compile(
    rf"(?!\d){_HEADING},?(?:(?P<wide>\s{{2,}}|\s[—–-]\s+|\s+[\[(])(?:[A-Z]\w{{1,8}}day,?\s(?:at\s)?)?|\s+)"
    rf"(?:(?:\d{{1,2}}:)?\d{{1,2}}:\d{{2}}|(?P<time>{DATE_AND_CLOCK}|(?(wide)|(?=[^\dA-Z])){CLOCK}))[\])]?:?\s*(?P<text>)"
)
_FROM_TO = re.compile(r"From\s+(\S.*?)\s+[tT]o\s+\S.*")  # in the chat of Zoom
_CLOCK = re.compile(r"\s*[\[(]?(?:\d{1,2}:)?\d{1,2}:\d{2}[\])]?\s*")
_COLUMNS = re.compile(rf"{_TIME}\t(?!(?:-->|<--|--| ?\*)\t)[@+%&~]?(?P<speaker>[^\t]{{1,40}})\t(?P<text>.*)")
_BRACKETS = re.compile(rf"\[(?P<speaker>[^\[\]]{{1,40}})\] \[{_TIME}\] (?P<text>.*)")  # `[Ann] [오후 5:29] hello`
_PHONE = re.compile(rf"(?P<time>{DATE_AND_CLOCK}), (?P<speaker>.{{1,40}}?) : (?P<text>.*)")
_PHONE_NOTICE = re.compile(rf"{DATE_AND_CLOCK}(?:[,:] .*)?|(?:\w+, )?{DATE}(?:{_WEEKDAY})?")  # or a heading
_QUOTED = re.compile(r'"(.*)"', re.S)
_RULE = re.compile(r"\s*([-=*_#])\1{2,}\s*")
_LINE_DAY = re.compile(rf"\d{{4}}[./]\d{{1,2}}[./]\d{{1,2}}{_WEEKDAY}")
_NEW_DAY = re.compile(  # of irssi, of KakaoTalk, and of LINE: `Mon, 03/02/2026`, `2026.03.02 Monday`
    r"--- (?:Day changed|Log opened).*|-{6,} .*\d{4}.* -{6,}|"
    rf"(?:\w{{2,9}}, ?)?\d{{1,4}}[./]\d{{1,2}}[./]\d{{1,4}}(?:{_WEEKDAY})?"
)


@dataclass(frozen=True)
class _Style:
    """A way to write transcripts.

    Attributes:
        name: of the format, for people.
        line: the first line of a message; None if it depends on the names (`_spaced_line`).
        share: of the lines that are messages, from which it is recognized.
        programs: that write so, whose notices are left out.
        notice: other lines that are notices.
    """

    name: str
    line: re.Pattern[str] | None
    share: float = 0.2
    programs: tuple[str, ...] = ("Zoom",)
    notice: re.Pattern[str] = re.compile(r"(?!)")


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


def _spaced_line(lines: list[str]) -> re.Pattern[str]:
    """The first line of a message of LINE for the desktop, in which only spaces separate the name from the text."""
    matches = (re.fullmatch(rf"{_TIME} (\S.*)", line) for line in lines)
    words = [match[2].split(" ") for match in matches if match] if any(map(_LINE_DAY.fullmatch, lines)) else []
    names = "|".join(map(re.escape, _leading_names(words)))
    return re.compile(rf"{_TIME} (?P<speaker>{names or '(?!)'}) (?P<text>.+)")


def _leading_names(texts: list[list[str]], length: int = 1) -> Iterator[str]:
    """The first words that texts have in common: after a name, most words are those of one text only."""
    groups: dict[str, list[list[str]]] = {}
    for words in texts:
        groups.setdefault(" ".join(words[:length]), []).append(words)
    for name, group in groups.items():
        following = Counter(words[length] if len(words) > length + 1 else None for words in group)
        once = sum(count == 1 for count in following.values())
        if len(group) > 1 and None not in following and once <= RARE * len(group):
            yield from _leading_names(group, length + 1)
        else:
            yield name


def _matches(sample: Sample, style: _Style) -> bool:
    """Whether more than a share of the first lines are messages, of at least two people, and one has more than one."""
    if sample.form not in SUFFIXES:
        return False
    lines = sample.lines
    if not lines or (
        style.line is _SAID and not _SAID.fullmatch(lines[0]) and any(mark in lines[0] for mark in DELIMITERS)
    ):
        return False  # the first line may be a heading, but not one of columns
    pattern = style.line or _spaced_line(lines)
    matches = [pattern.fullmatch(line) for line in lines]
    speakers = Counter(_speaker(match) for match in matches if match)
    if pattern in (_ABOVE, _ABOVE_FIRST):  # such lines of a program's log have no texts after them
        with_texts = sum(first is not None and second is None for first, second in pairwise(matches))
        if with_texts < TEXTS * speakers.total() - 1:
            return False
    return len(speakers) > 1 and max(speakers.values()) > 1 and speakers.total() > style.share * len(lines)


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


def _read(log: ChatLog, style: _Style) -> Items:
    lines = list(log.lines())  # in memory, because the names of the speakers are known at the end
    pattern = style.line or _spaced_line([line for _, line in lines])
    first = list(_messages(ChatLog(log.path, log.name), lines, pattern, style))  # counts nothing in `log`
    number, names = len(first), Counter(spoken.speaker for spoken in first)
    has_times = 2 * sum(spoken.time is not None for spoken in first) > number
    has_blocks = 2 * sum(spoken.after_blank for spoken in first) <= number
    once = {name for name, count in names.items() if count == 1}
    no_names = once if pattern is _SAID and len(once) < RARE * number else set[str]()
    if pattern is _ABOVE_FIRST and has_times:  # a line such as `See you at 18:05` is in a text
        no_names = {spoken.speaker for spoken in first if not spoken.time}
    if not has_times:
        refuse_options({"--gap": log.gap is not None}, f"{log.path} has no times, so it has no pauses; leave it out")
    longer = [_QUOTED.fullmatch("\n".join(spoken.lines)) for spoken in first if len(spoken.lines) > 1]
    has_quotes = "LINE" in style.programs and 2 * sum(map(bool, longer)) > len(longer)  # around texts of several lines
    del first
    messages, dates = log.with_dates(
        _messages(log, lines, pattern, style, no_names), lambda spoken: spoken.time if has_times else None
    )
    conversation, clock = 1, 0.0
    for number, spoken in enumerate(messages, start=1):
        conversation += number > 1 and (spoken.after_rule or (spoken.after_blank and has_blocks))
        thread, time, gap = f"{log.name}/{conversation}", None, None
        if has_times:
            time = log.attempt(spoken.location, _seconds, spoken, dates, clock)
            if time is None:
                continue
            thread, clock, gap = log.name, time, log.channel_gap
        text = without_added("\n".join(spoken.lines).strip(), *style.programs).strip()
        if has_quotes and len(spoken.lines) > 1 and (quoted := _QUOTED.fullmatch(text)):
            text = quoted[1].replace('""', '"').strip()
        if kind := notice_kind(text, *style.programs) if text else "no text":
            log.leave_out(kind)
            continue
        yield spoken.location, Message(f"message {number}", None, thread, spoken.speaker, time, text, log.name, gap)


def _messages(
    log: ChatLog,
    lines: Iterable[tuple[str, str]],
    pattern: re.Pattern[str],
    style: _Style,
    no_names: Container[str] = (),
) -> Iterator[_Spoken]:
    """The messages of a transcript; a line that begins with one of `no_names` continues the message before it."""
    message: _Spoken | None = None
    after_blank = after_rule = is_next_day = False
    for location, text in lines:
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
        elif _NEW_DAY.fullmatch(text):
            is_next_day = True
        elif style.notice.fullmatch(text) or notice_kind(text, *style.programs) == "notice":
            log.leave_out("notice")
        elif _RULE.fullmatch(text):
            after_rule = True
        elif message is None or after_rule:
            log.broken.add("line before the first message of a conversation", location)
        else:
            message.lines.append(text.strip())
            after_blank = False
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
    if not re.fullmatch(CLOCK, spoken.time):
        return dates.seconds(spoken.time)
    midnight = before // DAY * DAY + DAY * spoken.is_next_day
    time = midnight + dates.seconds(f"1970-01-01 {spoken.time}")
    return time if time >= before - DISORDER else time + DAY


def _read_table(log: ChatLog, program: str) -> Items:
    """The messages of a table that a program writes."""
    for location, item in read_table(log):
        if isinstance(item, Message) and (kind := notice_kind(item.text, program)):
            log.leave_out(kind)
        else:
            yield location, item


def _table(program: str, *columns: str) -> Format:
    """The table that a program writes, with these columns and no others."""
    read = partial(_read_table, program=program)
    return Format(program, read, lambda sample: sample.records.columns == [*columns], fields=columns)


_ABOVE_PROGRAMS = ("Zoom", "Discord", "Teams", "Telegram")
_STYLES = (  # the first that fits
    _Style("IRC", _IRC, notice=re.compile(".*")),
    _Style("KakaoTalk", _BRACKETS, programs=("KakaoTalk",)),
    _Style("KakaoTalk", _PHONE, programs=("KakaoTalk",), notice=_PHONE_NOTICE),
    _Style("transcript", _SAID, 0.5, ("Zoom", "Telegram")),
    _Style("transcript in columns", _COLUMNS, programs=("LINE",), notice=re.compile(rf"{_TIME}\t.*")),
    _Style("LINE", None, programs=("LINE", "LINE for the desktop"), notice=re.compile(rf"{_TIME} .*")),
    _Style("transcript, names above texts", _ABOVE, 0.1, programs=_ABOVE_PROGRAMS),
    _Style("transcript, names and times above texts", _ABOVE_FIRST, 0.1, programs=_ABOVE_PROGRAMS),
)
FORMATS = (
    *(Format(style.name, partial(_read, style=style), partial(_matches, style=style)) for style in _STYLES),
    _table("KakaoTalk", "Date", "User", "Message"),
    _table("Discord", "AuthorID", "Author", "Date", "Content", "Attachments", "Reactions"),
)
