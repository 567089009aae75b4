"""The export formats of chat programs."""

import io
import json
import zipfile
from functools import partial
from pathlib import Path
from typing import Any

from tests.fuzzing.invariants import accepts, read_chat
from tests.fuzzing.registry import harness

SLACK_FILES = ("users.json", "channels.json", "general/2020-01-01.json", "random/2020-01-02.json")
SLACK: tuple[Any, ...] = (
    [{"id": "U1", "name": "ada"}, {"id": "U2", "name": "bob"}],
    [{"id": "C1", "name": "general"}],
    [
        {
            "type": "message",
            "user": "U1",
            "ts": "1577880000.000100",
            "text": "Hello <@U2|bob> see <#C1> <https://a.b|this>",
        },
        {
            "type": "message",
            "user": "U2",
            "ts": "1577880060.000100",
            "text": "hi <@U1>",
            "thread_ts": "1577880000.000100",
        },
        {"type": "message", "subtype": "channel_join", "user": "U2", "ts": "1577880070.0", "text": "joined"},
    ],
    [{"type": "message", "user": "U1", "ts": 1577880000, "text": "<!here> a &amp; b", "subtype": "me_message"}],
)
DISCORD = {
    "guild": {"id": "1", "name": "Pets"},
    "channel": {"id": "2", "name": "cats"},
    "messages": [
        {
            "id": "3",
            "type": "Default",
            "timestamp": "2020-01-01T10:00:00.5+00:00",
            "content": "Hello 😀",
            "author": {"id": "7", "name": "ada", "discriminator": "0001", "isBot": False},
        },
        {
            "id": "4",
            "type": "Reply",
            "timestamp": "2020-01-01T10:01:00+00:00",
            "content": "hi",
            "author": {"id": "8", "name": "bob", "discriminator": "0000"},
            "reference": {"messageId": "3"},
        },
        {
            "id": "5",
            "type": "ChannelPinnedMessage",
            "timestamp": "2020-01-01T10:01:00+00:00",
            "content": "",
            "author": {"id": "8", "name": "bob"},
        },
    ],
}


def _node(name: str, parent: str | None, role: str, text: Any) -> dict[str, Any]:
    content = {"content_type": "text", "parts": [text]}
    message = {"author": {"role": role}, "content": content, "metadata": {}, "recipient": "all"}
    return {"id": name, "parent": parent, "message": message, "children": []}


