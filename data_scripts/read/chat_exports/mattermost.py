"""Mattermost's bulk export (JSON lines, `mmctl export create`): posts of channels and direct messages, with replies."""

import math
from collections.abc import Iterator

from data_scripts.read.chat_exports import RecordExport
from data_scripts.read.files import BrokenLineError
from data_scripts.read.messages import (
    CHANNEL_GAP,
    ChatLog,
    Items,
    Message,
    label,
    list_of_objects,
    object_field,
    required_label,
    seconds,
)
from data_scripts.read.records import Record, Records

POSTS = ("post", "direct_post")


def _read(log: ChatLog, records: Records) -> Items:
    for location, record in records.rows({"type", *POSTS}):
        try:
            kind = label(record, "type")
            if kind in POSTS:
                for message in _post(log, object_field(record, kind)):
                    yield location, message
        except BrokenLineError as error:
            log.broken.add(error.args[0], location, error.args[1])


def _post(log: ChatLog, post: Record) -> Iterator[Message]:
    """The messages of a post and of the replies to it, of which the first answers it."""
    members = post.get("channel_members")
    channel = "/".join(sorted(map(str, members))) if isinstance(members, list) else required_label(post, "channel")
    place = f"{log.name}/{label(post, 'team')}/{channel}"
    gap = CHANNEL_GAP if log.gap is None else log.gap
    root = _message(log, post, place, place, None, gap)
    if root:
        yield root
    parent, thread = (root.id, f"{place}/{root.id}") if root else (None, place)
    for reply in list_of_objects(post.get("replies") or [], "replies"):
        message = _message(log, reply, place, thread, parent, math.inf)
        if message:
            parent = None  # further replies answer the one before them
            yield message


def _message(log: ChatLog, fields: Record, place: str, thread: str, parent: str | None, gap: float) -> Message | None:
    """A message, or None if nobody wrote a text, which is counted."""
    if (kind := label(fields, "type")).startswith("system_"):
        log.leave_out(kind)
        return None
    text = label(fields, "message")
    if not text.strip():
        log.leave_out("no text")
        return None
    user, created = required_label(fields, "user"), required_label(fields, "create_at")
    time = seconds(fields["create_at"])  # in milliseconds
    return Message(f"{place}/{user}/{created}", parent, thread, user, time, text, log.name, gap)


EXPORTS = (RecordExport("Mattermost", ("type", "version"), _read, has_pauses=True),)
