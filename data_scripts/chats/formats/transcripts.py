"""Transcripts as plain text (.txt or .log): lines such as `<ann> hello` (IRC) or `Ann: hello`, perhaps after a time.

Or a line has only the time and the name, and the text is in the lines after it, as Teams, Discord and Zoom write it.
LINE and WeeChat separate the time, the name and the text by tabs. All other lines of IRC are notices, as are lines of
columns that begin with a time. Elsewhere they continue the message before them, and a line of dashes ends a
conversation, as a blank line does unless most messages have one before them. If the lines have times, pauses end it.
"""

import re
from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

from data_scripts.boilerplate.notices import notice_kind
from data_scripts.chats.dates import Dates, with_dates
from data_scripts.chats.formats import Format
from data_scripts.chats.messages import ChatLog, Items, Message
from data_scripts.chats.sample import DELIMITERS, Sample
from modeling_convsim.files.errors import refuse_options

SUFFIXES = (".txt", ".log")
RARE = 0.05  # of the messages: if fewer have a name that no other message has, these are no names, as in `Note: a text`
TEXTS = 0.9  # of the names above texts: if fewer have one, they are no names
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
_CALL = re.compile(r"☎ .*")  # in LINE
_KAKAO = re.compile(
    r"사진(?: \d+장)?|동영상|이모티콘|음성메시지|(?:파일|지도|연락처): .*|(?:보이스톡|페이스톡)(?: .{1,20})?|"
    r"(?:\d+ )?Photos?|Video|Emoticons?|Stickers?|Voice Note|File: .*|(?:Voice|Video) Call(?: .{1,20})?|"
    r"写真|動画|スタンプ"
)
_KAKAO_NOTICE = re.compile(  # in a line of its own, without a time
    r".{1,60}님이 (?:들어왔습니다|나갔습니다|.{1,200}초대했습니다)\.?|.{1,60} (?:joined|left) this chatroom\.?|"
    r"채팅방 관리자가 메시지를 가렸습니다\.?"
)
_ZOOM_REACTION = re.compile(r'(?:Reacted to|Removed an? .{1,20} reaction from) [“"].*', re.S)
_ZOOM_REPLY = re.compile(r'(?:Replying to|Antwort auf|Respondiendo a|En réponse à|Risposta a|Respondendo a) [“"].*\n')
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


def _matches(sample: Sample, pattern: re.Pattern[str], share: float) -> bool:
    """Whether more than a share of the first lines are messages, of at least two people, and one has more than one."""
    if sample.form not in SUFFIXES:
        return False
    lines = sample.lines
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
    lines = list(log.lines())  # in memory, because the names of the speakers are known at the end
    first = list(_messages(ChatLog(log.path, log.name), lines, pattern))  # counts nothing in `log`
    number, names = len(first), Counter(spoken.speaker for spoken in first)
    has_times = 2 * sum(spoken.time is not None for spoken in first) > number
    has_blocks = 2 * sum(spoken.after_blank for spoken in first) <= number
    once = {name for name, count in names.items() if count == 1}
    no_names = once if pattern is _SAID and len(once) < RARE * number else set[str]()
    if not has_times:
        refuse_options({"--gap": log.gap is not None}, f"{log.path} has no times, so it has no pauses; leave it out")
    del first
    messages, dates = with_dates(
        _messages(log, lines, pattern, no_names),
        lambda spoken: spoken.time if has_times else None,
        log.date_order,
        str(log.path),
    )
    conversation, clock = 1, 0.0
    try:
        for number, spoken in enumerate(messages, start=1):
            conversation += number > 1 and (spoken.after_rule or (spoken.after_blank and has_blocks))
            thread, time, gap = f"{log.name}/{conversation}", None, None
            if has_times:
                time = log.attempt(spoken.location, _seconds, spoken, dates, clock)
                if time is None:
                    continue
                thread, clock, gap = log.name, time, log.channel_gap
            text = "\n".join(spoken.lines).strip()
            text = _ZOOM_REPLY.sub("", text, count=1) if _ZOOM_REPLY.match(text) else text
            if kind := _left_out(text.strip(), pattern):
                log.leave_out(kind)
                continue
            text = text.strip()
            yield spoken.location, Message(f"message {number}", None, thread, spoken.speaker, time, text, log.name, gap)
    finally:  # also if only the first messages are read
        log.note_dates(dates)


def _left_out(text: str, pattern: re.Pattern[str]) -> str | None:
    """Why a text is left out that a program wrote; None for a message."""
    if not text or (pattern is _COLUMNS and _STICKER.fullmatch(text)):
        return "no text"
    if pattern is _BRACKETS and _KAKAO.fullmatch(text):
        return "media or call"
    if pattern is _COLUMNS and _CALL.fullmatch(text):
        return "call"
    if _ZOOM_REACTION.fullmatch(text):
        return "reaction"
    return "deleted" if notice_kind(text) == "deleted" else None


def _messages(
    log: ChatLog, lines: Iterable[tuple[str, str]], pattern: re.Pattern[str], no_names: Container[str] = ()
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
        elif _NEW_DAY.match(text):
            is_next_day = True
        elif (
            pattern is _IRC
            or (pattern is _COLUMNS and _STAMPED.match(text))
            or (pattern is _BRACKETS and _KAKAO_NOTICE.fullmatch(text.strip()))
        ):
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
FORMATS = tuple(
    Format(name, partial(_read, pattern=pattern), partial(_matches, pattern=pattern, share=share))
    for name, pattern, share in _STYLES
)
