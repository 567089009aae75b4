"""Element's JSON export of a room of Matrix: a list of events, among them edits, reactions and redactions.

An edit replaces the text of the event that it names. A reply names the event that it answers, and may begin with a
quotation of it.
"""

import math
import re
from typing import Any

from data_scripts.chats.formats import MESSAGES, Format, message_lists
from data_scripts.chats.messages import ChatLog, Fields, Items, LeftOutError, Message
from modeling_convsim.files.records import Record

MESSAGE, TEXTS = "m.room.message", ("m.text", "m.emote")
_QUOTATION = re.compile(r"(?:> ?[^\n]*\n)+\n?")


def _read(log: ChatLog) -> Items:
    for location, listed in message_lists(log):
        # In memory, because an edit comes after what it replaces.
        events = log.objects(location, list(listed), MESSAGES)
        room = _Room(log.name, log.channel_gap, [event for _, event in events])
        yield from log.parse_each(events, room.parse)


class _Room:
    """Parses the events of a room in their order."""

    def __init__(self, name: str, gap: float, events: list[Record]) -> None:
        self.name, self.gap = name, gap
        self.redacted = {str(each.get("redacts") or _dict(each, "content").get("redacts")) for each in events}
        self.edits: dict[tuple[str, str], Any] = {}  # (event, its sender) -> its last content
        for event in sorted(events, key=lambda each: str(each.get("origin_server_ts"))):
            if (content := _dict(event, "content")) and _relation(event).get("rel_type") == "m.replace":
                key = str(_relation(event).get("event_id")), str(event.get("sender"))
                if str(event.get("event_id")) not in self.redacted:
                    self.edits[key] = content.get("m.new_content")
        self.answered: set[str] = set()  # first events of threads that have an answer

    def parse(self, event: Record) -> Message:
        fields = Fields(event)
        if (kind := fields.label("type")) != MESSAGE:
            raise LeftOutError(f"type {kind}")
        name, sender = fields.required("event_id"), fields.label("sender")
        content, relation = fields.object("content").values, _relation(event)
        if relation.get("rel_type") == "m.replace":
            raise LeftOutError("edit")
        if not content or name in self.redacted:
            raise LeftOutError("deleted")
        bundled = _dict(_dict(_dict(event, "unsigned"), "m.relations"), "m.replace")
        edit = self.edits.get((name, sender)) or _dict(bundled, "content").get("m.new_content")
        reply = Fields(_dict(relation, "m.in_reply_to")).label("event_id")
        text = _text(edit if isinstance(edit, dict) else content, bool(reply))
        root = Fields(relation).label("event_id") if relation.get("rel_type") == "m.thread" else ""
        if root and (not reply or relation.get("is_falling_back")):  # it answers the message before it in the thread
            reply = "" if root in self.answered else root
            self.answered.add(root)
        time = fields.seconds("origin_server_ts")
        thread, gap = (f"{self.name}/{root}", math.inf) if root else (self.name, self.gap)
        return Message(name, reply or None, thread, sender or None, time, text, self.name, gap)


def _text(content: Record, is_reply: bool) -> str:
    fields = Fields(content)
    if (kind := fields.label("msgtype")) not in TEXTS:
        raise LeftOutError("bot" if kind == "m.notice" else f"type {kind}")
    text = fields.text("body")
    text = _QUOTATION.sub("", text, count=1) if is_reply and _QUOTATION.match(text) else text
    if not text.strip():
        raise LeftOutError("no text")
    return text


def _relation(event: Record) -> Record:
    """What relates an event to another one: an edit, a thread or a reply."""
    return _dict(_dict(event, "content"), "m.relates_to")


def _dict(values: Record, name: str) -> Record:
    """A field that is an object; an empty one if it is missing or something else."""
    value = values.get(name)
    return value if isinstance(value, dict) else {}


FORMATS = (Format("Matrix (Element)", _read, names=("origin_server_ts", "event_id")),)
