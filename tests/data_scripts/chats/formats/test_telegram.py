from functools import partial
from typing import Any

import pytest

from data_scripts.chats.messages import CHANNEL_GAP, Message
from tests.data_scripts.chats.reading import read_items

read = partial(read_items, name="result", indent=1)


def message(number: int, text: Any, speaker: str | None = "Ann", **fields: Any) -> dict[str, Any]:
    default = {
        "id": number,
        "type": "message",
        "date": "2026-03-01T10:00:00",
        "date_unixtime": str(1772359200 + number),
    }
    return default | {"from": speaker, "from_id": "user7", "text": text} | fields


def chat(number: int, *messages: Any) -> dict[str, Any]:
    return {"name": "Ann", "type": "personal_chat", "id": number, "messages": list(messages)}


MESSAGES = (
    {"id": 1, "type": "service", "action": "phone_call", "date": "2026-03-01T10:00:00", "text": ""},
    message(2, "Hello"),
    message(3, ["see ", {"type": "link", "text": "https://a.b"}, "\nsoon"], "Ben", reply_to_message_id=2),
    message(4, "", photo="(File not included)"),
    message(5, "[gif]", via_bot="@gif"),
    message(6, "ok", None, date_unixtime=None),
)


@pytest.mark.parametrize("indent", [1, None])
def test_a_chat_is_read_with_its_replies(tmp_path, indent):
    items, log = read(tmp_path / "result.json", chat(12, *MESSAGES), indent=indent)
    assert items == [
        Message("12/2", None, "result/12", "Ann", 1772359202, "Hello", "result", CHANNEL_GAP),
        Message("12/3", "12/2", "result/12", "Ben", 1772359203, "see https://a.b\nsoon", "result", CHANNEL_GAP),
        Message("12/6", None, "result/12", "user7", 1772359200, "ok", "result", CHANNEL_GAP),
    ]
    assert log.left_out == {"type service": 1, "no text": 1, "bot": 1}
    assert log.detected == {"format": "Telegram"} and not log.broken.counts


@pytest.mark.parametrize("indent", [1, None])
@pytest.mark.parametrize("before", [{}, {"personal_information": {"user_id": 7}, "contacts": {"list": []}}])
def test_all_chats_of_a_user_are_read(tmp_path, indent, before):
    chats = {"about": "…", "list": [chat(12, message(2, "a")), chat(13, message(2, "b"))]}
    items, _ = read(tmp_path / "result.json", {"about": "…", **before, "chats": chats, "left_chats": {}}, indent=indent)
    assert [(item.id, item.thread, item.text) for item in items] == [
        ("12/2", "result/12", "a"),
        ("13/2", "result/13", "b"),
    ]


def test_a_reply_to_a_message_of_another_chat_is_not_joined_to_the_same_number(tmp_path):
    chats = [
        chat(
            7,
            message(5, "Where do we park?"),
            message(6, "Behind the barn.", "Ben"),
            message(7, "The invoice is 40 euros.", "Cid", reply_to_message_id=5, reply_to_peer_id="channel99"),
            message(8, "[a picture]", "Cid", forwarded_from=None, forwarded_from_id="user5"),
            message(9, "So it is said.", "Cid", forwarded_from="Eva"),
            message(10, "To the one elsewhere.", "Cid", reply_to_message_id=3, reply_to_peer_id="user12"),
        ),
        chat(12, message(3, "Which one?")),
    ]
    items, log = read(tmp_path / "result.json", {"about": "", "chats": {"about": "", "list": chats}})
    assert [(item.id, item.parent) for item in items] == [
        ("7/5", None), ("7/6", None), ("7/7", "99/5"), ("7/10", "12/3"), ("12/3", None),
    ]  # fmt: skip
    assert log.left_out == {"forwarded": 2}


def test_messages_of_a_topic_answer_each_other(tmp_path):
    topic = {"id": 2, "type": "service", "action": "topic_created", "title": "Parking", "text": ""}
    said = (
        message(3, "Where?", reply_to_message_id=2),
        message(4, "elsewhere", "Cid"),
        message(5, "There.", "Ben", reply_to_message_id=2),
        message(6, "Why?", reply_to_message_id=5),
    )
    items, _ = read(tmp_path / "result.json", chat(12, topic, *said))
    assert [(item.id, item.parent, item.thread) for item in items] == [
        ("12/3", None, "result/12/2"), ("12/4", None, "result/12"), ("12/5", None, "result/12/2"),
        ("12/6", "12/5", "result/12"),
    ]  # fmt: skip


def test_broken_messages_are_counted_and_the_others_are_read(tmp_path):
    broken = (3, message(2, 5), message(3, "a", date_unixtime="soon"), message(0, "a") | {"id": None})
    items, log = read(tmp_path / "result.json", chat(12, *broken, message(4, "b")))
    assert [item.text for item in items] == ["b"]
    assert log.broken.counts == {"wrong type": 2, "wrong time": 1, "missing field": 1}
    assert log.broken.examples[0].endswith(
        "result.json: message 1: wrong type (a message should be an object, found int)"
    )


@pytest.mark.parametrize("content", [{"name": "a", "type": "b", "id": 1, "messages": "x"}, {"about": "", "chats": {}}])
def test_what_holds_no_messages_is_counted(tmp_path, content):
    items, log = read(tmp_path / "result.json", content, indent=None)
    assert not items and log.broken.counts == {"wrong type": 1}
