"""Google Chat's messages.json from Google Takeout: a file for each space or group, and for each direct chat.

A message belongs to a topic. In spaces with threads, a topic is a message and the replies to it; elsewhere each message
is a topic of its own.
"""

import math
from typing import Any

from data_scripts.chats.formats import Format, message_lists
from data_scripts.chats.messages import ChatLog, Fields, Items, LeftOutError, Message, numbered
from modeling_convsim.files.texts import BrokenLineError


def _read(log: ChatLog) -> Items:
    heads: dict[str, str] = {}  # topic -> its first message, until a reply follows
    for location, messages in message_lists(log):
        yield from log.parse_each(numbered(location, messages), lambda message: _parse_message(log, message, heads))


def _parse_message(log: ChatLog, record: Any, heads: dict[str, str]) -> Message:
    message = Fields(record)
    creator = Fields(message.get("creator") or {}, "creator")
    if creator.label("user_type") == "Bot":
        raise LeftOutError("bot")
    text = message.written("text")
    name, topic, time = message.required("message_id"), message.label("topic_id"), _time(message)
    is_reply = topic in heads
    parent = heads[topic] if is_reply else None
    if topic:
        heads[topic] = "" if is_reply else name
    return Message(
        id=name,
        parent=parent or None,  # further replies answer the one before them
        thread=f"{log.name}/{topic}" if is_reply else log.name,
        speaker=creator.label("name") or creator.label("email") or None,
        time=time,
        text=text,
        source=log.name,
        gap=math.inf if is_reply else log.channel_gap,
    )


def _time(message: Fields) -> float:
    """Raises BrokenLineError if there is no date, or one in another language."""
    try:
        return message.seconds("created_date")
    except BrokenLineError as error:
        raise BrokenLineError(
            "wrong time",
            "created_date should be a date in English, such as 'Thursday, November 3, 2016 at 11:59:50 AM UTC'; set "
            "the account's language to English and export again",
        ) from error


FORMATS = (Format("Google Chat", _read, names=("creator", "created_date", "message_id")),)
