"""Google Chat's messages.json from Google Takeout: a file for each space or group, and for each direct chat.

A message belongs to a topic. In spaces with threads, a topic is a message and the replies to it; elsewhere each message
is a topic of its own.
"""

import math
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from data_scripts.errors import InputError
from data_scripts.read.chat_exports import PathExport
from data_scripts.read.files import UNREADABLE, BrokenLineError, unpacked
from data_scripts.read.messages import CHANNEL_GAP, ChatLog, Items, Message, label, required_label, seconds
from data_scripts.read.records import Record, form_of, read_records

HEAD_BYTES = 4_096  # with the beginning of the first message
LIST = "messages"
_BEGINNING = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"messages"\s*:\s*\[\s*\{\s*"(?:creator|created_date)"\s*:')


def _recognizes(path: Path) -> bool:
    if form_of(path) != ".json" or not path.is_file():
        return False
    try:
        with path.open("rb") as raw:
            return _BEGINNING.match(unpacked(raw, path.suffix).read(HEAD_BYTES)) is not None
    except (EOFError, InputError, *UNREADABLE):
        return False  # whoever reads the file says why


def _read(log: ChatLog) -> Items:
    records = read_records(log.path, log.broken, [(LIST, frozenset())], log.detect_layout(is_table=False))
    heads: dict[str, str] = {}  # topic -> its first message, until a reply follows
    for location, record in records.rows({LIST}):
        messages = record.get(LIST)
        for number, message in enumerate(messages if isinstance(messages, Iterable) else [], start=1):
            message_location = f"{location}: message {number}"
            try:
                parsed = _parse_message(log, message, heads)
                if parsed:
                    yield message_location, parsed
            except BrokenLineError as error:
                log.broken.add(error.args[0], message_location, error.args[1])


def _parse_message(log: ChatLog, message: Any, heads: dict[str, str]) -> Message | None:
    """The message, or None if nobody wrote a text, which is counted."""
    if not isinstance(message, dict):
        raise BrokenLineError("wrong type", "a message should be an object")
    creator = message.get("creator") or {}
    if not isinstance(creator, dict):
        raise BrokenLineError("wrong type", f"creator should be an object, found {type(creator).__name__}")
    if label(creator, "user_type") == "Bot":
        log.leave_out("bot")
        return None
    text = label(message, "text")
    if not text.strip():
        log.leave_out("no text")
        return None
    name, topic, time = required_label(message, "message_id"), label(message, "topic_id"), _time(message)
    is_reply = topic in heads
    parent = heads[topic] if is_reply else None
    if topic:
        heads[topic] = "" if is_reply else name
    return Message(
        id=name,
        parent=parent or None,  # further replies answer the one before them
        thread=f"{log.name}/{topic}" if is_reply else log.name,
        speaker=label(creator, "name") or label(creator, "email") or None,
        time=time,
        text=text,
        source=log.name,
        gap=math.inf if is_reply else CHANNEL_GAP if log.gap is None else log.gap,
    )


def _time(message: Record) -> float:
    """Raises BrokenLineError if there is no date, or one in another language."""
    try:
        return seconds(message.get("created_date"))
    except BrokenLineError as error:
        raise BrokenLineError(
            "wrong time",
            "created_date should be a date in English, such as 'Thursday, November 3, 2016 at 11:59:50 AM UTC'; set "
            "the account's language to English and export again",
        ) from error


EXPORTS = (PathExport("Google Chat", _recognizes, _read),)
