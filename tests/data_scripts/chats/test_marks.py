"""Columns that say which records are left out: in tables, and in the messages of a record."""

from pathlib import Path
from typing import Any

import pytest

from tests.data_scripts.chats.reading import read_items

SAID = (("Ann", "Is it open?"), ("Fin", "I am new here."), ("Ben", "Yes."), ("Ann", "Thanks."))


def read(folder: Path, marks: list[dict[str, Any]], as_table: bool) -> tuple[list[str], dict[str, int]]:
    """The texts of the messages `SAID`, each with its marks, and what was left out."""
    messages = [{"author": {"name": name, **mark.pop("author", {})}, "body": text, **mark}
                for (name, text), mark in zip(SAID, map(dict, marks), strict=False)]  # fmt: skip
    records = [{"ticket": 1, **message} for message in messages] if as_table else [{"comments": messages}]
    items, log = read_items(folder / "c.jsonl", records)
    return [item.text for item in items], dict(log.left_out)


@pytest.mark.parametrize("as_table", [False, True])
@pytest.mark.parametrize(
    ("said", "marked", "kind"),
    [
        ({"private": False}, {"private": True}, "internal note"),
        ({"is_internal": None}, {"is_internal": "True"}, "internal note"),
        ({"part_type": "comment"}, {"part_type": "note"}, "internal note"),
        ({}, {"author": {"bot": True}}, "bot"),
        ({"author": {"type": "user"}}, {"author": {"type": "bot"}}, "bot"),
        ({"sender_role": "agent"}, {"sender_role": "Support Bot"}, "bot"),
        ({"bot_id": None}, {"bot_id": "B01"}, "bot"),
        ({"bot_id": 0}, {"bot_id": "B01"}, "bot"),
        ({"is_public": 1}, {"is_public": 0}, "internal note"),
        ({"messagetype": "RichText"}, {"messagetype": "ThreadActivity/AddMember"}, "type threadactivity/addmember"),
        ({"messagetype": "Text"}, {"messagetype": "RichText/UriObject"}, "type richtext/uriobject"),
    ],
)
def test_marked_messages_are_left_out_and_counted(tmp_path, as_table, said, marked, kind):
    texts, left_out = read(tmp_path, [said, marked, said, said], as_table)
    assert texts == ["Is it open?", "Yes.", "Thanks."] and left_out == {kind: 1}


@pytest.mark.parametrize("as_table", [False, True])
@pytest.mark.parametrize(
    "mark", [{"author": {"bot": True}}, {"role": "bot"}, {"private": True}, {"type": "text/plain"}, {"bot": "Fin"}]
)
def test_bots_stay_where_nobody_else_answers_and_so_do_values_that_mark_nothing_or_all(tmp_path, as_table, mark):
    marks = [mark, mark] if "private" in mark else [{}, mark]
    assert read(tmp_path, marks, as_table) == (["Is it open?", "I am new here."], {})


@pytest.mark.parametrize("links", [("ticket", [1, 1, 1, 2, 2]), ("parent", ["", 1, 1, "", 4])])
def test_bots_are_left_out_where_somebody_else_answers_in_some_conversation(tmp_path, links):
    names, values = ["Ann", "Fin", "Ben", "Cleo", "Fin"], dict([links])
    rows = [
        {"id": number, "author": name, "body": f"text {number}", "is_bot": name == "Fin"}
        | {column: each[number - 1] for column, each in values.items()}
        for number, name in enumerate(names, start=1)
    ]
    items, log = read_items(tmp_path / "c.jsonl", rows)
    assert [item.speaker for item in items] == ["Ann", "Ben", "Cleo"] and log.left_out == {"bot": 2}


def test_a_bot_that_opens_a_conversation_is_left_out(tmp_path):
    parts = [{"body": text, "author": {"name": name, "type": "user"}, "created_at": 5} for name, text in SAID[2:]]
    record = {"source": {"body": "Hello!", "author": {"name": "Fin", "type": "bot"}}, "conversation_parts": parts}
    items, log = read_items(tmp_path / "c.jsonl", [record])
    assert [item.text for item in items] == ["Yes.", "Thanks."] and log.left_out == {"bot": 1}


def test_quotations_and_tags_of_skype_are_removed(tmp_path):
    quote = '<quote author="8:ann"><legacyquote>[1] Ann: </legacyquote>Is it open?</quote>Yes &lt;3 <ss>:)</ss>'
    said = {"messagetype": "RichText"}
    messages = [{"from": name, "originalarrivaltime": "2026-03-01T10:00:00Z", "content": text, **said}
                for name, text in (("8:ann", "Is it open?"), ("8:ben", quote), ("8:ann", "a"))]  # fmt: skip
    items, _ = read_items(tmp_path / "c.json", {"conversations": [{"id": "8:ben", "MessageList": messages}]})
    assert [item.text for item in items] == ["Is it open?", "Yes <3 :)", "a"]


@pytest.mark.parametrize(
    ("name", "values", "kept"),
    [
        ("Label", "1 0", "a"),
        ("is_answer", "True False", "a"),
        ("relevance", "0 0", ""),
        ("is_correct", "yes no", "a"),
        ("label", "0 0", "ab"),  # another class
        ("label", "1 2", "ab"),
        ("relevance", "0.7 0", "ab"),
        ("answer_label_of_the_department", "1 0", "ab"),
    ],
)
def test_wrong_answers_are_left_out_where_a_column_says_so(tmp_path, name, values, kept):
    rows = [f"q,{answer},{value}" for answer, value in zip("ab", values.split(), strict=True)]
    items, log = read_items(tmp_path / "c.csv", "\n".join([f"question,answer,{name}", *rows]))
    assert "".join(item.response for item in items) == kept
    columns = {"input": "question", "response": "answer", "source": name}  # which says something else, then
    assert len(read_items(tmp_path / "c.csv", columns=columns)[0]) == 2
    assert log.left_out == ({f"wrong answer ({name})": 2 - len(kept)} if len(kept) < 2 else {})
