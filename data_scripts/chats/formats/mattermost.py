"""Mattermost's bulk export (JSON lines, `mmctl export create`): posts of channels and direct messages, with replies."""

import math

from data_scripts.chats.formats import Format
from data_scripts.chats.messages import ChatLog, Fields, Items, LeftOutError, Message

POSTS = ("post", "direct_post")


def _read(log: ChatLog) -> Items:
    for location, record in log.records.rows({"type", *POSTS}, log.broken):
        fields = Fields(record)
        kind = log.attempt(location, fields.label, "type")
        post = log.attempt(location, fields.object, kind) if kind in POSTS else None
        if post and (channel := log.attempt(location, _channel, log, post)):
            thread, parent = channel, None
            if root := log.attempt(location, _message, log, post, channel):
                yield location, root
                thread, parent = f"{channel}/{root.id}", root.id
            for _, reply in log.objects(location, post.get("replies") or [], "replies"):
                if message := log.attempt(location, _message, log, Fields(reply), channel):
                    yield location, message._replace(thread=thread, parent=parent, gap=math.inf)
                    parent = None  # further replies answer the one before them


def _channel(log: ChatLog, post: Fields) -> str:
    members = post.get("channel_members")
    channel = "/".join(sorted(map(str, members))) if isinstance(members, list) else post.required("channel")
    return f"{log.name}/{post.label('team')}/{channel}"


def _message(log: ChatLog, fields: Fields, channel: str) -> Message:
    if (kind := fields.label("type")).startswith("system_"):
        raise LeftOutError(kind)
    props = fields.get("props")
    if isinstance(props, dict) and {"from_bot", "from_webhook"} & props.keys():
        raise LeftOutError("bot")
    text = fields.written("message")
    user, created = fields.required("user"), fields.required("create_at")
    time = fields.seconds("create_at")  # in milliseconds
    return Message(f"{channel}/{user}/{created}", None, channel, user, time, text, log.name, log.channel_gap)


FORMATS = (
    Format("Mattermost", _read, fields=("type", "version")),
    *(Format("Mattermost", _read, fields=("type", kind), message_fields=("create_at",)) for kind in POSTS),
)
