"""Messages within records, and records within the only object of a file."""

from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from data_scripts.chats.logs import read_log
from data_scripts.chats.messages import ChatLog, Message
from modeling_convsim.files.errors import InputError
from tests.data_scripts.chats.reading import read_items


def read(path: Path, content: Any, **columns: str) -> tuple[list[Any], ChatLog]:
    return read_items(path, content, columns=columns)


def ticket(number: int) -> dict[str, Any]:
    comments = [
        {"id": 1, "author_id": 5, "body": f"question {number}", "created_at": "2026-03-01T00:00:00Z"},
        {"id": 2, "author_id": 6, "body": f"answer {number}", "created_at": "2026-03-01T00:01:00Z"},
    ]
    return {"id": number, "subject": "a subject of some words", "tags": [{"name": "a"}], "comments": comments}


@pytest.mark.parametrize(
    ("name", "wrap"),
    [
        ("c.jsonl", lambda tickets: tickets),
        ("c.json", lambda tickets: tickets),
        ("c.json", lambda tickets: {"next_page": None, "data": {"tickets": tickets}}),
    ],
)
def test_the_messages_of_each_record_are_a_conversation(tmp_path, name, wrap):
    items, log = read(tmp_path / name, wrap([ticket(1), ticket(2), ticket(1)]))
    assert [(item.text, item.speaker, item.time, item.gap) for item in items[:2]] == [
        ("question 1", "5", 1772323200, None), ("answer 1", "6", 1772323260, None),
    ]  # fmt: skip
    threads = [item.thread for item in items]
    assert threads[0] == threads[1] != threads[2] == threads[3]
    assert [item.id for item in items[4:]] == [item.id for item in items[:2]]  # counted as ids seen before
    assert len({item.id for item in items}) == 4 and {item.parent for item in items} == {None}
    assert log.detected == {"format": "comments of each record (text=body, speaker=author_id, time=created_at)"}


def test_parquet_is_read_like_json(tmp_path):
    expected, _ = read(tmp_path / "c.jsonl", [ticket(1), ticket(2)])
    for rows in ([ticket(1), ticket(2)], [{"count": 2, "tickets": [ticket(1), ticket(2)]}]):
        parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "c.parquet")
        log = ChatLog(tmp_path / "c.parquet", "c")
        assert [item for _, item in read_log(log)] == expected


def test_records_whose_messages_are_no_list_of_objects_are_counted(tmp_path):
    rows = [ticket(1), {"comments": "none"}, {"id": 3}, {"comments": ["a"]}, {"comments": []}]
    items, log = read(tmp_path / "c.jsonl", rows)
    assert len(items) == 2 and log.broken.counts == {"wrong type": 3}
    assert "c.jsonl:2" in log.broken.examples[0] and "comments should be a list of objects" in log.broken.examples[0]


def test_messages_with_a_name_and_a_text_are_not_taken_for_messages_with_roles(tmp_path):
    said = [{"sender": "Ann", "text": "a"}, {"sender": "Ben", "text": "b"}]
    items, log = read(tmp_path / "c.jsonl", [{"messages": said}])
    assert [item.speaker for item in items] == ["Ann", "Ben"] and log.detected["format"].startswith("messages of each")
    odd = [{"messages": []}, {"error": 1}, {"messages": [{"content": "a"}]}]  # recognized by more than the first
    roles = [{"role": role, "content": role} for role in ("user", "bot", "agent")]
    items, log = read(tmp_path / "c.jsonl", [*odd, {"messages": roles}])
    assert [item.speaker for item in items] == ["user", "agent"] and log.left_out == {"bot": 1}
    assert log.detected == {"format": "messages with roles"}


def test_the_contents_of_gemini_have_roles_and_parts(tmp_path):
    said = [{"role": "user", "parts": [{"text": "a"}, {"text": "b"}]}, {"role": "model", "parts": [{"text": "c"}]}]
    items, log = read(tmp_path / "c.jsonl", [{"contents": said}])
    assert [(item.speaker, item.text) for item in items] == [("user", "a\nb"), ("model", "c")]
    assert log.detected == {"format": "messages with roles"}


