import zipfile
from datetime import UTC, datetime
from functools import partial

import pytest

from data_scripts.chats.messages import CHANNEL_GAP, Message
from modeling_convsim.files.errors import InputError
from tests.data_scripts.chats.reading import read_items

ANDROID = """\
13/03/2026, 18:05 - Messages and calls are end-to-end encrypted. Tap to learn more.
13/03/2026, 18:05 - Ann: Hello: who
is there?

13/03/2026, 18:06 - +49 151 1234567: Me
13/03/2026, 18:07 - Ann added Cid
13/03/2026, 18:07 - Ann: <Media omitted>
13/03/2026, 18:08 - Ann: IMG-20260313-WA0001.jpg (file attached)
our garden
13/03/2026, 18:08 - Ann: \u200eIMG-20260313-WA0002.jpg (Datei angehängt)
13/03/2026, 18:09 - Ann: You deleted this message
13/03/2026, 18:09 - Ben: null
13/03/2026, 18:09 - Ben: so it is \u200e<This message was edited>
13/03/2026, 18:10 - Ann changed the subject from “A: B” to “C”
"""
IPHONE = """\
\u200e[13.03.26, 18:05:09] Garden: \u200eMessages and calls are end-to-end encrypted.
[13.03.26, 18:05:10] Ann: Hello
[13.03.26, 18:06:11] ~\u202fBen Abbot: Hi [all]
of you
\u200e[13.03.26, 18:07:12] Ann: \u200eimage omitted
[13.03.26, 18:07:13] \u202a+49 151 1234567\u202c: our garden \u200e<attached: 00000012-PHOTO.jpg>
"""


read = partial(read_items, name="chat")


def at(*parts: int) -> float:
    return datetime(2026, 3, 13, *parts, tzinfo=UTC).timestamp()


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_an_export_of_android_is_read_without_what_whatsapp_wrote(tmp_path, ending):
    items, log = read(tmp_path / "WhatsApp Chat with Ben.txt", ANDROID.replace("\n", ending))
    assert items == [
        Message("message 2", None, "chat", "Ann", at(18, 5), "Hello: who\nis there?", "chat", CHANNEL_GAP),
        Message("message 3", None, "chat", "+49 151 1234567", at(18, 6), "Me", "chat", CHANNEL_GAP),
        Message("message 6", None, "chat", "Ann", at(18, 8), "our garden", "chat", CHANNEL_GAP),
        Message("message 10", None, "chat", "Ben", at(18, 9), "so it is", "chat", CHANNEL_GAP),
    ]
    assert log.left_out == {"notice": 3, "notice or media": 3, "deleted": 1}
    assert log.detected == {"format": "WhatsApp", "dates": "DMY"} and not log.broken.counts


@pytest.mark.parametrize("name", ["_chat.txt", "_chat.txt.gz", "chat.zip", "folder.zip"])
def test_an_export_of_an_iphone_is_read_alone_or_in_its_zip(tmp_path, name):
    path = tmp_path / name
    if name.endswith(".zip"):
        with zipfile.ZipFile(path, "w") as archive:
            folder = "WhatsApp Chat - Ben/" if name == "folder.zip" else ""
            archive.writestr(f"{folder}_chat.txt", IPHONE)
            archive.writestr(f"{folder}00000012-PHOTO.jpg", b"")
            archive.writestr(f"{folder}00000013-notes.txt", b"sent in the chat")
            archive.writestr(f"__MACOSX/{folder}._chat.txt", b"\0")
    items, log = read(path, None if name.endswith(".zip") else IPHONE, gap=60.0)
    assert items == [
        Message("message 2", None, "chat", "Ann", at(18, 5, 10), "Hello", "chat", 60),
        Message("message 3", None, "chat", "Ben Abbot", at(18, 6, 11), "Hi [all]\nof you", "chat", 60),
        Message("message 5", None, "chat", "+49 151 1234567", at(18, 7, 13), "our garden", "chat", 60),
    ]
    assert log.left_out == {"notice or media": 2} and not log.broken.counts


@pytest.mark.parametrize(
    ("line", "time"),
    [
        ("3/13/26, 6:05\u202fPM - ", at(18, 5)),
        ("13/3/26 6:05 p. m. - ", at(18, 5)),
        ("13/03/2026 à 18:05 - ", at(18, 5)),
        ("[2026/3/13 18:05:09] ", at(18, 5, 9)),
        ("2026. 03. 13. 18:05 - ", at(18, 5)),
        ("13.3.2026 klo 18.05 - ", at(18, 5)),
        ("\u200e[2026/3/13 上午12:05:09] ", at(0, 5, 9)),
        ("[13/3/2569 24:05:09]", at(0, 5, 9)),
        ("13/3/2569 BE, 18:05 น. - ", at(18, 5)),
        ("\u200f١٣\u200f/٣\u200f/٢٠٢٦، ٦:٠٥ م - ", at(18, 5)),
    ],
)
def test_the_dates_of_other_regions_are_read(tmp_path, line, time):
    items, _ = read(tmp_path / "c.txt", f"{line}Ann: Hello\n")
    assert [(item.speaker, item.time, item.text) for item in items] == [("Ann", time, "Hello")]


