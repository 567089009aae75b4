import json
from functools import partial
from typing import Any

import pytest

from data_scripts.chats.conversations import store_logs
from data_scripts.chats.messages import CHANNEL_GAP, ChatLog, Message
from data_scripts.clean.filters import Filters
from modeling_convsim.files.errors import InputError
from tests.data_scripts.chats.reading import read_items

START = 1772359200


read = partial(read_items, name="message_1", indent=2)


def in_bytes(text: str) -> str:
    """Each byte of the text as a character, which is how Facebook writes it."""
    return text.encode("utf-8").decode("latin-1")


def plain(*messages: Any) -> dict[str, Any]:
    chat = {"participants": [{"name": "Ann"}], "messages": list(messages), "title": "Ann"}
    return chat | {"is_still_participant": True, "thread_path": "inbox/ann_1", "magic_words": []}


def sent(seconds: int, text: str, speaker: str = "Ann", **fields: Any) -> dict[str, Any]:
    return {"sender_name": speaker, "timestamp_ms": (START + seconds) * 1000, "content": in_bytes(text)} | fields


NOTICES = """
Ben missed your call.
Ben changed the theme to Lo-Fi.
Mariana changed the theme to Spain 🇪🇸
Zoë set the nickname for Ben to B.
Ben named the group Garden.
Zoë added Cid to the group.
Ben pinned a message.
The video chat ended.
Ben hat das Thema zu „Lo-Fi“ geändert.
Ben a épinglé un message.
Ben cambió el apodo de Zoë a Z.
Ben sent a photo.
Hat mit 😂 auf eine Nachricht reagiert
Ben a envoyé une pièce jointe.
Curtiu uma mensagem
"""


@pytest.mark.parametrize("indent", [2, None])
def test_a_chat_is_read_from_its_oldest_message_with_its_characters_restored(tmp_path, indent):
    messages = (sent(20, "Schön 😊", in_bytes("Jürgen")), sent(10, "¿Qué tal?"), sent(10, "first"))
    items, log = read(tmp_path / "message_1.json", plain(*messages), indent=indent)
    assert items == [  # in all files of a chat, the source and the thread are its path
        Message("message_1/1/1", None, "inbox/ann_1", "Ann", START + 10, "first", "inbox/ann_1", CHANNEL_GAP),
        Message("message_1/1/2", None, "inbox/ann_1", "Ann", START + 10, "¿Qué tal?", "inbox/ann_1", CHANNEL_GAP),
        Message("message_1/1/3", None, "inbox/ann_1", "Jürgen", START + 20, "Schön 😊", "inbox/ann_1", CHANNEL_GAP),
    ]
    assert log.detected == {"format": "Messenger or Instagram"} and not log.broken.counts


def test_a_text_whose_characters_are_right_stays(tmp_path):
    items, _ = read(tmp_path / "m.json", plain(sent(1, "") | {"content": "Café – ok"}, sent(2, "") | {"content": "é"}))
    assert [item.text for item in items] == ["é", "Café – ok"]


def test_what_nobody_wrote_is_left_out(tmp_path):
    messages = (
        sent(1, "", photos=[{"uri": "a.jpg"}]),
        sent(2, "gone", is_unsent=True),
        sent(3, "Ann called you.", type="Call"),
        sent(4, "Liked a message"),
        *(sent(number, notice) for number, notice in enumerate(NOTICES.strip().splitlines(), start=10)),
        sent(5, "Reacted 😂 to your message "),
        sent(6, "Ann Lee sent an attachment."),
        sent(7, "Ann called you.", call_duration=5),
        sent(8, "Ann left the group."),
    )
    items, log = read(tmp_path / "m.json", plain(*messages))
    assert not items and log.left_out == {"no text": 1, "deleted": 1, "notice": 21}


@pytest.mark.parametrize(
    "text",
    [
        "I sent an attachment. Did you get it?",
        "Ben left the group.",  # Ann says so
        "She named the group Garden.",
        "who added him to the group?",
        "You missed a great party.",
        "The video call ended badly.",
    ],
)
def test_what_resembles_a_notice_stays(tmp_path, text):
    chat = plain(sent(1, text)) | {"participants": [{"name": "Ann"}, {"name": "Ben Lee"}, None]}
    assert [item.text for item in read(tmp_path / "m.json", chat)[0]] == [text]


def test_an_edited_message_has_its_newest_text_at_its_first_time(tmp_path):
    messages = [
        sent(0, "Is it open?"), sent(10, "Yes, until seven.", "Ben"), sent(15, "Really.", "Ben"), sent(20, "Great"),
        sent(40, "Yes, until eight. (edited)", "Ben"), sent(50, "Yes, until 8 o'clock. (edited)", "Ben"),
        sent(52, "Is it open today? (edited)"), sent(54, "Yes, until 8 o'clock! (edited)"),
        sent(56, "Really, I would not know that of all shops, sorry. (edited)", "Ben"),
        sent(60, "We are closed on Monday (edited)", "Ben"), sent(5000, "Yes, until nine. (edited)", "Ben"),
    ]  # fmt: skip
    items, log = read(tmp_path / "m.json", plain(*reversed(messages)))
    assert [(item.time - START, item.text) for item in items] == [
        (0, "Is it open today?"), (10, "Yes, until 8 o'clock."),
        (15, "Really, I would not know that of all shops, sorry."), (20, "Great"), (54, "Yes, until 8 o'clock!"),
        (60, "We are closed on Monday"), (5000, "Yes, until nine."),
    ]  # fmt: skip
    assert log.left_out == {"older version": 4}


def test_the_file_of_an_encrypted_chat_is_read_in_its_order_as_it_is(tmp_path):
    message = {"isUnsent": False, "media": [], "reactions": [], "senderName": "Jürgen", "type": "text"}
    messages = [
        message | {"text": in_bytes("ü"), "timestamp": START * 1000},
        message | {"text": "b", "timestamp": START * 1000},
    ]
    messages += [message | {"text": "x", "isUnsent": True, "timestamp": START * 1000, "type": "placeholder"}]
    chat = {"participants": ["Ann", "Jürgen"], "threadName": "Ann_1", "messages": messages}
    items, log = read(tmp_path / "m.json", chat)
    assert [item.text for item in items] == [in_bytes("ü"), "b"] and log.left_out == {"deleted": 1}
    assert items[0].speaker == "Jürgen" and items[0].time == START
    assert log.detected == {"format": "Messenger, encrypted chat"}


def test_broken_messages_are_counted_and_the_others_are_read(tmp_path):
    messages = (sent(1, "a", timestamp_ms="soon"), sent(2, "b", content=["b"]), sent(3, "c"))
    items, log = read(tmp_path / "m.json", plain(*messages))
    assert [item.text for item in items] == ["c"]
    assert log.broken.counts == {"wrong time": 1, "wrong type": 1}


def test_a_broken_chat_is_refused_with_its_first_fault(tmp_path):
    (tmp_path / "m.json").write_text(json.dumps(plain() | {"messages": "none"}, indent=1))
    log = ChatLog(tmp_path / "m.json", "m")
    with pytest.raises(
        InputError, match=r"contains no messages .*wrong type \(messages should be a list of objects\); it was read as "
    ):
        store_logs([log], Filters("chat"), tmp_path)
