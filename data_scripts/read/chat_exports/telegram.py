"""Telegram Desktop's JSON (result.json): one chat, or all of a user; a reply names the message that it answers."""

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
    seconds,
)
from data_scripts.read.records import Record, Records

FIELDS = ("name", "type", "id", "messages")
ALL_CHATS = "chats.list"


def _read_chats(log: ChatLog, records: Records) -> Items:
    for location, record in records.rows(set(FIELDS)):
        yield from _read_chat(log, record, location)


def _read_all(log: ChatLog, records: Records) -> Items:
    for location, record in records.rows({"chats", ALL_CHATS}):
        try:
            chats = record.get(ALL_CHATS) or object_field(record, "chats").get("list")
            if not isinstance(chats, Iterable):
                raise BrokenLineError("wrong type", "chats.list should be a list")
        except BrokenLineError as error:
            log.broken.add(error.args[0], location, error.args[1])
            continue
        for number, chat in enumerate(chats, start=1):
            yield from _read_chat(log, chat, f"{location}: chat {number}")


def _read_chat(log: ChatLog, chat: Any, location: str) -> Items:
    try:
        messages = chat.get("messages") if isinstance(chat, dict) else None
        if not isinstance(messages, Iterable) or isinstance(messages, str):
            raise BrokenLineError("wrong type", "a chat should be an object with a list of messages")
        thread = required_label(chat, "id")
    except BrokenLineError as error:
        log.broken.add(error.args[0], location, error.args[1])
        return
    for number, message in enumerate(messages, start=1):
        message_location = f"{location}: message {number}"
        try:
            left_out, text = _text(message)
            if left_out:
                log.leave_out(left_out)
            else:
                yield message_location, _parse_message(log, message, thread, text)
        except BrokenLineError as error:
            log.broken.add(error.args[0], message_location, error.args[1])


def _text(message: Any) -> tuple[str, str]:
    """Why a message is left out, or ""; and its text, which may consist of plain and formatted parts."""
    if not isinstance(message, dict):
        raise BrokenLineError("wrong type", "a message should be an object")
    if message.get("type") != "message":
        return f"type {message.get('type')}", ""
    if message.get("via_bot"):
        return "bot", ""
    text = message.get("text")
    if isinstance(text, list):
        parts = (part.get("text") if isinstance(part, dict) else part for part in text)
        text = "".join(part for part in parts if isinstance(part, str))
    if not isinstance(text, str):
        raise BrokenLineError("wrong type", f"text should be a text or a list, found {type(text).__name__}")
    return "" if text else "no text", text


def _parse_message(log: ChatLog, message: Record, thread: str, text: str) -> Message:
    number = required_label(message, "id")
    answered = label(message, "reply_to_message_id")
    return Message(
        id=f"{thread}/{number}",
        parent=f"{thread}/{answered}" if answered else None,
        thread=f"{log.name}/{thread}",
        speaker=label(message, "from") or label(message, "from_id") or None,
        time=seconds(message.get("date_unixtime") or message.get("date")),
        text=text,
        source=log.name,
        gap=CHANNEL_GAP if log.gap is None else log.gap,
    )


EXPORTS = (
    RecordExport("Telegram", FIELDS, _read_chats, streamed="messages", has_pauses=True),
    RecordExport("Telegram", ("about", ALL_CHATS), _read_all, streamed=ALL_CHATS, has_pauses=True),
    RecordExport("Telegram", ("about", "chats"), _read_all, has_pauses=True),
)
