import shlex
from pathlib import Path

import pytest

from data_scripts.chats.column_roles import find_side, guess_roles, shape_of, side_of
from data_scripts.chats.logs import read_log
from data_scripts.chats.messages import ChatLog, Message, Pair
from modeling_convsim.files.errors import InputError
from tests.data_scripts.chats.reading import read_items

SAID = "where is my parcel please", "it is on its way to you", "thank you very much indeed", "you are welcome my friend"


def guess(**columns: list) -> dict[str, str]:
    names = [name.replace("_0_", " #") for name in columns]
    rows = [dict(zip(names, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    roles, ambiguous = guess_roles(names, rows)
    assert not ambiguous
    return roles


@pytest.mark.parametrize(
    ("columns", "roles"),
    [
        ("Ticket #|From|Sent at|Message", "thread|speaker|time|text"),
        ("Conversation ID|AuthorName|createdAt|Body", "thread|speaker|time|text"),
        ("msg_id|in_reply_to|user|content", "id|parent|speaker|text"),
        ("id|thread|Sender Name|sender|timestamp|text", "id|thread||speaker|time|text"),
        ("Question|Answer|id", "input|response|id"),
        ("date|name|comment", "time|speaker|text"),
        ("tweet_id|author_id|created_at|text|in_response_to_tweet_id", "id|speaker|time|text|parent"),
        ("customer|agent", "input|response"),
        ("Q|A", "input|response"),
        ("prompt|chosen|rejected", "input|response|"),
        ("channel|case_number|text", "|thread|text"),
        ("Ticket-Nr|Wann|Wer|Nachricht", "thread|time|speaker|text"),
    ],
)
def test_names_alone_show_the_roles(columns, roles):
    expected = {role: name for name, role in zip(columns.split("|"), roles.split("|"), strict=True) if role}
    assert guess_roles(columns.split("|"), [])[0] == expected


def test_values_decide_which_columns_fit_a_role():
    times = ["2026-03-01 10:00", "01/03/2026", "1/3/26 9:00 PM", "Mar 3, 2026"]
    assert guess(message=[1, 2, 3, 4], content=list(SAID)) == {"text": "content"}
    assert guess(text=list(SAID), date=times, time=["soon"] * 4) == {"text": "text", "time": "date"}
    assert guess(text=list(SAID), user=[True] * 4, author=["a", "b", "a", None]) == {
        "text": "text",
        "speaker": "author",
    }
    assert guess(id=[1, 1, 1, 2], message=list(SAID)) == {"text": "message"}  # ids are unique
    assert guess(customer=["Ann"] * 4, agent=["Ben"] * 4, text=list(SAID)) == {"text": "text"}
    assert guess(text=list(SAID), thread=[{"a": 1}] * 4) == {"text": "text"}


def test_the_speaker_may_be_a_person_or_a_side():
    said = {"text": list(SAID)}
    assert guess(**said, **{"u.id": [1, 2, 1, 2], "u.name": list("abab"), "u.x": list("abab")})["speaker"] == "u.name"
    assert guess(**said, **{"from.user.displayName": list("abab"), "from.user.name": list("cdcd")})["speaker"] == (
        "from.user.displayName"
    )
    assert (
        guess(**said, **{"createdBy.id": [1, 2, 1, 2], "createdBy.email": list("abab")})["speaker"] == "createdBy.email"
    )
    assert guess(**said, **{"sender.t": list("vava"), "sender.n": list("abab")})["speaker"] == "sender.n"
    assert "speaker" not in guess(**said, **{"room.name": list("abab"), "u.color": list("abab")})
    assert guess(**said, event=["user", "bot", "user", "bot"], kind=["a", "b", "a", "b"])["speaker"] == "event"
    assert "speaker" not in guess(**said, event=["user", "bot"] * 2, kind=["agent", "client"] * 2)
    assert "speaker" not in guess(**said, event=["user"] * 4)


def test_the_speaker_may_be_a_flag():
    rows = [{"body": f"a text of words {number}", "incoming": number % 2 == 0, "public": True} for number in range(4)]
    assert guess_roles(["body", "incoming", "public"], rows)[0] == {"text": "body", "speaker": "incoming"}
    named = [{**row, "author": "Ann"} for row in rows]
    assert guess_roles(["body", "incoming", "author"], named)[0]["speaker"] == "author"
    assert guess(text=list(SAID), user=[True] * 4) == {"text": "text"}


def sides(name: str, values: list, **columns: list) -> list[bool | None]:
    """Whether each of four messages is said to answer."""
    columns = {"text": list(SAID), "speaker": ["Ann", "Tom", "Ben", "Tom"], name: values} | columns
    rows = [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]
    column, answering = find_side(list(columns), rows, {"text": "text", "speaker": "speaker", "thread": "thread"})
    return [side_of(row[column]) in answering if answering else None for row in rows]


@pytest.mark.parametrize(
    ("name", "asks", "answers"),
    [
        ("inbound", True, False),
        ("Is Incoming?", "1.0", "0.0"),
        ("is_customer", "yes", None),
        ("sentByAgent", "n", "Y"),
        ("author.is_staff", 0, 1),
        ("direction", "IN", "OUT"),
        ("Direction", "inbound", "outbound-api"),
        ("type", "end-user", "Support Agent"),
        ("type", "Client", "Client Advisor"),
        ("sender_type", "Contact", "User"),
    ],
)
def test_a_column_says_who_answers_in_its_usual_spellings(name, asks, answers):
    assert sides(name, [asks, answers] * 2) == [False, True] * 2


def test_a_column_that_does_not_divide_messages_by_their_authors_says_nothing_of_who_answers():
    assert sides("is_from_me", [False, True] * 2) == [None] * 4  # both friends answer
    assert (
        sides("user", [1, 0] * 2) == sides("label", [1, 0] * 2) == sides("inbound", ["maybe", "no"] * 2) == [None] * 4
    )
    assert sides("inbound", [True] * 4) == sides("inbound", [True, False, False, True]) == [None] * 4
    assert sides("direction", ["in", "in", "out", "out"], speaker=list("abcd"), thread=[1, 1, 2, 2]) == [None] * 4
    assert sides("inbound", [True, False] * 2, is_customer=[False, True] * 2) == [None] * 4
    typed = {"speaker": list("abcd"), "type": ["user", "agent", "user", "bot"]}
    assert sides("inbound", [True, False] * 2, **typed) == [False, True, False, False]
    for answers, found in ((1, ""), (2, "inbound")):  # of 20 messages
        rows = [{"text": "a", "speaker": str(number), "inbound": number >= answers} for number in range(20)]
        assert find_side(["text", "inbound"], rows, {"text": "text", "speaker": "speaker"})[0] == found


def test_the_only_column_of_long_texts_is_the_text():
    for words, found in ((list(SAID), {"text": "col2"}), (["is it so"] * 4, {"text": "col2"}), (["is it"] * 4, {})):
        assert guess(col1=["a", "b", "a", "b"], col2=words) == found
    assert guess(col1=list(SAID), col2=list(SAID)) == {}


def test_two_columns_of_the_same_group_are_ambiguous():
    roles, ambiguous = guess_roles(["thread", "body", "message"], [])
    assert ambiguous == {"text": ["body", "message"]} and shape_of(roles) is None
    assert guess_roles(["thread", "body", "sent", "created"], [])[0]["time"] == "created"


def test_the_only_column_of_times_with_another_name_is_the_time():
    times = [f"2026-03-01T10:0{minute}:00Z" for minute in range(4)]
    seconds = [120, 60, 30, 90]
    assert guess(text=list(SAID), originalarrivaltime=times) == {"text": "text", "time": "originalarrivaltime"}
    assert guess(text=list(SAID), response_time=seconds) == {"text": "text"}
    assert guess(text=list(SAID), start_time=times, end_time=times) == {"text": "text"}
    assert guess(text=list(SAID), sent=times, end_time=times) == {"text": "text", "time": "sent"}


def test_an_instruction_and_its_input_are_one_text(tmp_path):
    rows = [
        {"instruction": SAID[0], "input": "", "output": SAID[1]},
        {"instruction": SAID[2], "input": " 1 + 1 ", "output": SAID[3]},
        {"instruction": SAID[2], "output": SAID[3]},
    ]
    items, log = read(tmp_path / "c.jsonl", *rows)
    assert [(item.input, item.response) for item in items] == [
        (SAID[0], SAID[1]), (f"{SAID[2]} 1 + 1", SAID[3]), (SAID[2], SAID[3]),
    ]  # fmt: skip
    assert log.detected == {"columns": "input=instruction+input response=output"}
    stated, _ = read(tmp_path / "c.jsonl", *rows, input="instruction+input", response="output")
    assert stated == items
    empty, _ = read(tmp_path / "c.jsonl", rows[0])
    assert empty == items[:1]


def read(path: Path, *rows: dict, **columns: str) -> tuple[list, ChatLog]:
    return read_items(path, rows, columns=columns)


def test_a_table_is_read_by_its_guessed_roles_which_are_noted(tmp_path):
    rows = [{"Ticket #": 7, "From": name, "Sent at": "13/03/2026", "Message": name} for name in ("Ann", "Ben")]
    items, log = read(tmp_path / "c.jsonl", *rows)
    assert items[1] == Message("row 2", None, "7", "Ben", 1773360000, "Ben", "c", None)
    columns = "text=Message 'thread=Ticket #' speaker=From 'time=Sent at'"
    assert log.detected == {"columns": columns, "dates": "DMY"}


def test_roles_are_guessed_beside_columns_that_are_named_after_theirs(tmp_path):
    items, log = read(tmp_path / "c.jsonl", {"thread": 1, "from": "Ann", "text": "a", "subject": "b"})
    assert items[0].speaker == "Ann" and log.detected == {"columns": "speaker=from"}
    items, log = read(tmp_path / "c.jsonl", {"input": "a", "response": "b", "conversation": "c"})
    assert items == [Pair("a", "b", None, "c")] and not log.detected
    items, log = read(tmp_path / "c.jsonl", {"thread": 1, "from": "Ann", "text": "a"}, text="from")
    assert items[0] == Message("row 1", None, "1", None, None, "Ann", "c", None) and not log.detected


def test_roles_are_guessed_from_the_fields_of_objects_whose_names_are_those_of_roles(tmp_path):
    sent = {"$date": "2026-03-13T00:00:00Z"}
    row = {"_id": {"$oid": "5f"}, "room": "a", "user": {"id": 7, "name": "Ann"}, "text": "b", "createdAt": sent}
    items, log = read(tmp_path / "c.jsonl", row, row | {"_id": {"$oid": "60"}, "user": None})
    columns = "id=_id.$oid thread=room speaker=user.name time=createdAt.$date"
    assert items[0] == Message("5f", None, "a", "Ann", 1773360000, "b", "c", None)
    assert shlex.split(log.detected["columns"]) == columns.split()
    named = dict(column.split("=") for column in columns.split())
    assert read(tmp_path / "c.jsonl", row, **named)[0] == items[:1] and items[1].speaker is None
    items, log = read(tmp_path / "c.jsonl", row, row | {"text": {"b": "c"}, "user": "Ben"}, row | {"user": "Ben"})
    assert [item.speaker for item in items] == ["Ben"] and log.broken.counts["wrong type"] == 2


def test_a_guess_does_not_change_the_shape_that_names_give_nor_read_times_that_it_does_not_need(tmp_path):
    row = {"thread": 1, "text": "a", "from": "Ann", "message id": 1, "in reply to": 2, "question": "b", "answer": "c"}
    items, log = read(tmp_path / "c.jsonl", row)
    assert items[0] == Message("row 1", None, "1", "Ann", None, "a", "c", None)
    items, log = read(tmp_path / "c.jsonl", {"id": 1, "parent": 2, "text": "a", "time": "soon"})
    assert len(items) == 1 and not log.broken.counts


def test_ambiguous_or_unknown_columns_are_refused_with_the_remedy(tmp_path):
    inspect = r"; `convsim inspect .*c.jsonl` shows"
    with pytest.raises(InputError, match=r"may be the text \(body, message\); .* --columns, as in text=body" + inspect):
        read(tmp_path / "c.jsonl", {"thread": 1, "body": "a", "message": "b"})
    with pytest.raises(InputError, match=r"the columns are a, b; expected .* as in text=b" + inspect):
        read(tmp_path / "c.jsonl", {"a": 1, "b": 22})
    (tmp_path / "c.csv").write_text("1,Ann,Hello\n1,Ben,Hi\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"are 1, Ann, Hello; .*; if the first line is a message, add a header line"):
        list(read_log(ChatLog(tmp_path / "c.csv", "c")))


@pytest.mark.parametrize("clocks", [["09:05", "21:15"], ["9:05 PM", "10:15 a.m."]])
@pytest.mark.parametrize("names", [("date", "time"), ("Sent on", "Clock")])
def test_a_date_and_a_time_of_day_in_two_columns_are_joined(tmp_path, clocks, names):
    rows = [dict(zip(names, ("13/03/2026", clock), strict=True)) | {"thread": 1, "text": "a"} for clock in clocks]
    items, log = read(tmp_path / "c.jsonl", *rows)
    hours = {"09:05": 9, "21:15": 21, "9:05 PM": 21, "10:15 a.m.": 10}
    assert [(item.time - 1773360000) // 3600 for item in items] == [hours[clock] for clock in clocks]
    joined = "+".join(names)
    assert log.detected["columns"] == (f"'time={joined}'" if " " in joined else f"time={joined}")
    stated, _ = read(tmp_path / "c.jsonl", *rows, text="text", thread="thread", time=joined)
    assert stated == items and not log.broken.counts


@pytest.mark.parametrize(
    "names",
    [
        ("N° ticket", "Date", "Heure", "Expéditeur", "Message"),
        ("Vorgang", "Datum", "Uhrzeit", "Verfasser", "Nachricht"),
        ("Número de ticket", "Fecha", "Hora", "Remitente", "Mensaje"),
    ],
)
def test_names_in_other_languages_have_roles(names):
    columns = zip(names, ([1, 1, 2, 2], ["13/03/2026"] * 4, ["10:00"] * 4, ["Ann", "Ben"] * 2, list(SAID)), strict=True)
    thread, date, clock, speaker, text = names
    assert guess(**dict(columns)) == {"thread": thread, "time": f"{date}+{clock}", "speaker": speaker, "text": text}