CHATGPT = [
    {
        "conversation_id": "c1",
        "title": "t",
        "mapping": {
            "r": {"id": "r", "parent": None, "message": None},
            "s": _node("s", "r", "system", ""),
            "a": _node("a", "s", "user", "What is a cat?"),
            "b": _node("b", "a", "assistant", "An animal."),
            "c": _node("c", "b", "assistant", {"text": "A small one."}),
            "d": _node("d", "b", "user", "Thanks \u202eא"),
        },
    }
]
CONVOKIT = [
    {
        "id": "1",
        "conversation_id": "1",
        "text": "Who is there?",
        "speaker": "ada",
        "reply-to": None,
        "timestamp": 0,
        "meta": {},
        "vectors": [],
    },
    {
        "id": "2",
        "conversation_id": "1",
        "text": "Nobody.",
        "speaker": "bob",
        "reply-to": "1",
        "timestamp": 1,
        "meta": {"x": [1]},
    },
]
OPENAI = [
    {
        "messages": [
            {"role": "system", "content": "Be kind"},
            {"role": "user", "content": "Hi"},
            {"role": "assistant", "content": [{"type": "text", "text": "Hello"}, {"type": "image_url"}]},
            {"role": "assistant", "content": None},
        ]
    }
]
SHAREGPT = [{"id": "x", "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}]


def as_lines(records: list[Any]) -> bytes:
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def _read_as(name: str, content: bytes, folder: Path) -> bool:
    path = folder / name
    path.write_bytes(content)
    return accepts(partial(read_chat, path), path)


def _slack_seeds() -> list[bytes]:
    parts = [json.dumps(content).encode() for content in SLACK]
    return [b"\x01" + b"\0|".join(parts), b"\x00" + _zipped(parts), b"\x02" + b"\0|".join(parts)]


def _zipped(parts: list[bytes]) -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
        for name, part in zip(SLACK_FILES, parts, strict=False):
            file.writestr(zipfile.ZipInfo(name), part)
    return archive.getvalue()


@harness("Slack (.zip, folder)", _slack_seeds)
def slack(data: bytes, folder: Path) -> bool:
    """Byte 0 says whether the rest is the .zip, or the files that are packed into it or written to a folder."""
    kind, parts = data[:1], data[1:].split(b"\0|")[: len(SLACK_FILES)]
    if kind == b"\x02":
        root = folder / "export"
        for name, part in zip(SLACK_FILES, parts, strict=False):
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(part)
        return accepts(partial(read_chat, root), root)
    return _read_as("export.zip", data[1:] if kind == b"\x00" else _zipped(parts), folder)


@harness(
    "Discord (DiscordChatExporter's .json)",
    lambda: [b"\0" + json.dumps(DISCORD).encode(), b"\1" + json.dumps(DISCORD).encode()],
)
def discord(data: bytes, folder: Path) -> bool:
    """An odd byte 0 reads the export as JSON lines."""
    return _read_as(("channel.json", "channel.jsonl")[data[:1] > b"\0"], data[1:], folder)


@harness("ChatGPT (conversations.json)", lambda: [json.dumps(CHATGPT).encode(), json.dumps(CHATGPT[0]).encode()])
def chatgpt(data: bytes, folder: Path) -> bool:
    return _read_as("conversations.json", data, folder)


@harness("ConvoKit (utterances.jsonl)", lambda: [as_lines(CONVOKIT)])
def convokit(data: bytes, folder: Path) -> bool:
    return _read_as("utterances.jsonl", data, folder)


@harness(
    "messages with roles (OpenAI, ShareGPT; .jsonl, .json)",
    lambda: [
        bytes([kind]) + content
        for records in (OPENAI, SHAREGPT)
        for kind, content in enumerate((as_lines(records), json.dumps(records).encode()))
    ],
)
def roles(data: bytes, folder: Path) -> bool:
    """An odd byte 0 reads a .json file."""
    return _read_as(("chats.jsonl", "chats.json")[data[:1] > b"\0"], data[1:], folder)


WHATSAPP = """\
13/03/2026, 18:05 - Messages are encrypted. Tap to learn more.
13/03/2026, 18:05 - Ann: Hello: who
is there?
13/03/2026, 6:06\u202fPM - +49 151 1: <Media omitted>
[3/4/26, 18:07:01] ~\u202fBen: so \u200e<This message was edited>
"""
TELEGRAM = {
    "name": "Ben",
    "type": "personal_chat",
    "id": 12,
    "messages": [
        {"id": 1, "type": "service", "date": "2026-03-01T10:00:00", "actor": "Ann", "action": "phone_call"},
        {"id": 2, "type": "message", "date_unixtime": "1772359200", "from": "Ann", "from_id": "user1", "text": "Hello"},
        {
            "id": 3,
            "type": "message",
            "date": "2026-03-01T10:01:00",
            "from": "Ben",
            "reply_to_message_id": 2,
            "text": ["see ", {"type": "link", "text": "https://a.b"}],
        },
    ],
}
ALL_TELEGRAM = {"about": "a", "contacts": {"list": []}, "chats": {"about": "b", "list": [TELEGRAM]}}


@harness(
    "WhatsApp (.txt, .zip)",
    lambda: [
        bytes([kind]) + WHATSAPP.encode(encoding) for kind in (0, 1) for encoding in ("utf-8", "utf-16")[: 2 - kind]
    ],
)
def whatsapp(data: bytes, folder: Path) -> bool:
    """An odd byte 0 packs the text into a .zip."""
    if data[:1] <= b"\0":
        return _read_as("chat.txt", data[1:], folder)
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(zipfile.ZipInfo("_chat.txt"), data[1:])
    return _read_as("chat.zip", archive.getvalue(), folder)


@harness(
    "Telegram (result.json)",
    lambda: [json.dumps(seed, indent=indent).encode() for seed in (TELEGRAM, ALL_TELEGRAM) for indent in (1, None)],
)
def telegram(data: bytes, folder: Path) -> bool:
    return _read_as("result.json", data, folder)


TRANSCRIPTS = (
    "--- Log opened\n[10:00] <@ann> hello: who\n10:01 * ben waves\n10:01 <ben> me\n2026-03-13T10:02:00 <ann> <you>\n",
    "Dario Ito: where is it?\nToday.\nAgent: on its way\n\nDario Ito: thanks\n-----\nAgent: a\n",
    "[13/03/2026 10:00] Ann Lee\na\n\n10:01:05 From Ben to Everyone:\nb\n[13/03/2026 10:00] Ann Lee\nc\n",
    "Ann  0:00  \na\n\nBen (1:00:05):\nb\n\nAnn  0:10\n10:05\nc\n( 5s ) Ann: d\n",
    "10:00:05\t Ann Lee:\ta\n(9:59 pm) Ben: b\n13/03/2026, 9:59 Ann Lee: c\nBen: d\n",
)


@harness(
    "transcripts (IRC and others; .txt, .log)",
    lambda: [bytes([kind]) + text.encode() for kind, text in enumerate(TRANSCRIPTS)],
)
def transcripts(data: bytes, folder: Path) -> bool:
    """An odd byte 0 reads a .log."""
    return _read_as(("chat.txt", "chat.log")[data[:1] > b"\0"], data[1:], folder)


MAILBOX = """\
From ann@example.org Mon Mar  4 10:00:00 2024
From: =?utf-8?q?Ann?= <ann@example.org>
Message-ID: <1@x>
In-Reply-To: <0@x> (a)
Date: Mon, 4 Mar 2024 10:00:00 +0000
Content-Type: multipart/mixed; boundary="b"

--b
Content-Type: text/plain; charset=latin-1
Content-Transfer-Encoding: quoted-printable

On Monday, Ben wrote:
> where is=20it?

here
-- \nAnn
--b
Content-Type: text/html
Content-Transfer-Encoding: base64

PHA+YTwvcD4=
--b--

From ben@example.org Mon Mar  4 10:00:00 2024
References: <0@x>
 <1@x>
Auto-Submitted: no

<p>thanks
"""


@harness("mailboxes (.mbox, .txt)", lambda: [bytes([kind]) + MAILBOX.encode() for kind in range(2)])
def mail(data: bytes, folder: Path) -> bool:
    """An odd byte 0 reads a .txt file."""
    return _read_as(("mail.mbox", "mail.txt")[data[:1] > b"\0"], data[1:], folder)


SUBTITLES = (
    "WEBVTT\n\n00:01.500 --> 00:04.000 align:start\n<v Ann Lee>Hello, <b>Ben</b> &amp; all <v.loud Ben>hi\n",
    "1\n00:00:05,000 --> 00:00:07,500\n- ANN: Hello\n- BEN: Hi\n\n2\n00:00:09,000 --> 0:00:10\n[music]\nANN: bye\n",
)


@harness("subtitles (.vtt, .srt)", lambda: [text.encode() for text in SUBTITLES])
def subtitles(data: bytes, folder: Path) -> bool:
    return _read_as("call.vtt", data, folder)


TICKETS = [
    {
        "id": 1,
        "description": "<p>where is it?</p>",
        "requester_id": 5,
        "comments": [
            {"author_id": 6, "body": "<div>here &amp; <b>there</b></div>", "created_at": "2026-03-01T00:00:00Z"},
            {"author_id": 6, "body": "<p>a note", "created_at": "2026-03-01T00:01:00Z", "public": False},
        ],
    },
    {"id": 2, "description": None, "requester_id": 7, "comments": []},
]
TRANSCRIPT = "Ann Lee: hello\nAgent: Note: a\n[10:00:01] Ann Lee: thanks<br>Agent: bye"
OTHER_RECORDS: tuple[Any, ...] = (
    [{"dialog": ["a", "b"]}],
    [{"log": TRANSCRIPT}, {"log": TRANSCRIPT.replace("Lee", "Low")}],
    [{"turn1": "a text of words", "turn 2": "another text of words", "turn_3": None}],
    [{"question": "a", "answers": ["b", {"text": "c", "score": 1}]}],
)
CHATS = {"c1": {"turns": [{"text": "a"}, {"text": "b"}]}, "c2": {"turns": [{"text": "c"}]}}


@harness(
    "conversations in records (tickets, dialogs, transcripts, lists; .jsonl, .json)",
    lambda: [
        bytes([0]) + as_lines(TICKETS),
        bytes([1]) + json.dumps({"tickets": TICKETS}).encode(),
        bytes([1]) + json.dumps(CHATS).encode(),
        *(bytes([0]) + as_lines(records) for records in OTHER_RECORDS),
    ],
)
def nested(data: bytes, folder: Path) -> bool:
    """An odd byte 0 reads a .json file."""
    return _read_as(("chats.jsonl", "chats.json")[data[:1] > b"\0"], data[1:], folder)


SAID = {"user": "ann", "message": "hello", "create_at": 1772359201000}
MATTERMOST = [
    {"type": "version", "version": 1},
    {"type": "post", "post": {"team": "t", "channel": "c", **SAID, "replies": [{**SAID, "create_at": 1772359202000}]}},
    {"type": "direct_post", "direct_post": {"channel_members": ["ann", "ben"], **SAID, "type": "system_a"}},
]


@harness("Mattermost (bulk export)", lambda: [as_lines(MATTERMOST)])
def mattermost(data: bytes, folder: Path) -> bool:
    return _read_as("export.jsonl", data, folder)


IMESSAGE = """\
Mar 01, 2026  5:29:42 PM (Read by them after 1 hour)
Me
is it open?

Mar 01, 2026  5:30:00 PM
+15550100
yes
Tapbacks:
    Loved by Me

Mar 01, 2026 10:31:00 PM You named the conversation Shop
"""
X_MESSAGE = {"messageCreate": {"id": "1", "senderId": "2", "text": "hi", "createdAt": "2026-03-01T00:00:00.500Z"}}
X_CHATS = [{"dmConversation": {"conversationId": "1-2", "messages": [X_MESSAGE, {"joinConversation": {}}]}}]


@harness("iMessage (imessage-exporter's .txt)", lambda: [IMESSAGE.encode()])
def imessage(data: bytes, folder: Path) -> bool:
    return _read_as("chat.txt", data, folder)


@harness("X (direct-messages.js)", lambda: [b"window.YTD.direct_messages.part0 = " + json.dumps(X_CHATS).encode()])
def twitter(data: bytes, folder: Path) -> bool:
    return _read_as("direct-messages.js", data, folder)


SMS = b"""\
<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>
<smses count="3">
  <sms address="+15550100" date="1772386182000" type="1" body="is it open? &#55357;&#56832;" contact_name="Ann" />
  <sms address="+15550100" date="1772386183000" type="2" body="yes&#10;it is" contact_name="Ann" />
  <mms address="+15550100~+15550101" date="1772386184000" msg_box="1">
    <parts><part ct="text/plain" text="all of us" /></parts><addrs><addr address="+15550101" type="137" /></addrs>
  </mms>
</smses>
"""


@harness("SMS Backup & Restore (.xml)", lambda: [SMS])
def sms(data: bytes, folder: Path) -> bool:
    return _read_as("sms.xml", data, folder)


MESSENGER = {
    "participants": [{"name": "Ann"}],
    "messages": [
        {
            "sender_name": "J\u00c3\u00bcrgen",
            "timestamp_ms": 1772359201000,
            "content": "sch\u00c3\u00b6n",
            "type": "Generic",
        },
        {"sender_name": "Ann", "timestamp_ms": 1772359200000, "content": "hi", "is_unsent": False},
    ],
    "title": "Ann",
    "thread_path": "inbox/ann_1",
}
ENCRYPTED = {
    "participants": ["Ann", "Ben"],
    "threadName": "Ann_1",
    "messages": [{"isUnsent": False, "senderName": "Ann", "text": "hi", "timestamp": 1772359200000, "type": "text"}],
}
GOOGLE_CHAT = {
    "messages": [
        {
            "creator": {"name": name, "user_type": "Human"},
            "created_date": "Thursday, November 3, 2016 at 11:59:50\u202fAM UTC",
            "text": text,
            "topic_id": "t",
            "message_id": f"g/t/{text}",
        }
        for name, text in (("Ann", "hi"), ("Ben", "hello"))
    ]
}


@harness(
    "Messenger (message_1.json)",
    lambda: [json.dumps(seed, indent=indent).encode() for seed in (MESSENGER, ENCRYPTED) for indent in (1, None)],
)
def messenger(data: bytes, folder: Path) -> bool:
    return _read_as("message_1.json", data, folder)


@harness(
    "Google Chat (messages.json)", lambda: [json.dumps(GOOGLE_CHAT, indent=indent).encode() for indent in (1, None)]
)
def google_chat(data: bytes, folder: Path) -> bool:
    return _read_as("messages.json", data, folder)