def test_a_list_of_texts_is_a_conversation_whose_speakers_are_not_known(tmp_path):
    rows = [{"dialog": ["a", "b"], "emotion": [0, 1]}, {"dialog": ["c", 3], "emotion": [0]}]
    items, log = read(tmp_path / "c.jsonl", rows)
    assert [(item.text, item.speaker, item.thread) for item in items] == [
        (text, None, items[0].thread) for text in "ab"
    ]
    assert log.detected == {"format": "dialog of each record (texts)"} and log.broken.counts == {"wrong type": 1}
    assert "dialog should be a list of texts" in log.broken.examples[0]


def test_turns_with_texts_alone_are_a_conversation_also_in_an_object_of_conversations(tmp_path):
    turns = {name: {"log": [{"text": name, "metadata": {}}, {"text": "b", "metadata": {"a": 1}}]} for name in "xy"}
    for content in (turns, list(turns.values())):
        items, log = read(tmp_path / "c.json", content)
        assert [item.text for item in items] == ["x", "b", "y", "b"]
        assert items[0].thread == items[1].thread != items[2].thread == items[3].thread
        assert log.detected == {"format": "log of each record (text=text)"}


def test_an_object_of_lists_of_messages_has_a_conversation_in_each(tmp_path):
    def said(name: str, text: str, second: int) -> dict[str, Any]:
        return {"From": name, "Media Type": "TEXT", "Created": f"2026-03-01 00:00:0{second} UTC", "Content": text}

    chats = {name: [said(name, f"hello {name}", 1), said("me", "hi", 2)] for name in ("ann", "ben")}
    items, log = read(tmp_path / "c.json", {"cid": [], **chats})
    assert [(item.speaker, item.text) for item in items] == [
        ("ann", "hello ann"), ("me", "hi"), ("ben", "hello ben"), ("me", "hi"),
    ]  # fmt: skip
    assert items[0].thread == items[1].thread != items[2].thread == items[3].thread
    assert log.detected["format"].startswith("messages of each record (text=Content, speaker=From")
    for other in ({"posts": chats["ann"], "replies": chats["ben"]}, {**chats, "people": [{"name": "ann", "age": 3}]}):
        with pytest.raises(InputError, match="the columns are"):
            read(tmp_path / "c.json", other)


@pytest.mark.parametrize(
    "record",
    [
        {"answers": [{"author": "Ann", "text": "a"}, {"author": "Ben", "text": "b"}]},  # each answers the question
        {"comments": [{"text": "a"}, {"text": "b"}]},  # by whom, or when?
        {"data": ["a tag", "another"]},
        {"history": ["a", "b"], "response": "c"},
        {"dialog": ["a", "b"], "comments": [{"author": "Ann", "text": "a"}]},
        {"turns": [{"author": "Ann", "text": "a"}], "comments": [{"author": "Ann", "text": "a"}]},
    ],
)
def test_other_lists_are_no_conversations(tmp_path, record):
    with pytest.raises(InputError, match=r"the columns are .*; expected "):
        read(tmp_path / "c.jsonl", [record, record])


def test_a_table_or_pairs_with_lists_stay_what_they_are(tmp_path):
    comments = [{"author": "Ann", "text": "a"}]
    items, _ = read(tmp_path / "c.jsonl", [{"thread": 1, "text": "b", "comments": comments}])
    assert items == [Message("row 1", None, "1", None, None, "b", "c", None)]
    items, _ = read(tmp_path / "c.jsonl", [{"question": "b", "answer": "c", "comments": comments}])
    assert (items[0].input, items[0].response) == ("b", "c")
    items, _ = read(tmp_path / "c.jsonl", [ticket(1)], thread="id", text="subject")
    assert [item.text for item in items] == ["a subject of some words"]


