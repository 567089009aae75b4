"""The .xml of SMS Backup & Restore."""

from pathlib import Path

import pytest

from data_scripts.chats.logs import read_log
from data_scripts.chats.messages import CHANNEL_GAP, ChatLog, Message
from modeling_convsim.files.errors import InputError
from tests.data_scripts.chats.reading import read_items

START = 1772386182  # 2026-03-01 17:29:42, UTC


def sms(body: str, kind: int = 1, second: int = 0, address: str = "+15555550100", name: str = "Ann") -> str:
    return (
        f'<sms protocol="0" address="{address}" date="{START + second}000" type="{kind}" subject="null" '
        f'body="{body}" read="1" contact_name="{name}" />'
    )


def mms(part: str, box: int = 1, address: str = "+15555550100", addresses: str = "", name: str = "Ann") -> str:
    return (
        f'<mms date="{START}000" msg_box="{box}" address="{address}" contact_name="{name}">'
        f'<parts><part ct="application/smil" text="layout" />\n{part}</parts><addrs>{addresses}</addrs></mms>'
    )


def read(path: Path, *elements: str, gap: float | None = None) -> tuple[list[Message], ChatLog]:
    content = "<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>\n<!--File-->\n" + "\n".join(
        [f'<smses count="{len(elements)}">', *elements, "</smses>"]
    )
    return read_items(path, content, "s", gap=gap)


@pytest.mark.parametrize("name", ["sms.xml", "sms.xml.gz"])
def test_messages_have_the_contact_the_time_and_the_text(tmp_path, name):
    items, log = read(
        tmp_path / name,
        sms("is it open &amp; warm?"),
        sms("yes&#10;it is", kind=2, second=5, address="(555) 555-0100"),
        sms("really?", second=9, address="555-555-0101"),
        sms("hi", address="+15555550199", name="(Unknown)"),
        sms("ok", kind=2, address="+15555550199", name="null"),
        *(sms("no", address=address) for address in ("Shop 24", "a1@example.org", "72404", "+44 20 7946 0000")),
    )
    assert [(item.thread, item.speaker, item.time, item.text) for item in items] == [
        ("s/555550100", "Ann", START, "is it open & warm?"),
        ("s/555550100", "me", START + 5, "yes\nit is"),
        ("s/555550101", "Ann", START + 9, "really?"),
        ("s/555550199", "+15555550199", START, "hi"),
        ("s/555550199", "me", START, "ok"),
        *((f"s/{chat}", "Ann", START, "no") for chat in ("Shop 24", "a1@example.org", "72404", "079460000")),
    ]
    assert len({item.id for item in items}) == 9
    assert {(item.parent, item.source, item.gap) for item in items} == {(None, "s", CHANNEL_GAP)}
    assert log.detected == {"format": "SMS Backup & Restore"} and not log.broken.counts and not log.left_out


def test_texts_of_mms_are_read_and_those_of_a_group_have_their_sender(tmp_path):
    text = '<part ct="text/plain" text="look" />'
    sender = '<addr address="+15555550101" type="137" /><addr address="+15555550100" type="151" />'
    group = {"address": "+15555550100~+15555550101", "name": "Ann, Ben"}
    items, log = read(
        tmp_path / "sms.xml",
        mms(text + '<part ct="image/png" text="null" data="aGk=" /><part ct="text/plain" text="here" />'),
        mms(text, addresses=sender, **group),
        mms(text, box=2, addresses=sender, **group | {"address": "5555550101~+15555550100"}),
        mms(text, addresses=sender.replace("+15555550101", "+15555550100")),
        mms('<part ct="text/plain" text="null" />'),
        mms('<part ct="text/plain" />'),
        mms('<part ct="image/png" text="a picture" />'),
    )
    assert [(item.thread, item.speaker, item.text) for item in items] == [
        ("s/555550100", "Ann", "look\nhere"),
        ("s/555550100~555550101", "+15555550101", "look"),
        ("s/555550100~555550101", "me", "look"),
        ("s/555550100", "Ann", "look"),
    ]
    assert log.left_out == {"no text": 3}


def test_what_was_not_sent_or_has_no_text_is_counted(tmp_path):
    texts = [sms("a", kind) for kind in (3, 4, 5, 6, 7, 1)]
    items, log = read(tmp_path / "sms.xml", *texts, mms("", box=3), sms("null"), sms(" "), "<call />", "<sms />")
    assert [item.text for item in items] == ["a"]
    assert log.left_out == {"draft": 2, "not sent": 3, "type 7": 1, "no text": 2, "type none": 1}


@pytest.mark.parametrize(
    ("references", "text"),
    [
        ("&#55357;&#56832;", "\N{GRINNING FACE}"),
        ("&#xD83D;&#xDE00;!", "\N{GRINNING FACE}!"),
        ("&#128512;", "\N{GRINNING FACE}"),
        ("a&#55357;b", "a\N{REPLACEMENT CHARACTER}b"),
        ("a&#0;&#8;&#65535;&#9999999;b", "ab"),
        ("a&#9;b", "a\tb"),
        ("a&#39;b&#233;", "a'b\u00e9"),
    ],
)
def test_character_references_that_are_no_xml_are_read(tmp_path, references, text):
    items, _ = read(tmp_path / "sms.xml", sms(references))
    assert [item.text for item in items] == [text]


def test_messages_without_a_number_or_a_time_are_counted(tmp_path):
    no_time = sms("a").replace(f"{START}000", "soon")
    items, log = read(tmp_path / "sms.xml", sms("a", address="null"), no_time, sms("b"))
    assert [item.text for item in items] == ["b"]
    assert log.broken.counts["missing field"] == 1 and sum(log.broken.counts.values()) == 2
    assert log.broken.examples[0].startswith(f"{tmp_path}/sms.xml:4: missing field (address)")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<note><to>Ann</to></note>", "sms.xml:1: found <note>, expected <smses>"),
        ('<smses><sms body="a" ', "sms.xml:1: not well-formed XML"),
        ("<smses>\n<sms/>\n&oops;\n</smses>", "sms.xml:3: not well-formed XML (undefined entity"),
    ],
)
def test_other_xml_is_refused(tmp_path, content, message):
    (tmp_path / "sms.xml").write_text(content)
    with pytest.raises(InputError) as error:
        list(read_log(ChatLog(tmp_path / "sms.xml", "s")))
    assert message in str(error.value)
