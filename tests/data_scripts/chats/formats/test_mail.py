import mailbox
from datetime import UTC, datetime
from email.message import EmailMessage
from pathlib import Path

import pytest

from data_scripts.__main__ import main
from data_scripts.chats.formats.mail import MAX_BYTES
from data_scripts.chats.logs import is_on_hub
from modeling_convsim.files.errors import InputError
from tests.data_scripts import outputs
from tests.data_scripts.chats.reading import read_items as read

START = "From ann@example.org Mon Mar  4 10:00:00 2024\n"
MARCH_4 = datetime(2024, 3, 4, 10, tzinfo=UTC).timestamp()


def mail(
    number: int, answers: int | None = None, sender: str = "Ann <Ann@example.org>", **headers: str
) -> EmailMessage:
    message = EmailMessage()
    message["From"], message["Message-ID"] = sender, f"<{number}@example.org>"
    message["Date"] = f"Mon, 4 Mar 2024 1{number}:00:00 +0000"
    if answers is not None:
        message["In-Reply-To"] = f"<{answers}@example.org>"
    for name, value in headers.items():
        message[name.replace("_", "-")] = value
    return message


def test_a_paragraph_that_begins_with_from_and_names_times_ends_no_mail(tmp_path):
    text = f"{START}From: ann@example.org\n\nWhen?\n\nFrom ten on, or between 10:00 and 12:00.\n\nFrom \n\nhi\n"
    items, _ = read(tmp_path / "in.mbox", text)
    assert [item.text for item in items] == ["When?\nFrom ten on, or between 10:00 and 12:00.", "hi"]


def test_a_mailbox_that_the_library_wrote(tmp_path):
    first, second, third = mail(0), mail(1, 0, "Benoît Ô <ben@example.org>"), mail(2, 1)
    first.set_content("Where is the café?\n\nFrom here, is it far?\n")
    second.set_content("On Mon, 4 Mar 2024, Ann wrote:\n> Where is the café?\n\nOn the left.\n-- \nBen\n", cte="base64")
    second.add_attachment("a,b\n", subtype="csv", filename="a.csv")
    third.set_content("<p>Thank <b>you</b>!</p><blockquote>On the left.</blockquote>", subtype="html")
    third.add_attachment("Terms of use", filename="terms.txt")
    box = mailbox.mbox(tmp_path / "in.mbox")
    for message in (first, second, third):
        box.add(message)
    box.close()
    items, log = read(tmp_path / "in.mbox")
    assert [(item.id, item.parent, item.speaker, item.text) for item in items] == [
        ("0@example.org", "", "ann@example.org", "Where is the café?\nFrom here, is it far?"),
        ("1@example.org", "0@example.org", "ben@example.org", "On the left."),
        ("2@example.org", "1@example.org", "ann@example.org", "Thank you!"),
    ]
    assert [item.time - MARCH_4 for item in items] == [0, 3600, 7200] and {item.thread for item in items} == {None}
    assert log.detected == {"format": "mailbox"} and not log.broken.counts and not log.left_out


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<div>Yes.<br>Good.</div><div>On Mon, Ann wrote:<br></div><BLOCKQUOTE>Is it?</BLOCKQUOTE>", "Yes.\nGood."),
        ("<p>Yes.</p><blockquote>Is it?</blockquote><p>Or no.</p>", "Yes.\nOr no."),
        ("<p>Yes.</p><hr><b>From:</b> Ben<br><b>Sent:</b> Monday<br><p>Is it?</p>", "Yes."),
    ],
)
def test_html_without_what_it_quotes(tmp_path, html, expected):
    message = mail(0)
    message.set_content(html, subtype="html")
    assert read(tmp_path / "a.mbox", f"{START}{message}\n")[0][0].text == expected


def test_mails_that_nobody_wrote_are_counted(tmp_path):
    away, empty, human = mail(0, Auto_Submitted="auto-replied"), mail(1), mail(2, Auto_Submitted="No")
    away.set_content("I am away.")
    empty.set_content("> only a quotation\n-- \nAnn")
    human.set_content("Here I am.")
    text = "".join(f"{START}{message}\n\n" for message in (away, empty, human))
    items, log = read(tmp_path / "a.mbox", text)
    assert [item.text for item in items] == ["Here I am."]
    assert log.left_out == {"automatic mail": 1, "mail without text": 1}


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ("In-Reply-To: <a@x> (Ann's message)\nReferences: <b@x> <c@x>", "a@x"),
        ("References: <a@x>\n <b@x> <c@x>", "c@x"),
        ("In-Reply-To: your mail of Monday", ""),
    ],
)
def test_the_mail_that_is_answered(tmp_path, headers, expected):
    (item,), _ = read(tmp_path / "a.mbox", f"{START}From: a@x\n{headers}\n\nHello\n")
    assert item.parent == expected and item.id == "c/1"


