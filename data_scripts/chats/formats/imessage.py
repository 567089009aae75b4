"""Text files of imessage-exporter: the time, the name of the sender, the text, and a blank line.

Indented lines after a text are reactions, and replies that are also at their own times.
"""

import re
from collections.abc import Iterator

from data_scripts.boilerplate.notices import notice_kind, without_added
from data_scripts.chats.dates import Dates
from data_scripts.chats.formats import Format
from data_scripts.chats.messages import ChatLog, Items, LeftOutError, Message
from data_scripts.chats.sample import Sample

_Sent = tuple[str, list[str]]  # the time; the name of the sender, and the lines of the text
_TIME = re.compile(
    r"(?P<time>[A-Z][a-z]{2} \d{1,2}, \d{4} {1,2}\d{1,2}:\d{2}:\d{2} [AP]M)(?: \((?:Read|Delivered)[^()]*\))?"
    r"(?P<notice> \S.*)?"
)


def _matches(sample: Sample) -> bool:
    return sample.form == ".txt" and bool(sample.lines) and _TIME.fullmatch(sample.lines[0]) is not None


def _read(log: ChatLog) -> Items:
    dates = Dates()

    def parse(sent: _Sent) -> Message:
        date, (name, *lines) = sent[0], sent[1] or [""]
        if lines and notice_kind(lines[0], "iMessage") == "deleted":  # its text may follow
            raise LeftOutError("deleted")
        text = without_added("\n".join(lines), "iMessage").strip()
        if not name or not text:
            raise LeftOutError("no text" if name else "no sender")
        time = dates.seconds(date)
        return Message("", None, log.name, name, time, text, log.name, log.channel_gap)

    return log.parse_each(_messages(log), parse)


def _messages(log: ChatLog) -> Iterator[tuple[str, _Sent]]:
    """The messages with their locations; notices, such as that the chat was named, are counted."""
    begins = ""
    sent: _Sent | None = None
    for location, line in log.lines():
        match = _TIME.fullmatch(line)
        if match and sent:
            yield begins, sent
            sent = None
        if match and match["notice"]:
            log.leave_out("notice")
        elif match:
            begins, sent = location, (match["time"], [])
        elif line.startswith("    "):
            log.leave_out("reaction or repeated reply" if line.strip() else "blank line")
        elif sent:
            sent[1].append(line.strip())
        elif line.strip():
            log.broken.add("line before the first message", location)
    if sent:
        yield begins, sent


FORMATS = (Format("iMessage", _read, _matches),)
