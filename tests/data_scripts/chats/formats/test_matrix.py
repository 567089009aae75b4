import math
from pathlib import Path
from typing import Any

import pytest

from data_scripts.chats.messages import CHANNEL_GAP, Message
from tests.data_scripts.chats.reading import read_items


def event(number: int, sender: str, kind: str = "m.room.message", **content: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "sender": f"@{sender}:example.org",
        "event_id": f"$e{number}",
        "origin_server_ts": 1772359200000 + number * 1000,
        "content": content,
    }


def text(number: int, sender: str, body: str, **relation: Any) -> dict[str, Any]:
    related = {"m.relates_to": relation} if relation else {}
    return event(number, sender, msgtype="m.text", body=body, **related)


def edit(number: int, sender: str, edited: int, body: str) -> dict[str, Any]:
    new = {"m.new_content": {"msgtype": "m.text", "body": body}}
    return event(
        number, sender, msgtype="m.text", body=f"* {body}", **new,
        **{"m.relates_to": {"rel_type": "m.replace", "event_id": f"$e{edited}"}},
    )  # fmt: skip


def to(number: int) -> dict[str, Any]:
    return {"m.in_reply_to": {"event_id": f"$e{number}"}}


def message(number: int, sender: str, body: str, parent: int | None = None, root: int | None = None) -> Message:
    thread, gap = (f"c/$e{root}", math.inf) if root else ("c", CHANNEL_GAP)
    answered = f"$e{parent}" if parent else None
    return Message(f"$e{number}", answered, thread, f"@{sender}:example.org", 1772359200 + number, body, "c", gap)


EVENTS = [
    event(1, "ann", "m.room.member", membership="join"),
    text(2, "ann", "Is the gte open?"),
    text(3, "cid", "Where do we park?"),
    edit(4, "ann", 2, "Is the gate open?"),
    edit(5, "cid", 2, "Not Cid's."),
    event(6, "ben", "m.reaction", **{"m.relates_to": {"rel_type": "m.annotation", "event_id": "$e2", "key": "👍"}}),
    text(7, "ben", "> <@ann:example.org> Is the gate open?\n> really?\n\nYes, until eight.", **to(2)),
    text(8, "ben", "> no reply\n\nbut a quotation"),
    event(9, "ben", msgtype="m.image", body="map.png"),
    event(10, "bot", msgtype="m.notice", body="reminder"),
    text(11, "ben", "Behind the bran.", **to(3)) | {
        "unsigned": {"m.relations": {"m.replace": edit(12, "ben", 11, "Behind the barn.")}}
    },
    text(13, "ann", "oops"),
    event(14, "ann", "m.room.redaction", reason="") | {"redacts": "$e13"},
    event(15, "ann") | {"unsigned": {"redacted_because": {}}},
    text(16, "ben", "In a thread?", rel_type="m.thread", event_id="$e3", is_falling_back=True, **to(3)),
    text(17, "ann", "So it is.", rel_type="m.thread", event_id="$e3", is_falling_back=True, **to(16)),
    text(18, "cid", "To Ben.", rel_type="m.thread", event_id="$e3", is_falling_back=False, **to(16)),
    None,
    text(19, "ann", "") | {"content": {"msgtype": "m.text", "body": 7}},
]  # fmt: skip
HEAD = {"room_name": "Farm", "room_creator": "Ann", "topic": "", "export_date": "3/1/2026", "exported_by": "Ann"}


@pytest.mark.parametrize("indent", [None, 2])
@pytest.mark.parametrize("head", [HEAD, {}])
def test_edits_replace_and_replies_name_what_they_answer(tmp_path: Path, head: dict[str, str], indent: int | None):
    items, log = read_items(tmp_path / "export.json", head | {"messages": EVENTS}, indent=indent)
    assert items == [
        message(2, "ann", "Is the gate open?"),
        message(3, "cid", "Where do we park?"),
        message(7, "ben", "Yes, until eight.", 2),
        message(8, "ben", "> no reply\n\nbut a quotation"),
        message(11, "ben", "Behind the barn.", 3),
        message(16, "ben", "In a thread?", 3, root=3),
        message(17, "ann", "So it is.", None, root=3),
        message(18, "cid", "To Ben.", 16, root=3),
    ]
    assert log.left_out == {
        "type m.room.member": 1, "edit": 2, "type m.reaction": 1, "type m.image": 1, "bot": 1, "deleted": 2,
        "type m.room.redaction": 1,
    }  # fmt: skip
    assert log.broken.counts == {"wrong type": 2} and log.detected == {"format": "Matrix (Element)"}
