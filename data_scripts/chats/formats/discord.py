"""DiscordChatExporter's JSON: the messages of a channel in order; a reply may name the message that it answers."""

from collections.abc import Iterable
from functools import partial
from typing import Any

from data_scripts.chats.formats import Format
from data_scripts.chats.messages import ChatLog, Fields, Items, LeftOutError, Message, numbered
from modeling_convsim.files.records import Record

MESSAGE_TYPES = ("Default", "Reply")  # the others are notices: somebody joined, pinned, called
FIELDS = ("guild", "channel", "messages")


def _read(log: ChatLog) -> Items:
    for location, record in log.records.rows(set(FIELDS), log.broken):
        if not (channel := log.attempt(location, _parse_channel, log, record)):
            continue
        source, thread, messages = channel
        parse, message = partial(_parse_message, thread=thread, source=source, log=log), None
        for message in numbered(location, messages):
            yield from log.parse_each([message], parse)
        if not message:
            log.leave_out("channel without messages")


def _parse_channel(log: ChatLog, record: Record) -> tuple[str, str, Iterable[Any]]:
    """The source, the thread and the messages of a channel."""
    fields = Fields(record)
    guild, channel = fields.object("guild"), fields.object("channel")
    source = f"{guild.label('name') or log.name}/{channel.label('name')}"
    return source, channel.required("id"), fields.elements("messages")


def _parse_message(record: Any, thread: str, source: str, log: ChatLog) -> Message:
    message = Fields(record)
    author = message.object("author")
    if author.get("isBot"):
        raise LeftOutError("bot")
    if message.get("type") not in MESSAGE_TYPES:
        raise LeftOutError(f"type {message.get('type')}")
    is_reply = message.get("type") == "Reply"
    reference = message.object("reference") if message.get("reference") else None
    if message.get("forwardedMessage") or (reference and not is_reply):
        raise LeftOutError("forwarded")
    # A reply answers its reference, also if that has been deleted, and not the message before it.
    parent = None
    if is_reply:
        parent = (reference and reference.label("messageId")) or "deleted"
    number = author.label("discriminator").strip("0")  # before 2023, names were unique only with it
    speaker = author.required("name") + (f"#{number}" if number else "")
    time, text = message.seconds("timestamp"), message.text("content")
    return Message(message.required("id"), parent, thread, speaker, time, text, source, log.channel_gap)


FORMATS = (Format("Discord", _read, fields=FIELDS, streamed="messages"),)
