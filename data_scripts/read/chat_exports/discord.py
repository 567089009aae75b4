"""DiscordChatExporter's JSON: the messages of a channel in order; a reply may name the message that it answers."""

from collections.abc import Iterable
from typing import Any

from data_scripts.read.chat_exports import RecordExport
from data_scripts.read.files import BrokenLineError
from data_scripts.read.messages import (
    CHANNEL_GAP,
    ChatLog,
    Items,
    Message,
    label,
    object_field,
    required_label,
    required_text,
    seconds,
)
from data_scripts.read.records import Record, Records

MESSAGE_TYPES = ("Default", "Reply")  # the others are notices: somebody joined, pinned, called
FIELDS = ("guild", "channel", "messages")


def _read(log: ChatLog, records: Records) -> Items:
    for location, record in records.rows(set(FIELDS)):
        try:
            guild, channel = (object_field(record, key) for key in ("guild", "channel"))
            source = f"{label(guild, 'name') or log.name}/{label(channel, 'name')}"
            thread = required_label(channel, "id")
            messages = record.get("messages")
            if not isinstance(messages, Iterable):
                raise BrokenLineError("wrong type", "messages should be a list")
        except BrokenLineError as error:
            log.broken.add(error.args[0], location, error.args[1])
            continue
        yield from _read_channel(log, messages, location, thread, source)


def _read_channel(log: ChatLog, messages: Iterable[Any], location: str, thread: str, source: str) -> Items:
    gap = CHANNEL_GAP if log.gap is None else log.gap
    number = 0
    for number, message in enumerate(messages, start=1):
        message_location = f"{location}: message {number}"
        try:
            left_out = _left_out(message)
            if left_out:
                log.leave_out(left_out)
            else:
                yield message_location, _parse_message(message, thread, source, gap)
        except BrokenLineError as error:
            log.broken.add(error.args[0], message_location, error.args[1])
    if not number:
        log.leave_out("channel without messages")


def _left_out(message: Any) -> str:
    """Why a message is left out, or ""."""
    if object_field(message, "author").get("isBot"):
        return "bot"
    return "" if message.get("type") in MESSAGE_TYPES else f"type {message.get('type')}"


def _parse_message(message: Record, thread: str, source: str, gap: float) -> Message:
    # In a message of another type, the reference is the message that was forwarded.
    reply = message["type"] == "Reply" and message.get("reference")
    parent = label(object_field(message, "reference"), "messageId") if reply else None
    author = message["author"]
    number = label(author, "discriminator").strip("0")  # before 2023, names were unique only with it
    speaker = required_label(author, "name") + (f"#{number}" if number else "")
    time = seconds(message.get("timestamp"))
    text = required_text(message, "content")
    return Message(required_label(message, "id"), parent or None, thread, speaker, time, text, source, gap)


EXPORTS = (RecordExport("Discord", FIELDS, _read, streamed="messages", has_pauses=True),)