def test_the_order_of_day_and_month_is_asked_for_if_no_message_shows_it(tmp_path):
    path, text = tmp_path / "c.txt", "01/03/2026, 18:05 - Ann: Hello\n02/03/2026, 18:05 - Ben: Hi\n"
    with pytest.raises(InputError, match=r"c.txt: no date shows .* 01/03/2026, 18:05; state it with --date_order"):
        read(path, text)
    assert read(path, date_order="MDY")[0][0].time == datetime(2026, 1, 3, 18, 5, tzinfo=UTC).timestamp()


def test_broken_lines_are_counted(tmp_path):
    lines = ["13.03.26, 18:05 - Ann: a", "b", "c", "14.13.26, 18:05 - Ann: d", "13.03.26, 18:06 - Ben: caf\xe9 ü"]
    content = "\n".join(lines).encode("cp1252") + "\n13.03.26, 18:06 - Ben: süß\nü\n".encode()
    items, log = read(tmp_path / "c.txt", content)
    assert [item.text for item in items] == ["a\nb\nc", "süß\nü"]
    assert log.broken.counts == {"not UTF-8": 1, "wrong time": 1}


def test_a_broken_line_before_the_date_that_shows_the_order_is_passed_over(tmp_path):
    lines = [b"01/03/2026, 18:05 - Ann: caf\xe9 \xc3\xbc", b"03/13/2026, 18:05 - Ben: Hi", "ü".encode()]
    items, log = read(tmp_path / "c.txt", b"\n".join(lines))
    assert [(item.text, item.time) for item in items] == [("Hi\nü", at(18, 5))]
    assert log.broken.counts == {"not UTF-8": 1}


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (
            "Ann: IMG-1.jpg (file attached)\nnotes.txt (a draft)\n",
            ("Ann", "notes.txt (a draft)"),
        ),  # the caption is kept
        ("Ann: \u200fThis message was deleted.\u202c ", "deleted"),
        ("Ann: You deleted this message too late", ("Ann", "You deleted this message too late")),
        ("Ann: Warum wurde diese Nachricht gelöscht?", ("Ann", "Warum wurde diese Nachricht gelöscht?")),
        ("Ann: so ist es \u200e<Diese Nachricht wurde bearbeitet>", ("Ann", "so ist es")),
        ("Ann: our garden \u200eimage omitted", ("Ann", "our garden")),
        ("Ann: a <b> c", ("Ann", "a <b> c")),
        ('Ben "Benny" Fox: Yes: until eight.', ('Ben "Benny" Fox', "Yes: until eight.")),
        ("„Ben“ Fox: Hi", ("„Ben“ Fox", "Hi")),
        ("Ben:Yes, until eight.", ("Ben", "Yes, until eight.")),
        ("Ben:8:30", ("Ben", "8:30")),
        ("Ann of the club:Hi", ("Ann of the club", "Hi")),
        ("Ann of the garden club: Hi", ("Ann of the garden club", "Hi")),
        ("Ann: a\n13/03/2026 - Ben: Hi", ("Ann", "a\n13/03/2026 - Ben: Hi")),  # without a time of day
        ("+49 151 1234567:8 is late", ("+49 151 1234567", "8 is late")),
        ("Ben:https://a.example", ("Ben", "https://a.example")),
        ("Ben changed the time to 8:30", "notice"),
        ("Ben changed it to https://a.example", "notice"),
        ("Ben created the group Party :)", "notice"),
        ('Ann changed the subject to "A: B"', "notice"),
        ("Ann hat den Betreff von „A: B“ zu „C: D“ geändert", "notice"),
    ],
)
def test_what_whatsapp_wrote_is_told_from_names_and_from_what_was_said(tmp_path, line, expected):
    items, log = read(tmp_path / "c.txt", f"13.03.26, 18:05 - {line}")
    is_said = isinstance(expected, tuple)
    assert [(item.speaker, item.text) for item in items] == ([expected] if is_said else [])
    assert log.left_out == ({} if is_said else {expected: 1})


