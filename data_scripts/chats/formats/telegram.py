"""Telegram Desktop's JSON (result.json): one chat, or all of a user; a reply names the message that it answers.

That message may be in another chat, whose id follows the kind of the chat in `reply_to_peer_id`, such as "channel99".
"""

import re
from collections.abc import Iterable
from functools import partial
from typing import Any

from data_scripts.chats.formats import Format
from data_scripts.chats.messages import ChatLog, Fields, Items, LeftOutError, Message, numbered, wrong_type
from modeling_convsim.files.records import Record

FIELDS = ("name", "type", "id", "messages")
ALL_CHATS = "chats.list"


def _read(log: ChatLog) -> Items:
    for location, record in log.records.rows({*FIELDS, "chats", ALL_CHATS}, log.broken):
        for where, chat in log.attempt(location, _chats, location, record) or ():
            if parsed := log.attempt(where, _parse_chat, chat):
                thread, messages = parsed
                yield from log.parse_each(numbered(where, messages), partial(_parse_message, log, thread, set()))


def _chats(location: str, record: Record) -> Iterable[tuple[str, Any]]:
    """One chat, or all of a user, with their locations."""
    if not record.keys() & {"chats", ALL_CHATS}:
        return [(location, record)]
    listed = record.get(ALL_CHATS) or Fields(record).object("chats").get("list")
    chats = Fields({ALL_CHATS: listed}).elements(ALL_CHATS)
    return ((f"{location}: chat {number}", chat) for number, chat in enumerate(chats, start=1))


def _parse_chat(chat: Any) -> tuple[str, Iterable[Any]]:
    fields = Fields(chat, "a chat")
    return fields.required("id"), fields.elements("messages")


def _parse_message(log: ChatLog, thread: str, topics: set[str], record: Any) -> Message:
    message = Fields(record)
    if message.get("action") == "topic_created":
        topics.add(message.label("id"))
    text = _text(message)
    number, answered = message.required("id"), message.label("reply_to_message_id")
    topic, answered = (f"/{answered}", "") if answered in topics else ("", answered)  # a message in it is no reply
    chat = re.sub(r"\D", "", message.label("reply_to_peer_id")) or thread
    return Message(
        id=f"{thread}/{number}",
        parent=f"{chat}/{answered}" if answered else None,
        thread=f"{log.name}/{thread}{topic}",
        speaker=message.label("from") or message.label("from_id") or None,
        time=message.seconds("date_unixtime" if message.get("date_unixtime") else "date"),
        text=text,
        source=log.name,
        gap=log.channel_gap,
    )


def _text(message: Fields) -> str:
    """The text of a message, which may consist of plain and formatted parts."""
    if message.get("type") != "message":
        raise LeftOutError(f"type {message.get('type')}")
    if message.get("via_bot"):
        raise LeftOutError("bot")
    if message.values.keys() & {"forwarded_from", "forwarded_from_id"}:  # null if that account was deleted
        raise LeftOutError("forwarded")
    text = message.get("text")
    if isinstance(text, list):
        parts = (part.get("text") if isinstance(part, dict) else part for part in text)
        text = "".join(part for part in parts if isinstance(part, str))
    if not isinstance(text, str):
        raise wrong_type("text", "a text or a list", text)
    if not text:
        raise LeftOutError("no text")
    return text


FORMATS = (
    Format("Telegram", _read, fields=FIELDS, streamed="messages"),
    Format("Telegram", _read, fields=("about", ALL_CHATS), streamed=ALL_CHATS),
    Format("Telegram", _read, fields=("about", "chats")),
)
