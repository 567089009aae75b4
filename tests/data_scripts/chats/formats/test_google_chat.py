import json
import math
from pathlib import Path
from typing import Any

import pytest

from data_scripts.chats.conversations import store_logs
from data_scripts.chats.messages import CHANNEL_GAP, ChatLog, Message
from data_scripts.clean.filters import Filters
from modeling_convsim.files.errors import InputError
from tests.data_scripts.chats.formats.test_messenger import in_bytes
from tests.data_scripts.chats.reading import read_items

DATE = "Thursday, November 3, 2016 at 11:59:{:02}\u202fAM UTC"
NOON = 1478174340  # 11:59:00


def message(seconds: int, topic: str, text: str | None, name: str | None = "Ann", **fields: Any) -> dict[str, Any]:
    creator = {"name": name, "email": "a@b.c", "user_type": "Human"}
    content = {} if text is None else {"text": text}
    ids = {"topic_id": topic, "message_id": f"group/{topic}/{seconds}"}
    return {"creator": creator, "created_date": DATE.format(seconds), **content, **ids} | fields


def read(path: Path, *messages: Any, indent: int | None = 2) -> tuple[list, ChatLog]:
    content = json.dumps({"messages": list(messages)}, indent=indent, ensure_ascii=False)
    return read_items(path, content, "messages")


@pytest.mark.parametrize("indent", [2, None])
@pytest.mark.parametrize("name", ["messages.json", "messages.json.gz"])
def test_messages_follow_each_other_and_replies_their_topic(tmp_path, indent, name):
    messages = (
        message(1, "t", "Schön"), message(2, "u", "b"), message(3, "t", "c", "Ben"), message(4, "t", "d", None),
    )  # fmt: skip
    items, log = read(tmp_path / name, *messages, indent=indent)
    assert items == [
        Message("group/t/1", None, "messages", "Ann", NOON + 1, "Schön", "messages", CHANNEL_GAP),
        Message("group/u/2", None, "messages", "Ann", NOON + 2, "b", "messages", CHANNEL_GAP),
        Message("group/t/3", "group/t/1", "messages/t", "Ben", NOON + 3, "c", "messages", math.inf),
        Message("group/t/4", None, "messages/t", "a@b.c", NOON + 4, "d", "messages", math.inf),
    ]
    assert log.detected == {"format": "Google Chat"} and not log.broken.counts and not log.left_out


def test_bots_and_messages_without_a_text_are_left_out(tmp_path):
    bot = {"creator": {"name": "Meet", "user_type": "Bot"}}
    deleted = {"message_state": "DELETED", "topic_id": "b"}
    items, log = read(tmp_path / "m.json", deleted, message(1, "a", "call", **bot), message(3, "c", in_bytes("ü")))
    assert [item.text for item in items] == [in_bytes("ü")] and log.left_out == {"bot": 1, "no text": 1}


def test_broken_messages_are_counted_and_the_others_are_read(tmp_path):
    date = {"created_date": "Donnerstag, 3. November 2016 um 11:59:50 UTC"}
    broken = (
        message(1, "a", "x", **date),
        message(2, "b", "x", creator="Ann"),
        5,
        message(3, "c", "x", message_id=None),
    )
    items, log = read(tmp_path / "m.json", message(0, "z", "first"), *broken)
    assert [item.text for item in items] == ["first"]
    assert log.broken.counts == {"wrong time": 1, "wrong type": 2, "missing field": 1}
    assert any("set the account's language to English and export again" in each for each in log.broken.examples)


def test_a_file_that_ends_too_early_is_refused(tmp_path):
    content = json.dumps({"messages": [message(1, "a", "x"), message(2, "b", "y")]}, indent=2)
    (tmp_path / "m.json").write_text(content[:-50])
    log = ChatLog(tmp_path / "m.json", "m")
    with pytest.raises(InputError, match=r"not JSON, after \d complete records .*; export or download it again"):
        store_logs([log], Filters("chat"), tmp_path)


def test_lists_of_other_messages_are_not_google_chat(tmp_path):
    items, log = read(tmp_path / "m.json", {"role": "user", "content": "my creator"})
    assert [item.text for item in items] == ["my creator"] and log.detected == {"format": "messages with roles"}