DELETED = """
You deleted this message.|This message was deleted by admin Ann Fox|Un admin., Lucía, eliminó este mensaje.
Diese Nachricht wurde von Admin Max gelöscht.|Questo messaggio è stato eliminato dall'amministratore Luca
Данное сообщение удалено админом (Иван).|لقد حذَفت هذه الرسالة|यह मैसेज डिलीट कर दिया गया है।|管理员张伟已删除这条消息。
Vous avez supprimé ce message|このメッセージは削除されました。|이 메시지는 삭제되었습니다|Mensagem apagada
"""
CALLS = """
Missed video call. Tap to call back|Missed voice call at 18:05|Llamada perdida|Verpasster Sprachanruf|未接语音通话
Appel vocal manqué|Пропущенный аудиозвонок|مكالمة صوتية فائتة|मिस्ड वॉइस कॉल|音声通話不在着信
"""
MEDIA = """
image omitted|áudio ocultado|Bild weggelassen|изображение отсутствует|لم يتم إدراج الصورة|फ़ोटो हटाई गई
画像は含まれていません|照片已忽略|Standort: https://maps.google.com/?q=52.5,13.4|live location shared
"""
WAITING = """
Waiting for this message. This may take a while.|Aguardando mensagem…
메시지 암호화 대기중입니다. 다소 시간이 소요될 수 있습니다.
En attente de ce message. Vérifiez votre téléphone.|اس پیغام کے منتظر ہیں۔ اس میں کچھ وقت لگ سکتا ہے۔
กำลังรอข้อความนี้ อาจใช้เวลาสักครู่|इस संदेश के लिए प्रतीक्षा कर रहे है. इसमें थोड़ा समय लग सकता है.
في انتظار هذه الرسالة، قد يستغرق ذلك بعض الوقت.|正在等待信息，此可能需要一段时间。
"""
POLL = "POLL:\nWhen?\nOPTION: at six (1 vote)\nOPTION: at ten: sharp (2 votes)|"
POLL += "UMFRAGE:\nWann?\n\u200eOPTION: um: 6 (1 Stimme)\n\u200eOPTION: um 10 (0 Stimmen)"
FORWARDED = "[Forwarded] so it is|[Weitergeleitet] so ist es|[Reenviado muchas veces] así es"


@pytest.mark.parametrize(
    ("kind", "notices"),
    [
        ("deleted", DELETED),
        ("call", CALLS),
        ("media", MEDIA),
        ("waiting for the message", WAITING),
        ("poll", POLL),
        ("forwarded", FORWARDED),
    ],
)
def test_notices_are_left_out_in_every_language(tmp_path, kind, notices):
    given = notices.strip().split("|") if kind == "poll" else notices.strip().replace("\n", "|").split("|")
    lines = [f"13.03.26, 18:05 - {name}: {notice}" for notice in given for name in ("Ann", "Ben")]
    items, log = read(tmp_path / "c.txt", "\n".join([*lines, "13.03.26, 18:06 - Ann: Hi"]))
    assert [item.text for item in items] == ["Hi"] and log.left_out == {kind: 2 * len(given)}


def test_an_old_export_of_an_iphone_is_read(tmp_path):
    lines = ["13/03/2012 17:03:48: Ann: Is it: open?", "or not", "13/03/2012 17:04:02: Ben: <image omitted>",
             "3/14/12 5:03:49 PM: Ben: Yes", "13/03/2012 17:05: Ann is late"]  # fmt: skip
    items, _ = read(tmp_path / "c.txt", "\n".join(lines[:3]))
    assert [(item.speaker, item.text) for item in items] == [("Ann", "Is it: open?\nor not")]
    assert items[0].time == datetime(2012, 3, 13, 17, 3, 48, tzinfo=UTC).timestamp()
    items, _ = read(tmp_path / "d.txt", "\n".join(lines[3:]))
    assert [(item.speaker, item.text) for item in items] == [("Ben", "Yes\n13/03/2012 17:05: Ann is late")]


def test_an_export_of_a_browser_begins_with_a_notice(tmp_path):
    lines = ["Messages and calls are end-to-end encrypted.", "[3/13/26, 6:05:09 PM] - Ann added Cid",
             "[3/13/26, 6:05:10 PM] You: Hi"]  # fmt: skip
    items, log = read(tmp_path / "c.txt", "\n".join(lines))
    assert [(item.speaker, item.text) for item in items] == [("You", "Hi")]
    assert log.left_out == {"notice": 1} and log.broken.counts == {"line before the first message": 1}


def test_what_an_export_of_signal_adds_to_texts_is_left_out(tmp_path):
    text = """\
[2026-03-13 18:05:09] Ann: > Is it open?
[2026-03-13 18:06:09] Me: \n
> > Is it open?
> Is it?

Yes.  \n(- Ann: 👍, Cid: ❤ -)
[2026-03-13 18:07:09] Ann: ![a.jpg](./media/a.jpg)
[2026-03-13 18:07:10] Me: (This message was deleted)
[2026-03-13 18:08:09] Me: Outgoing video call (3s)
[2026-03-13 18:09:09] Ann: See [this](./a)
(- or not -)
"""
    items, log = read(tmp_path / "c.txt", text)
    assert [item.text for item in items] == ["> Is it open?", "Yes.", "See [this](./a)\n(- or not -)"]
    assert log.left_out == {"notice or media": 1, "deleted": 1, "call": 1}
