"""Direct messages in the archive of X."""

import json
from pathlib import Path
from typing import Any

import pytest

from data_scripts.chats.logs import read_log
from data_scripts.chats.messages import CHANNEL_GAP, ChatLog, Message
from data_scripts.files.errors import InputError
from tests.data_scripts.chats.reading import read_items


def read(
    path: Path, conversations: Any, name: str = "direct_messages", gap: float | None = None
) -> tuple[list[Message], ChatLog]:
    path.write_text(f"window.YTD.{name}.part0 = {json.dumps(conversations, indent=2)}", encoding="utf-8")
    return read_items(path, "x", gap=gap)


def conversation(name: str, *messages: Any) -> dict[str, Any]:
    return {"dmConversation": {"conversationId": name, "messages": list(messages)}}


def said(number: int, text: Any, **fields: Any) -> dict[str, Any]:
    created = f"2026-03-01T00:00:0{number}.500Z"
    return {
        "messageCreate": {"id": str(number), "senderId": str(number % 2), "text": text, "createdAt": created, **fields}
    }


@pytest.mark.parametrize("name", ["direct_messages", "direct_message_group"])
def test_messages_are_in_the_order_of_time(tmp_path, name):
    items, log = read(
        tmp_path / "direct-messages.js",
        [conversation("1-2", said(3, "c"), said(2, "b")), conversation("1-3", said(5, "e"))],
        name,
    )
    assert [(item.id, item.thread, item.speaker, item.time, item.text) for item in items] == [
        ("2", "x/1-2", "0", 1772323202.5, "b"),
        ("3", "x/1-2", "1", 1772323203.5, "c"),
        ("5", "x/1-3", "1", 1772323205.5, "e"),
    ]
    assert {(item.parent, item.gap) for item in items} == {(None, CHANNEL_GAP)}
    assert log.detected == {"format": "X (Twitter)"}
    assert read(tmp_path / "d.js", [conversation("1-2", said(3, "c"))], gap=60)[0][0].gap == 60


def test_what_nobody_wrote_and_broken_messages_are_counted(tmp_path):
    joined = {"joinConversation": {"initiatingUserId": "1"}}
    rows = [
        conversation(
            "1-2",
            said(1, "a"),
            joined,
            said(2, " "),
            said(3, None),
            said(4, "d", createdAt="noon"),
            {},
            {"": {}},
            said(6, "f", id=None),
        ),
        conversation("", said(7, "g")),
        {"dmConversation": []},
        conversation("1-3", 5),
        "a",
    ]
    items, log = read(tmp_path / "d.js", rows)
    assert [item.text for item in items] == ["a"]
    assert log.left_out == {"joinConversation": 1, "no text": 1, "empty object": 1, "no name": 1}
    assert log.broken.counts == {"wrong type": 3, "event without a text": 1, "wrong time": 1, "missing field": 2}
    assert any("d.js: conversation 1: message 4: event without a text" in each for each in log.broken.examples)


def test_a_damaged_archive_is_refused(tmp_path):
    path = tmp_path / "d.js"
    path.write_text("window.YTD.direct_messages.part0 = [ {", encoding="utf-8")
    with pytest.raises(InputError, match=r"cannot be read as an archive of X .*; download the archive again"):
        list(read_log(ChatLog(path, "x")))
    path.write_text("window.YTD.tweets.part0 = [ ]", encoding="utf-8")
    with pytest.raises(InputError, match=r"not a file of direct messages; name direct-messages\.js"):
        list(read_log(ChatLog(path, "x")))