@pytest.mark.parametrize(
    ("name", "sender", "expected"),
    [
        ("2024-March.txt", "ann at example.org (Ann Lee)", "ann at example.org (Ann Lee)"),
        ("2024-March.txt.gz", "=?utf-8?q?Ann_L=C3=A9e?= <ann@example.org>", "ann@example.org"),
        ("a.mbox.gz", "=?no-such-encoding?q?Ann?=", "=?no-such-encoding?q?Ann?="),
    ],
)
def test_names_of_files_and_senders(tmp_path, name, sender, expected):
    text = f"{START}From: {sender}\nDate: never\n\nHello\n\n{START}Subject: a\n\nYes\n"
    content = text.replace("\n", "\r\n").encode()
    items, log = read(tmp_path / name, content)
    assert [(item.speaker, item.time, item.text) for item in items] == [(expected, None, "Hello"), (None, None, "Yes")]
    assert not log.broken.counts


def test_mails_of_thunderbird_begin_with_an_empty_line_of_from(tmp_path):
    text = "From - Mon Mar  4 10:00:00 2024\r\nFrom: a@x\r\n\r\nHello\r\n\r\nFrom \r\nFrom: b@x\r\n\r\nFrom me, yes\r\n"
    items, _ = read(tmp_path / "a.mbox", text)
    assert [(item.speaker, item.text) for item in items] == [("a@x", "Hello"), ("b@x", "From me, yes")]


def test_a_folder_of_apple_mail(tmp_path):
    folder = tmp_path / "In.mbox"
    folder.mkdir()
    (folder / "table_of_contents").write_bytes(b"\0")
    (folder / "mbox").write_text(f"{START}From: a@x\n\nHello\n")
    assert [item.text for item in read(folder)[0]] == ["Hello"]


def test_an_answer_in_the_mailbox_of_sent_mails_is_paired(tmp_path):
    question = "How can I get my old password back?"
    (tmp_path / "in.mbox").write_text(f"{START}From: a@x\nMessage-ID: <1@x>\n\n{question}\n")
    (tmp_path / "sent.mbox").write_text(f"{START}From: b@x\nIn-Reply-To: <1@x>\n\nPlease choose a new one.\n")
    boxes = [str(tmp_path / name) for name in ("in.mbox", "sent.mbox")]
    assert main(["conversations", *boxes, "-o", str(tmp_path / "out")]) == 0
    assert [(pair["input"], pair["response"]) for pair in outputs.read(tmp_path / "out")] == [
        (question, "Please choose a new one.")
    ]


def test_mails_of_google_without_ids_answer_those_before_them_in_their_thread(tmp_path):
    headers = ("X-GM-THRID: 17", "X-GM-THRID: 17", "X-GM-THRID: 17\nMessage-ID: <1@x>", "Subject: none")
    text = "".join(f"{START}From: a@x\n{each}\n\nHello\n\n" for each in headers)
    items, _ = read(tmp_path / "a.mbox", text)
    assert [(item.thread, item.parent) for item in items] == [("17", None), ("17", None), ("17", ""), (None, "")]


def test_forwarded_mails_are_no_answers(tmp_path):
    mails = [
        ("<1@x>", "Gate", "", "Is it open?"),
        ("<2@x>", "Fwd: Gate", "<1@x>", "Please see below."),
        ("<3@x>", "WG: Gate", "<1@x>", "Siehe unten."),
        ("<4@x>", "Re: FW: Gate", "<1@x>", "Yes."),
        ("<5@x>", "Forward: march", "<1@x>", "A title."),
    ]
    text = "".join(
        f"{START}From: a@x\nMessage-ID: {name}\nSubject: {subject}\nIn-Reply-To: {parent}\n\n{body}\n\n"
        for name, subject, parent, body in mails
    )
    items, log = read(tmp_path / "a.mbox", text)
    assert [item.text for item in items] == ["Is it open?", "Yes.", "A title."] and log.left_out == {"forwarded": 2}


def test_lines_outside_of_mails_and_long_attachments(tmp_path):
    attachment = ("QUJD" * 18 + "\n") * (MAX_BYTES // 73 + 10)
    body = f'Content-Type: multipart/mixed; boundary="b"\n\n--b\n\nHello\n--b\nContent-Type: image/png\n\n{attachment}'
    text = f"What is this?\n\n{START}From: a@x\n{body}--b--\n\nFrom here on, all is text\n\n{START}From: b@x\n\nYes\n"
    items, log = read(tmp_path / "a.mbox", text)
    assert [item.text for item in items] == ["Hello", "Yes"]
    assert log.broken.counts == {"line before the first mail": 1}
    assert log.broken.examples == [f"{tmp_path / 'a.mbox'}:1: line before the first mail"]


def test_refusals(tmp_path):
    with pytest.raises(InputError, match="one must precede each email"):
        read(tmp_path / "a.mbox", "Hello\n")
    with pytest.raises(InputError, match="the file is empty"):
        read(tmp_path / "b.mbox", "")
    with pytest.raises(InputError, match="cannot be read"):
        read(tmp_path / "missing.mbox")
    with pytest.raises(InputError, match=r"expected a name that ends in .*\.mbox"):
        read(tmp_path / "a.doc", "x")
    assert not is_on_hub(Path("no_such_folder/in.mbox")) and is_on_hub(Path("no_such_folder/in"))
