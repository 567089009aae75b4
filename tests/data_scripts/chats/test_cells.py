"""Conversations in the rows of a table: transcripts in cells."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest

from data_scripts.chats.messages import ChatLog, Message, Pair
from modeling_convsim.files.errors import InputError
from tests.data_scripts.chats.reading import read_items

Said = list[tuple[str | None, str]]
CALL: Said = [("Customer", "hello, is anybody there?"), ("Agent", "yes, what can I do?"), ("Customer", "my parcel")]
CHAT: Said = [CALL[0], ("Agent", "within thirty days"), ("Customer", "thanks a lot")]


def read(path: Path, rows: list[dict[str, Any]], **columns: str) -> tuple[list[Any], ChatLog]:
    """Writes JSON lines, or CSV, and reads it."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        if path.suffix == ".csv":
            table = csv.DictWriter(stream, list(rows[0]))
            table.writeheader()
            table.writerows(rows)
        else:
            stream.writelines(json.dumps(row) + "\n" for row in rows)
    return read_items(path, columns=columns)


def conversations(items: list[Message]) -> list[Said]:
    """(Speaker, text) by conversation, in the order of the file."""
    threads: dict[str | None, Said] = {}
    for item in items:
        assert item.parent is None and item.gap is None
        threads.setdefault(item.thread, []).append((item.speaker, item.text))
    return list(threads.values())


def cell(said: Said, line: str = "{}: {}", between: str = "\n") -> str:
    return between.join(line.format(*message) for message in said)


@pytest.mark.parametrize("name", ["c.csv", "c.jsonl"])
@pytest.mark.parametrize(
    ("line", "between"),
    [
        ("{}: {}", "\n"),
        ("[10:02:03] {}: {}", "\n"),
        ("(10:02 AM) {}:  {}", "\r\n"),
        ("{}: {}", "<br>"),
        ("{}: {}", " <BR /> "),
        ("\n\n{}: {}", ""),
    ],
)
def test_a_transcript_in_a_cell_is_a_conversation(tmp_path, name, line, between):
    rows = [{"id": number, "log": cell(said, line, between)} for number, said in enumerate([CALL, CHAT])]
    items, log = read(tmp_path / name, rows)
    assert conversations(items) == [CALL, CHAT]
    assert log.detected == {"format": "transcripts in the column log", "who answers": "speaker is Agent"}


def test_a_thread_of_one_message_that_is_a_transcript_is_one_too(tmp_path):
    rows = [{"chat_id": number, "Chat Transcript": cell(said)} for number, said in enumerate([CALL, CHAT])]
    assert conversations(read(tmp_path / "c.csv", rows)[0]) == [CALL, CHAT]


def test_lines_that_no_side_begins_continue_a_message(tmp_path):
    note = "Note: only for shoes\nStep 1: pack them\nand send them at\n10:30 in the morning"
    rows = [CALL, [*CHAT[:1], ("Agent", f"within thirty days\n{note}"), *CHAT[2:]]]
    assert conversations(read(tmp_path / "c.csv", [{"log": cell(said)} for said in rows])[0]) == rows


def test_visitors_may_have_names(tmp_path):
    names = ["Ann Baker", "Dario", "Elena"]
    rows = [[(name if who == "Customer" else "Bot 7", text) for who, text in CALL] for name in names]
    rows[0][1] = ("Bot 7", "yes, but\nPS: not today")
    rows[1].insert(2, ("Priya", "I take over"))
    rows[1].append(("Priya", "which one?"))
    assert conversations(read(tmp_path / "c.csv", [{"log": cell(said)} for said in rows])[0]) == rows


def test_headings_and_notices_are_counted(tmp_path):
    cells = [
        f"Chat started: 2026-03-0{number} 10:00 AM\n\n(10:00:05) {who}: where is it?\nwhere?\n"
        "(10:00:09) *** Anna joined the chat ***\n(10:01:00) Anna: on its way\n"
        f"(10:02:00) {who}: thanks\n*** {who} left ***"
        for number, who in enumerate(["Visitor 11", "Ben", "Cleo D"], start=1)
    ]
    items, log = read(tmp_path / "c.csv", [{"id": number, "Transcript": text} for number, text in enumerate(cells)])
    assert conversations(items) == [
        [(who, "where is it?\nwhere?"), ("Anna", "on its way"), (who, "thanks")]
        for who in ["Visitor 11", "Ben", "Cleo D"]
    ]
    assert log.broken.counts == {"notice": 9}
    assert any("notice ((10:00:09) *** Anna joined the chat ***)" in each for each in log.broken.examples)