def test_the_only_list_of_an_object_has_the_records(tmp_path):
    rows = [{"chat": 1, "from": name, "message": name} for name in ("Ann", "Ben")]
    items, log = read(tmp_path / "c.json", {"count": 2, "data": {"items": rows}})
    assert [(item.thread, item.speaker, item.text) for item in items] == [("1", "Ann", "Ann"), ("1", "Ben", "Ben")]
    assert log.detected == {"columns": "text=message thread=chat speaker=from"}
    _, log = read(tmp_path / "c.json", {"data": {"items": [rows[0], {"chat": 1, "from": "Ben"}]}})
    assert "data.items 2: event without a text" in log.broken.examples[0]
    named, _ = read(tmp_path / "c.json", {"data": {"items": rows}}, text="message", thread="chat", speaker="from")
    assert named == items
    odd, _ = read(tmp_path / "c.json", [{"deleted": True}, *rows])
    assert [item.text for item in odd] == ["Ann", "Ben"]
    with pytest.raises(InputError, match="the columns are items, users; expected"):
        read(tmp_path / "c.json", {"items": rows, "users": [{"name": "Ann"}]})


OPENINGS = {
    "a ticket with its description": {
        "id": 7,
        "subject": "a subject of some words",
        "description": "<div>question</div>",
        "description_text": "question",
        "requester_id": 5,
        "created_at": "2026-03-01T00:00:00Z",
        "conversations": [
            {"body": "<p>answer</p>", "body_text": "answer", "user_id": 6, "created_at": "2026-03-01T00:01:00Z"}
        ],
    },
    "an issue": {
        "title": "a title of some words",
        "body": "question",
        "user": {"login": "5"},
        "created_at": "2026-03-01T00:00:00Z",
        "comments": [{"body": "answer", "user": {"login": "6"}, "created_at": "2026-03-01T00:01:00Z"}],
    },
    "an object with the first message": {
        "created_at": 1772323200,
        "source": {"body": "question", "author": {"name": "5"}},
        "conversation_parts": {
            "conversation_parts": [{"body": "answer", "author": {"name": "6"}, "created_at": 1772323260}]
        },
    },
}


@pytest.mark.parametrize("record", OPENINGS.values(), ids=OPENINGS)
def test_the_description_of_a_ticket_is_its_first_message(tmp_path, record):
    items, log = read(tmp_path / "c.jsonl", [record])
    assert [(item.text, item.speaker) for item in items] == [("question", "5"), ("answer", "6")]
    first = items[1].time if "source" in record else items[1].time - 60  # the object has no time
    assert items[0].thread == items[1].thread and items[0].id != items[1].id and items[0].time == first
    assert read(tmp_path / "d.jsonl", [record, record])[0][2:] == items  # their ids are equal
    assert ", after " in log.detected["format"] and not log.broken.counts


def test_a_description_that_is_also_the_first_message_is_read_once(tmp_path):
    record = ticket(1) | {"description": "question 1", "requester_id": 5}
    items, _ = read(tmp_path / "c.jsonl", [record, ticket(2) | {"description": None, "requester_id": 5}])
    assert [item.text for item in items] == ["question 1", "answer 1", "question 2", "answer 2"]


def test_a_message_that_is_null_is_counted_and_the_others_are_read(tmp_path):
    record = ticket(1)
    items, log = read(tmp_path / "c.jsonl", [record | {"comments": [None, *record["comments"]]}, ticket(2)])
    assert [item.text for item in items] == ["question 1", "answer 1", "question 2", "answer 2"]
    assert log.broken.examples[0].endswith("comments 1: wrong type (expected a message, found null)")
    items, log = read(tmp_path / "d.jsonl", [{"dialog": ["a b", None, "c d"]}, {"dialog": ["e f", "g h"]}])
    assert [item.text for item in items] == ["a b", "c d", "e f", "g h"] and log.broken.counts == {"wrong type": 1}


@pytest.mark.parametrize("name", ["chat_messages", "ticketComments", "all_chat_messages", "Turns"])
def test_the_name_of_the_list_may_end_with_the_usual_one(tmp_path, name):
    items, _ = read(tmp_path / "c.jsonl", [{name: ticket(1)["comments"]}])
    assert [item.text for item in items] == ["question 1", "answer 1"]
