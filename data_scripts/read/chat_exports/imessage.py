"""Text files of imessage-exporter: the time, the name of the sender, the text, and a blank line.

Indented lines after a text are reactions, and replies that are also at their own times.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from data_scripts.read.chat_exports import PathExport
from data_scripts.read.dates import Dates
from data_scripts.read.files import BrokenLineError, decode, read_head, read_lines
from data_scripts.read.layouts import UTF8
from data_scripts.read.messages import CHANNEL_GAP, ChatLog, Items, Message
from data_scripts.read.records import form_of

SUFFIX = ".txt"
HEAD_BYTES = 4_096
MAX_LINES = 10_000  # of a message
_TIME = re.compile(
    r"(?P<time>[A-Z][a-z]{2} \d{1,2}, \d{4} {1,2}\d{1,2}:\d{2}:\d{2} [AP]M)(?: \((?:Read|Delivered)[^()]*\))?"
    r"(?P<notice> \S.*)?"
)
_NO_TEXT = re.compile(
    r"This message responded to an earlier message\.|Tapbacks:|(?:/|~/).*/Attachments/.*|.*Attachment missing.*"
)


class _Sent(NamedTuple):
    location: str
    time: str
    lines: list[str]  # first the name of the sender


def _recognizes(path: Path) -> bool:
    if form_of(path) != SUFFIX or not path.is_file():
        return False
    lines = read_head(path, HEAD_BYTES).decode(UTF8, "replace").removeprefix("\ufeff").splitlines()
    first = next((line for line in lines if line.strip()), "")
    return _TIME.fullmatch(first) is not None


def _read(log: ChatLog) -> Items:
    dates, gap = Dates(), CHANNEL_GAP if log.gap is None else log.gap
    for number, sent in enumerate(_messages(log), start=1):
        try:
            name, *lines = sent.lines or [""]
            text = "\n".join(line for line in lines if not _NO_TEXT.fullmatch(line)).strip()
            if not name or not text:
                log.leave_out("no text" if name else "no sender")
                continue
            time = dates.seconds(sent.time)
        except BrokenLineError as error:
            log.broken.add(error.args[0], sent.location, error.args[1])
            continue
        yield sent.location, Message(f"message {number}", None, log.name, name, time, text, log.name, gap)


def _messages(log: ChatLog) -> Iterator[_Sent]:
    """The messages; notices, such as that the chat was named, are counted."""
    sent: _Sent | None = None
    for location, line in read_lines(log.path, (SUFFIX,), log.detect_layout(is_table=False).encoding):
        try:
            text = decode(line).rstrip("\r").removeprefix("\ufeff")
            match = _TIME.fullmatch(text)
            if match and sent:
                yield sent
                sent = None
            if match and match["notice"]:
                log.leave_out("notice")
            elif match:
                sent = _Sent(location, match["time"], [])
            elif text.startswith("    "):
                log.leave_out("reaction or repeated reply" if text.strip() else "blank line")
            elif sent and len(sent.lines) > MAX_LINES:
                raise BrokenLineError(f"line after {MAX_LINES:,} lines of a message", "")
            elif sent and (sent.lines or text.strip()):
                sent.lines.append(text.strip())
            elif text.strip():
                raise BrokenLineError("line before the first message", "")
        except BrokenLineError as error:
            log.broken.add(error.args[0], location, error.args[1])
    if sent:
        yield sent


EXPORTS = (PathExport("iMessage", _recognizes, _read),)