def test_two_people_may_have_other_names_in_each_conversation(tmp_path):
    rows = [[(f"{who} {number}", text) for who, text in CALL] for number in ("one", "two", "three")]
    assert conversations(read(tmp_path / "c.csv", [{"log": cell(said)} for said in rows])[0]) == rows


def test_equal_conversations_have_equal_ids(tmp_path):
    items, _ = read(tmp_path / "c.csv", [{"log": cell(said)} for said in (CALL, CHAT, CALL)])
    assert [item.id for item in items[6:]] == [item.id for item in items[:3]] != [item.id for item in items[3:6]]
    assert len({item.id for item in items}) == 6
    assert items[3:6] == read(tmp_path / "d.csv", [{"log": cell(said)} for said in (CHAT, CALL)])[0][:3]


def test_rows_without_a_conversation_are_counted(tmp_path):
    texts = [*map(cell, [CALL, CHAT] * 5), "", "Agent: hello?"]
    items, log = read(tmp_path / "c.csv", [{"id": number, "log": text} for number, text in enumerate(texts)])
    assert len(conversations(items)) == 2
    assert log.broken.counts == {"no conversation": 2}
    assert any("c.csv:33" in each and "found 1 messages, expected two" in each for each in log.broken.examples)


def test_of_preferences_the_chosen_conversations_are_read(tmp_path):
    rows = [{"chosen": cell(said, "\n\n{}: {}"), "rejected": cell(said[:2], "\n\n{}: {}")} for said in (CALL, CHAT)]
    assert conversations(read(tmp_path / "c.jsonl", rows)[0]) == [CALL, CHAT]
    rows = [{"prompt": "can I return shoes?", "chosen": "within thirty days", "rejected": "I do not know that"}]
    assert read(tmp_path / "c.jsonl", rows)[0] == [Pair("can I return shoes?", "within thirty days", None, "c")]


MAIL = "Subject: the parcel\nFrom: Ann\nTo: Ben\nwhere is it, I wonder?"


@pytest.mark.parametrize(
    "rows",
    [
        [{"body": MAIL}, {"body": MAIL.replace("Ann", "Cleo")}],  # fields of a mail
        [{"note": "Ann: hello you there"}, {"note": "Ben: hello to you, too"}],
        [{"a": cell(CALL), "b": cell(CHAT)}, {"a": cell(CHAT), "b": cell(CALL)}],  # which one?
        [{"log": cell(CALL)}, {"log": "nothing was said here"}],
        [{"log": cell(CALL)}],  # one text is not enough to tell
    ],
)
def test_other_texts_are_not_taken_for_transcripts(tmp_path, rows):
    with pytest.raises(InputError, match="the columns are"):
        read(tmp_path / "c.jsonl", rows)


def test_a_table_with_a_shape_of_its_own_is_not_taken_for_transcripts(tmp_path):
    rows = [{"context": cell(said[:2]), "response": said[2][1]} for said in (CALL, CHAT)]
    items, _ = read(tmp_path / "c.jsonl", rows)
    assert [(item.input, item.response) for item in items] == [(row["context"], row["response"]) for row in rows]
    rows = [{"thread": 1, "text": said[0][1], "transcript": cell(said)} for said in (CALL, CHAT)]
    assert [item.text for item in read(tmp_path / "c.jsonl", rows)[0]] == [CALL[0][1], CHAT[0][1]]
    items, _ = read(tmp_path / "c.jsonl", [{"thread": 1, "log": cell(said)} for said in (CALL, CHAT)], text="log")
    assert [item.text for item in items] == [cell(CALL), cell(CHAT)]  # what the user states counts
