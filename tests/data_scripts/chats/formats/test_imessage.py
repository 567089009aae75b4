"""Text files of imessage-exporter."""

from functools import partial

import pytest

from data_scripts.chats.messages import CHANNEL_GAP
from tests.data_scripts.chats.reading import read_items

CHAT = """\
Mar 01, 2026  5:29:42 PM (Read by them after 1 hour, 2 seconds)
Me
is the shop open
 on Sunday?

Mar 01, 2026  5:30:00 PM
+15550100
yes, from eight
Edited 10 seconds later: yes, from nine
on
Edited 1 minute, 3 seconds later: yes, from ten
Tapbacks:
    Loved by Me

    Mar 01, 2026  5:31:00 PM
    Me
    great

Mar 01, 2026  5:31:00 PM (Delivered after 2 seconds)
Me
great
This message responded to an earlier message.

Mar 01, 2026 10:31:00 PM You named the conversation Shop

Mar 01, 2026 10:32:00 PM
Me
This message was deleted from the conversation!
Hello

Mar 01, 2026 10:33:00 PM
Me
You unsent this message part 1 hour, 49 seconds after sending!

Mar 01, 2026 10:34:00 PM
Me
Edited 10 seconds later: is what it said

Mar 02, 2026 12:00:05 AM
+15550100
/Users/me/Library/Messages/Attachments/a/b/photo.heic

"""


read = partial(read_items, name="i")


@pytest.mark.parametrize("mark", ["", "\ufeff", "\n"])
def test_messages_have_their_sender_time_and_text(tmp_path, mark):
    items, log = read(tmp_path / "chat.txt", mark + CHAT)
    start = 1772386182  # 2026-03-01 17:29:42, UTC
    assert [(item.speaker, item.time, item.text) for item in items] == [
        ("Me", start, "is the shop open\non Sunday?"),
        ("+15550100", start + 18, "yes, from ten"),
        ("Me", start + 78, "great"),
        ("Me", start + 18258, "Edited 10 seconds later: is what it said"),
    ]
    assert {(item.thread, item.parent, item.gap) for item in items} == {("i", None, CHANNEL_GAP)}
    assert log.detected == {"format": "iMessage"}
    assert log.left_out == {"reaction or repeated reply": 4, "notice": 1, "deleted": 1, "no text": 2}
    assert not log.broken.counts
    assert read(tmp_path / "chat.txt", CHAT, gap=60)[0][0].gap == 60


def test_broken_messages_are_counted(tmp_path):
    text = (
        CHAT
        + "Mar 41, 2026  5:31:00 PM\nMe\nwhen?\n\nMar 02, 2026  5:31:00 PM\n\nMar 02, 2026  5:32:00 PM\nMe\nwhat?\n"
    )
    items, log = read(tmp_path / "chat.txt", text)
    assert [item.text for item in items[4:]] == ["what?"] and log.left_out["no sender"] == 1
    assert log.broken.counts == {"wrong time": 1} and "chat.txt:43: wrong time" in log.broken.examples[0]
    content = CHAT.encode().replace(b"from ten", b"from \xff ten")
    items, log = read(tmp_path / "chat.txt", content, encoding="utf-8")
    assert [item.text for item in items[:3]] == ["is the shop open\non Sunday?", "yes, from nine\non", "great"]
    assert log.broken.counts == {"not UTF-8": 1} and log.left_out["no text"] == 2
