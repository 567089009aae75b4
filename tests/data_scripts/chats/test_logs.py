import hashlib
import json
import zipfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_scripts.chats.logs import check_log, read_log
from data_scripts.chats.messages import CHANNEL_GAP, ChatLog, Message, Pair
from modeling_convsim.files.errors import InputError


def log(path: Path, gap: float | None = None, **columns: str) -> ChatLog:
    return ChatLog(path, path.stem, columns=columns, gap=gap)


def read(a_log: ChatLog) -> list:
    check_log(a_log)
    return [item for _, item in read_log(a_log)]


def write(path: Path, *records: object) -> Path:
    """A file with a line of JSON for each record."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(json.dumps(record) for record in records), encoding="utf-8")
    return path


def test_a_table_of_reply_links_names_what_each_message_answers(tmp_path):
    path = tmp_path / "forum.csv"
    path.write_text('id,parent,text,speaker\n1,,"Who, me?",Ann\n2,1,"Yes ""you""\nand me",\n', encoding="utf-8")
    assert read(log(path)) == [
        Message("1", "", None, "Ann", None, "Who, me?", "forum", None),
        Message("2", "1", None, None, None, 'Yes "you"\nand me', "forum", None),
    ]


def test_threads_of_a_table_are_in_order_of_time(tmp_path):
    path = write(
        tmp_path / "calls.jsonl",
        {"call": {"no": 7}, "said": "hello", "from": "Ann", "at": "2024-01-01T00:00:10Z"},
        {"call": {"no": 7}, "said": "good day", "from": "Ben", "at": "2024-01-01 01:00:12.5+01:00"},
        {"call": {"no": 7}, "said": "bye", "from": None, "at": 1704067220},
    )
    named = log(path, gap=60, **{"thread": "call.no", "text": "said", "speaker": "from", "time": "at"})
    assert read(named) == [
        Message("row 1", None, "7", "Ann", 1704067210, "hello", "calls", 60),
        Message("row 2", None, "7", "Ben", 1704067212.5, "good day", "calls", 60),
        Message("row 3", None, "7", None, 1704067220, "bye", "calls", 60),
    ]


def test_ids_stored_as_floats_become_integers(tmp_path):
    path = tmp_path / "forum.parquet"
    pq.write_table(pa.table({"id": [1, 2], "parent": [None, 1.0], "text": ["a", "b"]}), path)
    assert [(message.id, message.parent) for message in read(log(path))] == [("1", ""), ("2", "1")]


@pytest.mark.parametrize(
    "record",
    [
        {"id": "u1", "conversation_id": "u0", "reply-to": "u0", "speaker": "Ann", "timestamp": 5, "text": "so"},
        {"id": "u1", "root": "u0", "reply_to": "u0", "user": "Ann", "timestamp": "5", "text": "so", "meta": {}},
    ],
)
def test_both_versions_of_convokits_utterances_are_reply_links(tmp_path, record):
    path = write(tmp_path / "utterances.jsonl", record)
    assert read(log(path)) == [Message("u1", "u0", "u0", "Ann", 5, "so", "utterances", None)]


@pytest.mark.parametrize("ending", [".jsonl", ".json", ".parquet"])
def test_each_list_of_messages_with_roles_is_a_thread(tmp_path, ending):
    image = {"type": "image_url", "text": None}
    rows = [
        {"messages": [{"role": "system", "content": [{"type": "text", "text": "Be kind."}]}]},
        {
            "messages": [
                {"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]},
                {"role": "assistant", "content": None},
                {"role": "chatbot", "content": [{"type": "text", "text": "A heron."}]},
            ]
        },
    ]
    path = tmp_path / f"chats{ending}"
    if ending == ".parquet":
        pq.write_table(pa.Table.from_pylist(rows), path)
    else:
        write(path, rows) if ending == ".json" else write(path, *rows)
    chats = log(path)
    content = json.dumps([("user", "What is this?"), ("assistant", None), ("chatbot", "A heron.")])
    name = hashlib.sha256(content.encode()).hexdigest()[:16]
    assert read(chats) == [
        Message(f"{name}/0", None, f"chats/{name}", "user", None, "What is this?", "chats", None),
        Message(f"{name}/2", None, f"chats/{name}", "assistant", None, "A heron.", "chats", None),
    ]
    assert chats.left_out == {"role system": 1, "no content": 1}


@pytest.mark.parametrize("kind", ["messages", "conversations"])
def test_the_thread_of_a_conversation_without_an_id_does_not_depend_on_other_records(tmp_path, kind):
    def record(text: str) -> dict:
        keys = ("role", "content") if kind == "messages" else ("from", "value")
        return {kind: [dict(zip(keys, values, strict=True)) for values in (("user", text), ("assistant", "Yes"))]}

    before = read(log(write(tmp_path / "a" / "chats.jsonl", record("One?"), record("Two?"))))
    after = read(log(write(tmp_path / "b" / "chats.jsonl", record("Zero?"), record("Two?"), record("One?"))))
    assert len({message.thread for message in before}) == 2
    assert set(before) == {message for message in after if message.thread in {m.thread for m in before}}


def test_claudes_texts_are_in_their_parts(tmp_path):
    parts = [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "Until eight."}, None]
    asked = {"uuid": "a", "sender": "human", "text": "Until when?", "content": [], "created_at": "2026-03-01T10:00:00Z"}
    answers = [
        {"uuid": "b", "sender": "assistant", "text": "", "content": parts},
        {"uuid": "c", "sender": "human", "text": "Thanks"},
    ]
    chat = {"uuid": "x", "name": "", "account": {"uuid": "y"}, "chat_messages": [asked, None, *answers]}
    chats = log(write(tmp_path / "conversations.json", [chat]))
    assert [(message.speaker, message.text) for message in read(chats)] == [
        ("human", "Until when?"), ("assistant", "Until eight."), ("human", "Thanks"),
    ]  # fmt: skip
    assert chats.broken.counts == {"wrong type": 1}


def discord(number: int, text: str, **more: object) -> dict:
    author = {"id": "9", "name": "ann", "discriminator": "0000", "isBot": False}
    time = f"2024-05-01T10:0{number}:00.5+00:00"
    return {"id": str(number), "type": "Default", "timestamp": time, "content": text, "author": author, **more}


@pytest.mark.parametrize("indent", [None, 2])
def test_a_discord_export_is_a_channel_with_replies(tmp_path, indent):
    messages = [
        discord(1, "anyone here?"),
        discord(2, "", type="GuildMemberJoin"),
        discord(3, "beep", author={"name": "helper", "isBot": True}),
        discord(4, "yes", type="Reply", reference={"messageId": "1"}, author={"name": "old", "discriminator": "0042"}),
        discord(5, "from elsewhere", reference={"messageId": "77", "guildId": "8"}),
        discord(6, "", reference={"messageId": "78"}, forwardedMessage={"content": "from elsewhere, too"}),
        discord(7, "to a deleted one", type="Reply", reference=None),
    ]
    export = {"guild": {"name": "Birds"}, "channel": {"id": "c1", "name": "herons"}, "messages": messages}
    path = tmp_path / "birds.json"
    path.write_text(json.dumps(export, indent=indent), encoding="utf-8")
    channel = log(path)
    start, source = 1714557600.5, "Birds/herons"
    assert read(channel) == [
        Message("1", None, "c1", "ann", start + 60, "anyone here?", source, CHANNEL_GAP),
        Message("4", "1", "c1", "old#42", start + 240, "yes", source, CHANNEL_GAP),
        Message("7", "deleted", "c1", "ann", start + 420, "to a deleted one", source, CHANNEL_GAP),
    ]
    assert channel.left_out == {"type GuildMemberJoin": 1, "bot": 1, "forwarded": 2}


def slack_export(folder: Path) -> Path:
    write(folder / "users.json", [{"id": "U1", "name": "ann"}, {"id": "U2", "name": "ben"}])
    write(folder / "channels.json", [{"id": "C1", "name": "birds"}])
    said = {"type": "message", "user": "U1"}
    write(
        folder / "birds" / "2024-01-02.json",
        [{**said, "user": "U2", "ts": "1704153601.000200", "thread_ts": "1704067200.000100", "text": "in a day"}],
    )
    write(
        folder / "birds" / "2024-01-01.json",
        [
            {**said, "ts": "1704067200.000100", "thread_ts": "1704067200.000100", "text": "<@U2|> when?"},
            {**said, "ts": "1704067300.000000", "subtype": "channel_join", "text": "<@U1> has joined"},
            {**said, "ts": "1704067400.000000", "bot_id": "B1", "text": "build broken"},
            {**said, "ts": "1704067450.000000", "subtype": "bot_message", "text": "build repaired"},
            {
                **said,
                "ts": "1704067500.000000",
                "text": "<https://x.org/a|this>, <https://y.org>, <#C1>, <#C9|nests>, <@U9>, <!here>, a &amp; &amp;lt;",
            },
        ],
    )
    return folder


@pytest.mark.parametrize(("folder", "names"), [("team export/", True), ("", False), ("team export/", False)])
@pytest.mark.parametrize("zipped", [False, True])
def test_a_slack_export_may_be_in_a_folder_and_lack_its_lists(tmp_path, folder, names, zipped):
    path = slack_export(tmp_path / "team" / folder)
    for file in path.glob("*.json") if not names else ():
        file.unlink()
    path = tmp_path / "team"
    if zipped:
        with zipfile.ZipFile(tmp_path / "team.zip", "w") as archive:
            archive.writestr("__MACOSX/team/._users.json", b"")
            for file in sorted(path.rglob("*.json")):
                archive.write(file, file.relative_to(path))
        path = tmp_path / "team.zip"
    messages = read(log(path))
    assert {message.speaker for message in messages} == ({"ann", "ben"} if names else {"U1", "U2"})
    assert {message.source for message in messages} == {"team/birds"} and len(messages) == 3


def test_a_slack_export_has_threads_and_other_messages_by_channel(tmp_path):
    team = log(slack_export(tmp_path / "team"))
    thread = "team/birds/1704067200.000100"
    shown = "this, https://y.org, #birds, #nests, @U9, @here, a & &lt;"
    assert read(team) == [
        Message("1704067200.000100", None, thread, "ann", 1704067200.0001, "@ben when?", "team/birds", None),
        Message("1704067500.000000", None, "team/birds", "ann", 1704067500, shown, "team/birds", CHANNEL_GAP),
        Message("1704153601.000200", None, thread, "ben", 1704153601.0002, "in a day", "team/birds", None),
    ]
    assert team.left_out == {"subtype channel_join": 1, "bot": 2}


def test_the_words_of_a_slack_message_may_be_in_its_blocks(tmp_path):
    line = [{"type": "text", "text": "Open, "}, {"type": "user", "user_id": "U2"}, {"type": "text", "text": "? "},
            {"type": "link", "url": "https://x.org", "text": "this"}, {"type": "emoji", "name": "wave"}]  # fmt: skip
    item = {"type": "rich_text_section", "elements": [{"type": "text", "text": "one"}]}
    rich = [{"type": "rich_text_section", "elements": line}, {"type": "rich_text_list", "elements": [item, item]}]
    section = {"type": "section", "text": {"type": "mrkdwn", "text": "a &amp; <@U1>"}, "fields": [{"text": "b"}]}
    blocks = [[{"type": "rich_text", "elements": rich}], [section, {"type": "header", "text": {"text": "c"}}]]
    said = [{"type": "message", "ts": str(number), "text": "", "blocks": each} for number, each in enumerate(blocks)]
    write(slack_export(tmp_path / "team") / "birds" / "2024-01-01.json", said)
    (tmp_path / "team" / "birds" / "2024-01-02.json").unlink()
    texts = [message.text for message in read(log(tmp_path / "team"))]
    assert texts == ["Open, @ben? this:wave:\none\none", "a & @ann\nb\nc"]


@pytest.mark.timeout(20)
def test_a_slack_export_of_many_channels_is_read_in_seconds(tmp_path):
    day = json.dumps([{"type": "message", "user": "U1", "ts": "1704067200.0", "text": "hi"}])
    with zipfile.ZipFile(tmp_path / "team.zip", "w") as archive:
        for number in range(4_000):
            archive.writestr(f"channel-{number}/2024-01-01.json", day)
    assert len(read(log(tmp_path / "team.zip"))) == 4_000


URL = "https://a.example/?order=1&section=2&copy=3"


@pytest.mark.parametrize(
    ("name", "content", "texts"),
    [
        ("table.csv", f"thread,text\n1,{URL}\n1,a &amp; b &amp;lt;\n", [URL, "a & b &lt;"]),
        ("table.csv", "thread,text\n1,<p>a &amp;lt; b</p>\n1,<p>c</p>\n", ["a &lt; b", "c"]),
        ("chat.txt", f"Ann: {URL}\nBen: &amp; is HTML\nAnn: so\nBen: yes\n", [URL, "&amp; is HTML", "so", "yes"]),
        ("call.srt", f"1\n00:01 --> 00:02\nAnn: {URL}\n\n2\n00:02 --> 00:03\nBen: a &amp; b\n", [URL, "a & b"]),
    ],
)
def test_texts_are_unescaped_once_where_a_program_escaped_them(tmp_path, name, content, texts):
    (tmp_path / name).write_text(content)
    assert [message.text for message in read(log(tmp_path / name))] == texts


def bytes_of(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("make", "broken"),
    [
        (
            lambda at: bytes_of(at / "c.csv", b'input,response\na,"b"c\nd,\xc3\xa9\nf,caf\xe9\ng\n"open,h\n'),
            [
                "c.csv:2: not CSV (',' expected after '\"')",
                "c.csv:4: not UTF-8 (byte 0xe9)",
                "c.csv:5: wrong number of fields (expected 2, found 1)",
                "c.csv:6: not CSV (unexpected end of data)",
            ],
        ),
        (
            lambda at: bytes_of(at / "c.jsonl", b'{"input": "d", "response": "e"}\n{"input": \n[1]\n{"input": 1}\n'),
            [
                "c.jsonl:2: not JSON (Expecting value",
                "c.jsonl:3: not a JSON object (found list)",
                "c.jsonl:4: wrong type (input and response should be texts)",
            ],
        ),
        (
            lambda at: write(at / "c.json", [{"input": "d", "response": "e"}, 7]),
            ["c.json: record 2: not a JSON object (found int)"],
        ),
        (
            lambda at: write(
                at / "c.jsonl",
                {"messages": [{"role": "user", "content": "d"}]},
                {"messages": "d"},
                {"messages": [{"content": "d"}]},
                {"messages": [None, {"role": "user", "content": 4}]},
            ),
            [
                "c.jsonl:2: wrong type (messages should be a list of objects)",
                "c.jsonl:3: message 1: wrong type (role should be a text, found NoneType)",
                "c.jsonl:4: message 1: wrong type (expected an object, found NoneType)",
                "c.jsonl:4: message 2: wrong type (content should be a text or a list of parts, found int)",
            ],
        ),
        (
            lambda at: write(
                at / "c.jsonl",
                {"thread": 1, "time": 1, "text": "d"},
                {"thread": None, "time": 1, "text": "d"},
                {"thread": 1, "time": "noon", "text": "d"},
                {"thread": 1, "time": float("nan"), "text": "d"},
                {"thread": [1], "time": 1, "text": "d"},
                {"thread": 1, "time": 1},
            ),
            [
                "c.jsonl:2: missing field (thread)",
                "c.jsonl:3: wrong time (expected a number or a date such as 2026-03-31, found str)",
                "c.jsonl:4: wrong time (expected a number or a date such as 2026-03-31, found float)",
                "c.jsonl:5: wrong type (thread should be a text or a number, found list)",
                "c.jsonl:6: event without a text (text is null or missing)",
            ],
        ),
        (
            lambda at: write(at / "c.jsonl", {"id": 1, "parent": 2, "text": "d"}, {"parent": 2, "text": "d"}),
            ["c.jsonl:2: missing field (id)"],
        ),
        (
            lambda at: write(
                at / "c.json",
                {
                    "guild": {},
                    "channel": {"id": "1"},
                    "messages": [discord(1, "d"), {"id": "2"}, discord(3, "d", timestamp=None)],
                },
            ),
            [
                "c.json:1: message 2: wrong type (author should be an object, found NoneType)",
                "c.json:1: message 3: wrong time (expected a number or a date such as 2026-03-31, found NoneType)",
            ],
        ),
        (
            lambda at: write(
                slack_export(at / "c") / "birds" / "2024-01-01.json",
                [{"type": "message", "user": "U1", "text": "d"}, None],
            ).parents[1],
            [
                "birds/2024-01-01.json: message 1: missing field (ts)",
                "birds/2024-01-01.json: message 2: wrong type (expected an object, found NoneType)",
            ],
        ),
    ],
)
def test_broken_records_are_counted_with_their_locations_and_the_others_are_read(tmp_path, make, broken):
    a_log = log(make(tmp_path))
    assert len(read(a_log)) == 1
    examples = sorted(a_log.broken.examples)
    assert len(examples) == len(broken)
    for example, expected in zip(examples, broken, strict=True):
        assert expected in example


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ('"a,b', "a record of more than 1,000 lines"),
        ('"' + "a" * 200_000, "field larger than field limit (131072)"),
        ('a,"b', "a record of more than 1,000 lines"),
    ],
)
def test_an_unclosed_csv_quote_loses_only_its_line(tmp_path, line, reason):
    path = tmp_path / "c.csv"
    path.write_text(f"input,response\n{line}\n" + "c,d\n" * 5_000, encoding="utf-8")
    pairs = log(path)
    assert read(pairs) == [Pair("c", "d", None, "c")] * 5_000
    assert pairs.broken.examples == [f"{path}:2: not CSV ({reason}; the quote that opens here is never closed)"]


def test_a_csv_quote_that_another_one_closes_loses_only_its_line(tmp_path):
    path = tmp_path / "c.csv"
    rows = ['"a,b', "c,d", 'e,"f"', "g,h", '"i', 'j,k",l', 'm,"n\no"', '"p', "q,r"]
    path.write_text("input,response\n" + "\n".join(rows), encoding="utf-8")
    pairs = log(path)
    assert [tuple(pair[:2]) for pair in read(pairs)] == [
        ("c", "d"), ("e", "f"), ("g", "h"), ("i\nj,k", "l"), ("m", "n\no"), ("q", "r")
    ]  # fmt: skip
    assert [example.partition(": ")[0] for example in pairs.broken.examples] == [f"{path}:2", f"{path}:10"]


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        (
            lambda at: write(at / "c.jsonl", {"id": 1, "parent": 2, "text": "x"}),
            {"speaker": "author.name"},
            "--columns speaker=author.name: no such column in",
        ),
        (lambda at: slack_export(at / "team"), {"text": "body"}, "team is a chat export with fixed columns"),
        (
            lambda at: write(at / "c.jsonl", {"messages": [{"role": "user", "content": "x"}]}),
            {"gap": 60},
            "--gap: pauses do not end conversations in the format of",
        ),
        (
            lambda at: bytes_of(at / "c.json", b'[{"input": "a", "response": "b"}, {'),
            {},
            "not JSON, after 1 complete record",
        ),
        (lambda at: bytes_of(at / "c.json", b'{"input": \n "a"'), {}, "c.json: not JSON and not JSON lines either"),
        (lambda at: bytes_of(at / "c.tar", b"no archive"), {}, "c.tar: an archive of several files; unpack it"),
        (lambda at: bytes_of(at / "c.zip", b"no archive"), {}, "c.zip: not a readable .zip"),
        (lambda at: at, {}, "neither a Slack export (with users.json"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_message(tmp_path, make, options, message):
    with pytest.raises(InputError) as error:
        read(log(make(tmp_path), **options))
    assert message in str(error.value)
