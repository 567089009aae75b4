"""Messenger's and Instagram's JSON (message_1.json), and Messenger's of encrypted chats: a file for each chat.

Facebook writes each byte of a text in UTF-8 as a character of its own: "Jürgen" is "J\\u00c3\\u00bcrgen". The newest
message is the first one. The files of encrypted chats have neither fault, and other names for the fields.
"""

import re
from dataclasses import dataclass
from functools import partial

from data_scripts.read.chat_exports import RecordExport
from data_scripts.read.files import BrokenLineError
from data_scripts.read.messages import CHANNEL_GAP, ChatLog, Items, Message, label, list_of_objects, seconds
from data_scripts.read.records import Record, Records


@dataclass(frozen=True)
class _Fields:
    """The names of a message's fields.

    Attributes:
        is_newest_first: whether the newest message is the first one.
        has_bytes: whether a character stands for a byte of UTF-8.
    """

    speaker: str
    time: str
    text: str
    unsent: str
    is_newest_first: bool = False
    has_bytes: bool = False


PLAIN = _Fields("sender_name", "timestamp_ms", "content", "is_unsent", is_newest_first=True, has_bytes=True)
ENCRYPTED = _Fields("senderName", "timestamp", "text", "isUnsent")
NOTICES = ("Call", "Subscribe", "Unsubscribe", "placeholder")  # types of messages
_NOTICE = re.compile(  # if the account's language is English
    r"(Liked a message|Reacted \S+ to your message|.{1,100} sent an attachment\.|You (missed|unsent) a .{1,40})\s*"
)


def _read(log: ChatLog, records: Records, fields: _Fields) -> Items:
    for chat, (location, record) in enumerate(records.rows({"messages"}), start=1):
        try:
            messages = list_of_objects(record.get("messages"), "messages")
        except BrokenLineError as error:
            log.broken.add(error.args[0], location, error.args[1])
            continue
        numbered = list(enumerate(messages, start=1))
        for number, message in reversed(numbered) if fields.is_newest_first else numbered:
            message_location = f"{location}: message {number}"
            try:
                parsed = _parse_message(log, message, chat, number, fields)
                if parsed:
                    yield message_location, parsed
            except BrokenLineError as error:
                log.broken.add(error.args[0], message_location, error.args[1])


def _parse_message(log: ChatLog, message: Record, chat: int, number: int, fields: _Fields) -> Message | None:
    """The message, or None if nobody wrote a text, which is counted."""
    text, speaker = label(message, fields.text), label(message, fields.speaker)
    if fields.has_bytes:
        text, speaker = _decode(text), _decode(speaker)
    if message.get(fields.unsent):
        log.leave_out("deleted")
    elif message.get("type") in NOTICES or _NOTICE.fullmatch(text):
        log.leave_out("notice")
    elif not text.strip():
        log.leave_out("no text")
    else:
        gap = CHANNEL_GAP if log.gap is None else log.gap
        time = seconds(message.get(fields.time))
        name, thread = f"{chat}/{number}", f"{log.name}/{chat}"
        return Message(name, None, thread, speaker or None, time, text, log.name, gap)
    return None


def _decode(text: str) -> str:
    """The text of characters that stand for bytes; unchanged if they do not."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


EXPORTS = (
    RecordExport(
        "Messenger or Instagram",
        ("participants", "messages", "title", "thread_path"),
        partial(_read, fields=PLAIN),
        has_pauses=True,
    ),
    RecordExport(
        "Messenger, encrypted chat",
        ("participants", "threadName", "messages"),
        partial(_read, fields=ENCRYPTED),
        has_pauses=True,
    ),
)
