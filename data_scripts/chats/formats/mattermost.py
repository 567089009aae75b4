"""Mattermost's bulk export (JSON lines, `mmctl export create`): posts of channels and direct messages, with replies."""

import math
from dataclasses import dataclass

from data_scripts.chats.formats import Format
from data_scripts.chats.messages import (
    ChatLog,
    Items,
    LeftOutError,
    Message,
    label,
    object_field,
    required_label,
    seconds,
    written,
)
from data_scripts.files.records import Record

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
        kind = log.attempt(location, label, record, "type")
        post = log.attempt(location, object_field, record, kind) if kind in POSTS else None
        if post and (channel := log.attempt(location, _channel, log, post)):
            thread = _Thread(channel, channel, None, log.channel_gap)
            if root := log.attempt(location, _message, log, post, thread):
                yield location, root
                thread = _Thread(channel, f"{channel}/{root.id}", root.id, math.inf)
            thread.gap = math.inf
            for _, reply in log.objects(location, post.get("replies") or [], "replies"):
                if message := log.attempt(location, _message, log, reply, thread):
                    thread.parent = None  # further replies answer the one before them
                    yield location, message


def _channel(log: ChatLog, post: Record) -> str:
    members = post.get("channel_members")
    channel = "/".join(sorted(map(str, members))) if isinstance(members, list) else required_label(post, "channel")
    return f"{log.name}/{label(post, 'team')}/{channel}"


def _message(log: ChatLog, fields: Record, place: _Thread) -> Message:
    if (kind := label(fields, "type")).startswith("system_"):
        raise LeftOutError(kind)
    text = written(fields, "message")
    user, created = required_label(fields, "user"), required_label(fields, "create_at")
    time = seconds(fields["create_at"])  # in milliseconds
    name = f"{place.channel}/{user}/{created}"
    return Message(name, place.parent, place.thread, user, time, text, log.name, place.gap)


FORMATS = (Format("Mattermost", _read, fields=("type", "version")),)
