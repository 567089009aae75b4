"""Mattermost's bulk export (JSON lines, `mmctl export create`): posts of channels and direct messages, with replies."""

import math
from dataclasses import dataclass

from data_scripts.chats.formats import Format
from data_scripts.chats.messages import ChatLog, Fields, Items, LeftOutError, Message

POSTS = ("post", "direct_post")


@dataclass
class _Thread:
    """Where a message is: its channel, its thread, and the message that it answers."""

    channel: str
    thread: str
    parent: str | None
    gap: float


def _read(log: ChatLog) -> Items:
    for location, record in log.records.rows({"type", *POSTS}, log.broken):
        fields = Fields(record)
        kind = log.attempt(location, fields.label, "type")
        post = log.attempt(location, fields.object, kind) if kind in POSTS else None
        if post and (channel := log.attempt(location, _channel, log, post)):
            thread = _Thread(channel, channel, None, log.channel_gap)
            if root := log.attempt(location, _message, log, post, thread):
                yield location, root
                thread = _Thread(channel, f"{channel}/{root.id}", root.id, math.inf)
            thread.gap = math.inf
            for _, reply in log.objects(location, post.get("replies") or [], "replies"):
                if message := log.attempt(location, _message, log, Fields(reply), thread):
                    thread.parent = None  # further replies answer the one before them
                    yield location, message


def _channel(log: ChatLog, post: Fields) -> str:
    members = post.get("channel_members")
    channel = "/".join(sorted(map(str, members))) if isinstance(members, list) else post.required("channel")
    return f"{log.name}/{post.label('team')}/{channel}"


def _message(log: ChatLog, fields: Fields, place: _Thread) -> Message:
    if (kind := fields.label("type")).startswith("system_"):
        raise LeftOutError(kind)
    props = fields.get("props")
    if isinstance(props, dict) and {"from_bot", "from_webhook"} & props.keys():
        raise LeftOutError("bot")
    text = fields.written("message")
    user, created = fields.required("user"), fields.required("create_at")
    time = fields.seconds("create_at")  # in milliseconds
    name = f"{place.channel}/{user}/{created}"
    return Message(name, place.parent, place.thread, user, time, text, log.name, place.gap)


FORMATS = (
    Format("Mattermost", _read, fields=("type", "version")),
    *(Format("Mattermost", _read, fields=("type", kind), message_fields=("create_at",)) for kind in POSTS),
)
