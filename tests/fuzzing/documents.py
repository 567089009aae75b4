"""A small valid document of each kind that `conversations` reads: file name -> content, or the files of a .zip."""

import io
import json
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq


def as_lines(records: list[Any]) -> bytes:
    """JSON lines."""
    return b"".join(json.dumps(record).encode() + b"\n" for record in records)


def as_json(value: Any) -> bytes:
    """A JSON document."""
    return json.dumps(value).encode()


def as_parquet(records: list[dict[str, Any]]) -> bytes:
    """A Parquet file."""
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(records), file)
    return file.getvalue()


def said(user: str, second: int, text: str, **more: Any) -> dict[str, Any]:
    """A Slack message."""
    return {"type": "message", "user": user, "ts": f"{1577880000 + second}.000100", "text": text, **more}


# fmt: off
PAIRS = [{"input": 'How "are" you, da?', "response": "Fine; thanks", "source": "a", "thread": 1}] * 2
TURNS = [{"thread": "t", "speaker": "ada", "time": 0, "text": "Hello"},
         {"thread": "t", "speaker": "bob", "time": 1.5, "text": "Hi"}]
TICKETS_CSV = "Ticket #,From,Sent at,Message\n7,Ann,13/03/2026 09:00,where is it?\n7,Tom,13/03/2026 09:01,here\n"
CONVOKIT = [
    {"id": "1", "conversation_id": "1", "text": "Who is there?", "speaker": "ada", "reply-to": None, "timestamp": 0,
     "meta": {}, "vectors": []},
    {"id": "2", "conversation_id": "1", "text": "Nobody.", "speaker": "bob", "reply-to": "1", "timestamp": 1,
     "meta": {"x": [1]}},
]
OPENAI = [{"messages": [
    {"role": "system", "content": "Be kind"}, {"role": "user", "content": "Hi"},
    {"role": "assistant", "content": [{"type": "text", "text": "Hello"}, {"type": "image_url"}]},
]}]
SHAREGPT = [{"id": "x", "conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}]}]
SLACK = {
    "users.json": as_json([{"id": "U1", "name": "ada"}, {"id": "U2", "name": "bob"}]),
    "channels.json": as_json([{"id": "C1", "name": "general"}]),
    "general/2020-01-01.json": as_json([
        said("U1", 0, "Hello <@U2|bob> see <#C1> <https://a.b|this>"),
        said("U2", 60, "hi <@U1>", thread_ts="1577880000.000100"),
        said("U2", 70, "joined", subtype="channel_join"),
    ]),
}
DISCORD = {"guild": {"id": "1", "name": "Pets"}, "channel": {"id": "2", "name": "cats"}, "messages": [
    {"id": "3", "type": "Default", "timestamp": "2020-01-01T10:00:00.5+00:00", "content": "Hello 😀",
     "author": {"id": "7", "name": "ada", "discriminator": "0001", "isBot": False}},
    {"id": "4", "type": "Reply", "timestamp": "2020-01-01T10:01:00+00:00", "content": "hi",
     "author": {"id": "8", "name": "bob"}, "reference": {"messageId": "3"}},
]}
TELEGRAM = {"name": "Ben", "type": "personal_chat", "id": 12, "messages": [
    {"id": 1, "type": "service", "date": "2026-03-01T10:00:00", "actor": "Ann", "action": "phone_call"},
    {"id": 2, "type": "message", "date_unixtime": "1772359200", "from": "Ann", "from_id": "user1", "text": "Hello"},
    {"id": 3, "type": "message", "date": "2026-03-01T10:01:00", "from": "Ben", "reply_to_message_id": 2,
     "text": ["see ", {"type": "link", "text": "https://a.b"}]},
]}
MESSENGER = {"participants": [{"name": "Ann"}], "title": "Ann", "thread_path": "inbox/ann_1", "messages": [
    {"sender_name": "J\u00c3\u00bcrgen", "timestamp_ms": 1772359201000, "content": "sch\u00c3\u00b6n",
     "type": "Generic"},
    {"sender_name": "Ann", "timestamp_ms": 1772359200000, "content": "hi", "is_unsent": False},
]}
GOOGLE_CHAT = {"messages": [
    {"creator": {"name": name, "user_type": "Human"}, "text": text, "topic_id": "t", "message_id": f"g/t/{text}",
     "created_date": "Thursday, November 3, 2016 at 11:59:50\u202fAM UTC"}
    for name, text in (("Ann", "hi"), ("Ben", "hello"))
]}
CLAUDE = [{"uuid": "x", "name": "", "chat_messages": [
    {"uuid": "a", "sender": "human", "text": "Hi", "content": [{"type": "text", "text": "Hi"}]},
    {"uuid": "b", "sender": "assistant", "text": "", "content": [{"type": "text", "text": "Hello"}]},
]}]
MATRIX_MESSAGE = {"type": "m.room.message", "sender": "@ann:x.org", "event_id": "$1", "origin_server_ts": 1772359200000}
MATRIX = {"room_name": "Pets", "messages": [
    MATRIX_MESSAGE | {"content": {"msgtype": "m.text", "body": "Hallo"}},
    MATRIX_MESSAGE | {"event_id": "$2", "content": {
        "msgtype": "m.text", "body": "* Hello", "m.new_content": {"msgtype": "m.text", "body": "Hello"},
        "m.relates_to": {"rel_type": "m.replace", "event_id": "$1"}}},
    MATRIX_MESSAGE | {"event_id": "$3", "sender": "@ben:x.org", "content": {
        "msgtype": "m.text", "body": "> <@ann:x.org> Hello\n\nhi",
        "m.relates_to": {"m.in_reply_to": {"event_id": "$1"}}}},
]}
MATTERMOST = [
    {"type": "version", "version": 1},
    {"type": "post", "post": {"team": "t", "channel": "c", "user": "ann", "message": "hello",
     "create_at": 1772359201000, "replies": [{"user": "ben", "message": "hi", "create_at": 1772359202000}]}},
]
TICKETS = [{"id": 1, "description": "<p>where is it?</p>", "requester_id": 5, "comments": [
    {"author_id": 6, "body": "<div>here &amp; <b>there</b></div>", "created_at": "2026-03-01T00:00:00Z"},
    {"author_id": 6, "body": "<p>a note", "created_at": "2026-03-01T00:01:00Z", "public": False},
]}]
TRANSCRIPT = "Ann Lee: hello\nAgent: Note: a\n[10:00:01] Ann Lee: thanks<br>Agent: bye"
# fmt: on
WHATSAPP = """\
13/03/2026, 18:05 - Messages are encrypted. Tap to learn more.
13/03/2026, 18:05 - Ann: Hello: who
is there?
13/03/2026, 6:06\u202fPM - +49 151 1: <Media omitted>
13/03/2026, 18:07 - Ben: so \u200e<This message was edited>
"""
IRC = """\
--- Log opened
[10:00] <@ann> hello: who
10:01 * ben waves
10:01 <ben> me
2026-03-13T10:02:00 <ann> <you>
"""
MAILBOX = """\
From ann@example.org Mon Mar  4 10:00:00 2024
From: =?utf-8?q?Ann?= <ann@example.org>
Message-ID: <1@x>
Date: Mon, 4 Mar 2024 10:00:00 +0000
Content-Type: multipart/mixed; boundary="b"

--b
Content-Type: text/plain; charset=latin-1
Content-Transfer-Encoding: quoted-printable

On Monday, Ben wrote:
> where is=20it?

here
--b
Content-Type: text/html
Content-Transfer-Encoding: base64

PHA+YTwvcD4=
--b--

From ben@example.org Mon Mar  4 10:00:00 2024
References: <0@x>
 <1@x>

<p>thanks
"""
SUBTITLES = "WEBVTT\n\n00:01.500 --> 00:04.000 align:start\n<v Ann Lee>Hello, <b>Ben</b> &amp; all\n<v Ben>hi\n"
IMESSAGE = """\
Mar 01, 2026  5:29:42 PM (Read by them after 1 hour)
Me
is it open?

Mar 01, 2026  5:30:00 PM
+15550100
yes
"""
SMS = """\
<?xml version='1.0' encoding='UTF-8' standalone='yes' ?>
<smses count="2">
  <sms address="+15550100" date="1772386182000" type="1" body="is it open? &#55357;&#56832;" contact_name="Ann" />
  <sms address="+15550100" date="1772386183000" type="2" body="yes&#10;it is" contact_name="Ann" />
</smses>
"""

DOCUMENTS: dict[str, bytes | dict[str, bytes]] = {
    "tickets.csv": TICKETS_CSV.encode(),
    "tickets.tsv": TICKETS_CSV.replace(",", "\t").encode("utf-16"),
    "pairs.jsonl": as_lines(PAIRS),
    "turns.json": as_json(TURNS),
    "turns.parquet": as_parquet(TURNS),
    "utterances.jsonl": as_lines(CONVOKIT),
    "openai.jsonl": as_lines(OPENAI),
    "sharegpt.json": as_json(SHAREGPT),
    "slack.zip": SLACK,
    "discord.json": as_json(DISCORD),
    "telegram.json": as_json(TELEGRAM),
    "message_1.json": as_json(MESSENGER),
    "messages.json": as_json(GOOGLE_CHAT),
    "claude.json": as_json(CLAUDE),
    "element.json": as_json(MATRIX),
    "mattermost.jsonl": as_lines(MATTERMOST),
    "zendesk.jsonl": as_lines(TICKETS),
    "dialogs.jsonl": as_lines([{"dialog": ["a", "b"]}]),
    "transcripts.jsonl": as_lines([{"log": TRANSCRIPT}, {"log": TRANSCRIPT.replace("Lee", "Low")}]),
    "whatsapp.txt": WHATSAPP.encode(),
    "irc.log": IRC.encode(),
    "mail.mbox": MAILBOX.encode(),
    "call.vtt": SUBTITLES.encode(),
    "imessage.txt": IMESSAGE.encode(),
    "sms.xml": SMS.encode(),
}
