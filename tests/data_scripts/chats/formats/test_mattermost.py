"""Mattermost's bulk export."""

import math
from pathlib import Path
from typing import Any

from data_scripts.chats.messages import CHANNEL_GAP, ChatLog, Message
from tests.data_scripts.chats.reading import read_items


def read(folder: Path, rows: list[Any], gap: float | None = None) -> tuple[list[Message], ChatLog]:
    lines = [
        {"type": "team", "team": {"name": "t"}},
        {"type": "channel", "channel": {"name": "c"}},
        *rows,
    ]  # no version
    return read_items(folder / "m.jsonl", lines, "m", gap=gap)


def said(user: str, text: str, second: int, **fields: Any) -> dict[str, Any]:
    return {"user": user, "message": text, "create_at": 1_600_000_000_000 + 1000 * second, **fields}


def post(user: str, text: str, second: int, **fields: Any) -> dict[str, Any]:
    return {"type": "post", "post": {"team": "t", "channel": "general", **said(user, text, second, **fields)}}


def test_the_first_reply_answers_the_post_and_the_others_the_one_before(tmp_path):
    replies = [said("ben", "yes", 5), said("ann", "thanks", 9)]
    items, log = read(tmp_path, [post("ann", "is it open?", 0, replies=replies), post("ben", "lunch?", 20)])
    place = "m/t/general"
    root = f"{place}/ann/1600000000000"
    assert [(item.id, item.parent, item.thread, item.speaker, item.time, item.text) for item in items] == [
        (root, None, place, "ann", 1_600_000_000, "is it open?"),
        (f"{place}/ben/1600000005000", root, f"{place}/{root}", "ben", 1_600_000_005, "yes"),
        (f"{place}/ann/1600000009000", None, f"{place}/{root}", "ann", 1_600_000_009, "thanks"),
        (f"{place}/ben/1600000020000", None, place, "ben", 1_600_000_020, "lunch?"),
    ]
    assert [item.gap for item in items] == [CHANNEL_GAP, float("inf"), float("inf"), CHANNEL_GAP]
    assert log.detected == {"format": "Mattermost"}
    assert read(tmp_path, [post("ben", "lunch?", 20)], gap=60)[0][0].gap == 60


def test_direct_messages_are_in_a_thread_of_their_members(tmp_path):
    rows = [
        {"type": "direct_post", "direct_post": {"channel_members": members, **said("ann", "hello", second)}}
        for second, members in enumerate([["ben", "ann"], ["ann", "ben"], ["ann", "cleo"]])
    ]
    items, _ = read(tmp_path, rows)
    assert [item.thread for item in items] == ["m//ann/ben", "m//ann/ben", "m//ann/cleo"]


def test_what_nobody_wrote_and_broken_lines_are_counted(tmp_path):
    rows = [
        post("ann", "ann joined", 0, type="system_join_channel"),
        {"type": "version", "version": 1},  # the first line shows the format, but others do, too
        post("bot", "beep", 0, props={"from_bot": "true"}),
        post("ann", " ", 1, replies=[said("ben", "nice picture", 2)]),
        {"type": "post", "post": None},
        post("ann", "when?", 3) | {"post": {"channel": "general", "user": "ann", "message": "a", "create_at": "noon"}},
        {"type": "post", "post": {"channel": "general", "message": "a", "create_at": 1}},
        {"type": "channel", "channel": {"name": "general"}},
        post("ann", "who?", 4, replies={"user": "ben"}),
        post("ann", "why?", 5) | {"post": {"channel": "general", **said("ann", "why?", 5), "create_at": math.inf}},
    ]
    items, log = read(tmp_path, rows)
    assert [(item.text, item.parent, item.thread) for item in items] == [
        ("nice picture", None, "m/t/general"),
        ("who?", None, "m/t/general"),
    ]
    assert log.left_out == {"system_join_channel": 1, "bot": 1, "no text": 1}
    assert log.broken.counts == {"wrong type": 2, "wrong time": 2, "missing field": 1}
    assert "m.jsonl:7: wrong type" in log.broken.examples[0]
    assert any("replies should be a list of objects" in each for each in log.broken.examples)
