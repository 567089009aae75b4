import html
import json
import lzma
from collections import Counter
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_scripts.__main__ import main
from tests.data_scripts.outputs import read, report

LONG = "a sentence of more than twenty characters"


def run(*arguments: object) -> int:
    return main(["conversations", *map(str, arguments)])


def write_tsv(path: Path, *rows: str) -> Path:
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return path


def json_lines(path: Path, *records: dict) -> Path:
    return write_tsv(path, *map(json.dumps, records))


def parquet(path: Path, **columns: list) -> Path:
    pq.write_table(pa.table(columns), path)
    return path


def raw(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def pairs_of(output: Path, source: str | None = None) -> set[tuple[str, str]]:
    return {(row["input"], row["response"]) for row in read(output) if source in (None, row["source"])}


CHAINED = {
    ("hi", "hello"): [],
    ("hello", "how are you"): ["hi"],
    ("hello", "yes"): [],
    ("hello", "no"): [],
    ("fine", "bye"): ["how are you", "hello", "hi"],
    ("fine", "well"): ["how are you", "hello", "hi"],
    ("well", "so"): [],
    ("so", "no"): ["well"],
}
EMPTY_CHANNEL = {"guild": {"name": "Birds"}, "channel": {"id": "1", "name": "herons"}, "messages": []}


def test_each_file_is_a_source_and_its_texts_are_counted_with_those_of_the_others(tmp_path):
    """Of a long pair in two sources, which may be dumps with the same comments, one is kept."""
    rows = [("how are you", "very well"), ('she said "so', "an open quote stays")]
    inputs, responses = map(list, zip(*rows, strict=True))
    files = [
        write_tsv(tmp_path / "text.tsv", "input\tresponse", *map("\t".join, rows)),
        parquet(tmp_path / "table.parquet", response=responses, input=inputs),
        write_tsv(tmp_path / "one.tsv", "input\tresponse", f"{LONG}\tyes", "thanks\tbye", f"hm\t{LONG} 2"),
        write_tsv(tmp_path / "two.tsv", "input\tresponse", "thanks\tbye", f"{LONG}\tyes", f"{LONG}\tno"),
        json_lines(tmp_path / "herons.json", EMPTY_CHANNEL),
    ]
    for name in "ab":
        (tmp_path / name).mkdir()
        said = [
            {"id": 1, "reply-to": None, "text": f"hello {name}"},
            {"id": 2, "reply-to": 1, "text": f"hi {name}"},
            {"id": 3, "reply-to": 3, "text": f"this answers {name} itself"},
        ]
        files.append(json_lines(tmp_path / name / "utterances.jsonl", *said, said[0]))
        with files[-1].open("a") as file:
            file.write("{\n")
    assert run(*files, "-o", tmp_path / "out") == 0
    found = {source: pairs_of(tmp_path / "out", source) for source in {row["source"] for row in read(tmp_path / "out")}}
    assert found == {
        "text": set(rows),
        "table": set(rows),
        "one": {(LONG, "yes"), ("thanks", "bye"), ("hm", f"{LONG} 2")},
        "two": {("thanks", "bye"), (LONG, "no")},
        "a/utterances": {("hello a", "hi a")},
        "b/utterances": {("hello b", "hi b")},
    }
    counts = report(tmp_path / "out")
    assert counts["pairs read"]["in another source"] == 1
    assert counts["messages"]["read"] == 8 and counts["messages"]["in turns"] == 6
    assert sum(counts["messages"].values()) == 16
    assert counts["lines left out"] == {"not JSON": 2} and counts["messages left out"] == {
        "channel without messages": 1
    }
    assert counts["kept turns"]["answer to the same speaker"] == 2


def test_pairs_that_chain_are_a_thread_with_earlier_turns_whatever_rule_removes_one_between_them(tmp_path):
    texts = ["hi", "hello", "how are you", "http://a.b", "[deleted]", "fine", "bye"]
    rows = [
        *(f"{one}\t{other}\t" for one, other in pairwise(texts)),
        "fine\twell\t",
        "hello\tyes\t",
        "hello\tno\t",
        "well\tso\tother",
        "so\tno\tother",
    ]
    table = write_tsv(tmp_path / "c.tsv", "input\tresponse\tthread\tcontext", *(f"{row}\tunread" for row in rows))
    assert run(table, "-o", tmp_path / "out", "--filters", "paper", "--min_characters", "2") == 0
    pairs = {(row["input"], row["response"]): row for row in read(tmp_path / "out")}
    assert {pair: row["context"] for pair, row in pairs.items()} == CHAINED
    threads = {pair: row["thread"] for pair, row in pairs.items()}
    assert len({threads[pair] for pair in (("hi", "hello"), ("hello", "how are you"), ("fine", "bye"))}) == 1
    assert threads["hello", "yes"] == threads["hello", "no"] != threads["well", "so"] != threads["hi", "hello"]


def test_both_sides_pass_the_rules_and_each_rule_is_counted(tmp_path):
    tsv = write_tsv(
        tmp_path / "chat.tsv",
        "input\tresponse",
        "how are you\tvery well",
        "how are you\tvery well",
        "[deleted]\tvery well",
        "how are you\t1234567",
        "https it is\t@you",
    )
    assert run(tsv, "--output", tmp_path / "out", "--filters", "paper") == 0
    counts = report(tmp_path / "out")
    assert {name: number for name, number in counts["pairs read"].items() if number} == {
        "input: deleted or empty": 1,
        "input: starts with https, /r/, @": 1,
        "response: 70 % letters or fewer": 1,
        "kept": 2,
    }
    assert counts["pairs"] == {"repeated in their thread": 1, "written": 1}


def test_a_real_file_gives_the_counts_of_the_papers_rules(data_dir, tmp_path):
    path = data_dir / "conversations" / "pairs" / "reddit_pushshift_2005_12_to_2006_03.tsv.xz"
    assert run(path, "--output", tmp_path / "out", "--filters", "paper") == 0
    counts = report(tmp_path / "out")
    assert sum(counts["pairs read"].values()) == 9_147
    assert counts["pairs read"]["kept"] == 4_372
    assert sum(counts["splits"].values()) == len(read(tmp_path / "out"))


def test_reply_links_become_pairs_and_other_messages_are_counted(tmp_path):
    rows = [
        ("1", "", "Ann", "who is there"),
        ("2", "1", "Ben", "only me"),
        ("3", "1", "Cid", "nobody at all"),
        ("4", "2", "Ben", "as ever"),
        ("5", "9", "Ann", "what was that"),
        ("6", "6", "", "talking to myself"),
        ("7", "3", "Somebot", "beep beep beep"),
        ("8", "7", "Ann", "oh shut up"),
        ("10", "3", "Ann", "nobody answers"),
        ("12", "1", "Cid", "as I said"),
        ("3", "2", "Dan", "an id seen before"),
    ]
    table = write_tsv(tmp_path / "forum.tsv", "id\tparent\tspeaker\ttext", *map("\t".join, rows))
    assert run(table, "--output", tmp_path / "out", "--filters", "paper") == 0
    assert pairs_of(tmp_path / "out") == {
        ("who is there", "only me as ever"),
        ("who is there", "nobody at all"),
        ("nobody at all", "nobody answers"),
        ("who is there", "as I said"),
    }
    assert {row["thread"] for row in read(tmp_path / "out")} == {"forum/1"}
    counts = report(tmp_path / "out")
    assert counts["messages"] == {"read": 11, "id seen before": 1, "in turns": 10}
    assert {name: number for name, number in counts["turns"].items() if number} == {"author contains bot": 1, "kept": 8}
    assert counts["kept turns"] == {
        "starts a conversation": 1,
        "original message missing": 1,
        "answer to the same speaker": 1,
        "original message removed": 1,
        "pair": 4,
    }


def reply_table(path: Path, *rows: tuple[str, str]) -> Path:
    lines = (
        f"{name},{parent},{speaker},words of {name}" for (name, parent), speaker in zip(rows, "abcdef", strict=False)
    )
    return write_tsv(path, "id,parent,speaker,text", *lines)


def test_links_with_another_prefix_than_the_ids_are_read_without_it_if_they_then_name_one_message(tmp_path):
    tables = {
        "links": (("c1", ""), ("c2", "t1_c1"), ("c3", "t1_c2"), ("c4", "t1_c9")),
        "ids": (("t1_c1", ""), ("t1_c2", "c1"), ("t1_c3", "c2")),
        "both": (("t1_c1", ""), ("t1_c2", "x:c1"), ("t1_c3", "x:c2")),
        "exact": (("a-1", ""), ("a-2", "a-1"), ("b-3", "c-2")),  # a link is written as the id is
        "several": (("a-1", ""), ("b-1", ""), ("a-2", "c-1")),
    }
    files = [reply_table(tmp_path / f"{name}.csv", *rows) for name, rows in tables.items()]
    assert run(*files, "-o", tmp_path / "out") == 0
    for source, rows in tables.items():
        texts = [f"words of {name}" for name, _ in rows[:3]]
        number = {"exact": 1, "several": 0}.get(source, 2)
        assert pairs_of(tmp_path / "out", source) == {*[*pairwise(texts)][:number]}, source
    assert report(tmp_path / "out")["messages"]["replies read without a prefix"] == 6


def test_replies_to_messages_that_are_not_there_are_named_and_the_others_are_written(tmp_path, capsys):
    asked = reply_table(tmp_path / "a.csv", ("c1", ""), ("c2", "c1"))
    answered = reply_table(tmp_path / "b.csv", ("d1", "c1"), ("d2", "c2"), ("d3", "c2"))
    assert run(asked, answered, "--output", tmp_path / "out") == 0
    assert "warning: 3 replies refer to missing messages; add the file" in capsys.readouterr().err
    assert pairs_of(tmp_path / "out") == {("words of c1", "words of c2")}
    assert run(answered, "--output", tmp_path / "none") == 2
    assert "no pairs are left to write: 3 replies refer to missing messages" in capsys.readouterr().err
    assert main(["inspect", str(answered)]) == 0
    assert "warning: 3 replies refer to missing messages" in capsys.readouterr().out


def test_consecutive_messages_of_a_speaker_are_joined_before_they_are_filtered(tmp_path):
    said = [
        ("Ann", "well"),
        ("Ben", "so it is"),
        ("Ben", "a" * 1_991),
        ("Ann", "and 1"),
        ("Ann", "more thing to say"),
        ("Ben", "yes"),
    ]
    chat = json_lines(
        tmp_path / "chat.jsonl", *({"thread": "t", "speaker": speaker, "text": text} for speaker, text in said)
    )
    assert run(chat, "--output", tmp_path / "out") == 0
    assert read(tmp_path / "out") == [
        {"input": "and 1 more thing to say", "response": "yes", "thread": "t", "source": "chat", "context": ["well"]}
    ]
    assert report(tmp_path / "out")["turns"]["2,000 characters or more"] == 1  # 8 + 1 + 1,991


def test_a_pause_longer_than_the_gap_ends_a_conversation(tmp_path):
    times = ["2024-01-01T00:00:00Z", "2024-01-01T00:30:00Z", "2024-01-01T01:00:01Z", "2024-01-01T01:10:00Z"]
    texts = ["good morning", "hello there", "lunch anyone", "gladly so"]
    rows = [
        {"thread": "t", "text": text, "time": time, "speaker": text[0]} for text, time in zip(texts, times, strict=True)
    ]
    chat = json_lines(tmp_path / "chat.jsonl", *reversed(rows))
    assert run(chat, "--gap", "30m", "--output", tmp_path / "out") == 0
    assert pairs_of(tmp_path / "out") == {("good morning", "hello there"), ("lunch anyone", "gladly so")}
    threads = {row["input"]: row["thread"] for row in read(tmp_path / "out")}
    assert threads["good morning"] != threads["lunch anyone"]


def test_a_real_file_of_convokit_gives_the_pairs_of_a_loop_over_its_lines(data_dir, tmp_path):
    path = data_dir / "conversations" / "reddit_raw" / "convokit_r_Cornell_utterances.jsonl.xz"
    assert run(path, "--filters", "none", "--output", tmp_path / "out") == 0
    with lzma.open(path, "rt", encoding="utf-8") as lines:
        utterances = {row["id"]: row for row in map(json.loads, lines)}
    replies = Counter((row["reply-to"], row["speaker"]) for row in utterances.values())
    expected, in_parts = set(), set()
    for row in utterances.values():
        answered = utterances.get(row["reply-to"])
        if answered and row["speaker"] != "[deleted]":
            if row["speaker"] == answered["speaker"]:
                in_parts |= {row["id"], answered["id"]}
            elif replies[row["reply-to"], row["speaker"]] > 1:
                in_parts.add(row["id"])
    for row in utterances.values():
        answered = utterances.get(row["reply-to"])
        if answered and not in_parts & {row["id"], answered["id"]}:
            expected.add((html.unescape(answered["text"]), html.unescape(row["text"])))
    parts = {html.unescape(utterances[name]["text"]) for name in in_parts}
    gone = {"", "[deleted]", "[removed]"}
    found = {pair for pair in pairs_of(tmp_path / "out") if not any(part in text for text in pair for part in parts)}
    assert found == {
        pair for pair in expected if not gone & {*pair} and not any(part in text for text in pair for part in parts)
    }


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        ("thread\ttext", ["--gap", "soon"], "--gap soon: expected a number and a unit"),
        ("thread\ttext", ["--gap", "1h"], "has no times; name their column"),
        ("thread\ttext", ["--columns", "text=text", "text=words"], "text=words: expected ROLE=NAME, each role once"),
        ("thread\ttext", ["--columns", "text"], "--columns text: expected ROLE=NAME"),
        ("thread\ttext", ["--columns", "words=text"], "--columns words=text: expected ROLE=NAME"),
        ("thread\ttext", ["--columns", "text=body"], "--columns text=body: no such column in"),
        ("input\tresponse", ["--gap", "1h"], "c.tsv contains ready pairs, which have no pauses; leave it out"),
        ("input\tresponse", ["--bots", "bots.txt"], "--bots: all files contain ready pairs, which have no authors"),
        ("input\tresponse", ["--repliers", "Tom"], "--repliers: all files contain ready pairs, which have no authors"),
        ("id\tparent\ttext", ["--gap", "1h"], "c.tsv has reply links, which do not depend on pauses; leave it out"),
    ],
)
def test_a_wrong_option_and_one_that_the_table_does_not_use_are_refused(
    tmp_path, monkeypatch, capsys, columns, options, message
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bots.txt").write_text("AutoModerator\n")
    table = write_tsv(tmp_path / "c.tsv", columns, columns)
    assert run(table, "--output", tmp_path / "out", *options) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda at: write_tsv(at / "c.tsv", "left\tright"), "c.tsv:1: the columns are left, right; expected"),
        (lambda at: raw(at / "c.parquet", b"not Parquet"), "c.parquet: not a readable Parquet file"),
        (lambda at: raw(at / "c.tsv", b""), "c.tsv: the file is empty"),
        (lambda at: at / "c.tsv", "c.tsv: cannot be read (No such file or directory)"),
        (lambda at: raw(at / "c.png", b"input,response\n"), "c.png: unknown kind of file"),
        (lambda at: raw(at / "c.xlsx", b"PK"), "c.xlsx: spreadsheets are not supported; export it as CSV"),
        (lambda at: raw(at / "c.eml", b"From: ann\n"), "c.eml: this mail format is not supported"),
        (lambda at: raw(at / "c.tsv.xz", lzma.compress(b"input\tresponse\n")[:-8]), "the archive is truncated"),
        (lambda at: write_tsv(at / "c.tsv", "input\tresponse", "1\t[deleted]"), "no pairs are left to write"),
        (lambda at: json_lines(at / "c.json", EMPTY_CHANNEL), "no pairs are left to write"),
    ],
)
def test_a_users_mistake_gives_one_message_exit_code_2_and_no_output(tmp_path, capsys, make, message):
    (tmp_path / "in").mkdir()
    assert run(make(tmp_path / "in"), "--output", tmp_path / "out") == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert message in errors[0]
    assert [file.name for file in tmp_path.iterdir()] == ["in"]


def test_what_was_detected_is_reported_and_masked(tmp_path, capsys):
    rows = ["Ticket #;From;Sent at;Message", "7;Ann;13/03/2026 09:00;Wo?", "7;Jürgen;13/03/2026 09:01;Hier"]
    chat = raw(tmp_path / "jane@example.org.csv", "\n".join(rows).encode("cp1252"))
    assert run(chat, "-o", tmp_path / "masked", "--mask") == 0
    columns = "columns: text=Message 'thread=Ticket #' speaker=From 'time=Sent at'"
    detected = f"encoding: cp1252; delimiter: semicolon; {columns}; dates: DMY"
    assert report(tmp_path / "masked")["detected"] == {"file 1": detected}
    assert detected in capsys.readouterr().out
    assert "jane" not in (tmp_path / "masked" / "README.md").read_text(encoding="utf-8")


def test_a_language_is_required_of_messages_and_of_both_sides_of_pairs(tmp_path):
    german = "das ist nun wirklich eine ganz wunderbare Nachricht"
    english = "these are certainly some of the words that were written here"
    said = [english, f"{english} too", german, english, "12 34 56 78 90 12 34"]
    rows = [{"thread": "t", "speaker": "AB"[number % 2], "text": text} for number, text in enumerate(said)]
    chat = json_lines(tmp_path / "chat.jsonl", *rows)
    pairs = [(english, f"{english} again"), (english, german), (german, english)]
    ready = write_tsv(tmp_path / "ready.tsv", "input\tresponse", *map("\t".join, pairs))
    assert run(chat, ready, "--output", tmp_path / "out", "--language", "en", "--filters", "paper") == 0
    assert pairs_of(tmp_path / "out") == {(english, f"{english} too"), (english, f"{english} again")}
    counts = report(tmp_path / "out")
    assert counts["turns"]["not in language en"] == 1 and counts["turns"]["70 % letters or fewer"] == 1
    assert [counts["pairs read"][f"{side}: not in language en"] for side in ("input", "response")] == [1, 1]
    assert counts["kept turns"]["original message removed"] == 1


def test_two_files_of_the_same_name_in_folders_of_the_same_name_are_refused(tmp_path, capsys):
    files = []
    for parent in "ab":
        (tmp_path / parent / "logs").mkdir(parents=True)
        files.append(write_tsv(tmp_path / parent / "logs" / "chat.tsv", "input\tresponse", "how are you\tvery well"))
    assert run(*files, "--output", tmp_path / "out") == 2
    assert "another input has the same file and folder name; rename one" in capsys.readouterr().err


TICKETS = [
    "thread\tspeaker\ttext",
    *(f"{number}\t{name}\t{text} {number}" for number in range(6) for name, text in (
        (f"Ann {number}", "where is it"), ("Tom Lee", "which one"), (f"Ann {number}", "this one"), ("Jo", "on its way"),
    )),
]  # fmt: skip


def test_only_replies_of_the_named_authors_become_pairs_and_the_others_are_counted(tmp_path, capsys):
    path = write_tsv(tmp_path / "chat.tsv", *TICKETS)
    assert run(path, "--repliers", "Tom Lee", "Jo", "-o", tmp_path / "out") == 0
    assert {(row["input"][:-2], row["response"][:-2]) for row in read(tmp_path / "out")} == {
        ("where is it", "which one"), ("this one", "on its way"),
    }  # fmt: skip
    counts = report(tmp_path / "out")
    assert counts["kept turns"]["reply of another author"] == 6 and counts["kept turns"]["pair"] == 12
    assert counts["settings"]["repliers"] == 2  # their names are nobody's business
    assert "hint" not in capsys.readouterr().err
    flags = [
        "is_staff",
        *("FT"[name in ("Tom Lee", "Jo")] for _, name, _ in (line.split("\t") for line in TICKETS[1:])),
    ]
    flagged = write_tsv(tmp_path / "f.tsv", *(f"{line}\t{flag}" for line, flag in zip(TICKETS, flags, strict=True)))
    assert run(flagged, "--repliers", "-o", tmp_path / "flagged") == 0
    assert pairs_of(tmp_path / "flagged") == pairs_of(tmp_path / "out")
    assert "using only replies where is_staff is T" in capsys.readouterr().err


def test_an_author_who_wrote_nothing_is_refused_with_the_most_frequent_ones(tmp_path, capsys):
    assert run(write_tsv(tmp_path / "chat.tsv", *TICKETS), "--repliers", "Jo", "tom lee", "-o", tmp_path / "o") == 2
    error = capsys.readouterr().err.splitlines()[-1]
    expected = "error: --repliers 'tom lee': no messages by this author; the authors with the most messages are "
    assert error.startswith(f"{expected}Jo (6), 'Tom Lee' (6), 'Ann 0' (2), ")
    bare = write_tsv(tmp_path / "bare.tsv", "thread\ttext", "1\thello", "1\thi")
    assert run(bare, "--repliers", "Jo", "-o", tmp_path / "o") == 2
    assert "no messages by this author; set their column: --columns speaker=NAME" in capsys.readouterr().err


def test_a_log_in_which_few_answer_many_gives_a_hint_and_its_pairs_are_read_without_contexts(tmp_path, capsys):
    assert run(write_tsv(tmp_path / "chat.tsv", *TICKETS), "-o", tmp_path / "out") == 0
    error = capsys.readouterr().err
    assert "hint: a few authors answer all the others; --repliers Jo 'Tom Lee' uses only their replies" in error
    assert any(row["context"] for row in read(tmp_path / "out"))
    assert run(*sorted((tmp_path / "out").glob("*.parquet")), "-o", tmp_path / "again") == 0
    assert pairs_of(tmp_path / "again") == pairs_of(tmp_path / "out")


MESSAGES = [
    (1, None, "Ann", "is anybody there"),
    (2, None, "Ben", "I am here"),
    (3, None, "Ben", "since this morning"),
    (4, None, "Ann", "[deleted]"),
    (5, None, "Cid", "what did she say"),
    (2, None, "Ben", "I was here (edited)"),
    (6, 1, "Dan", "I am also here"),
    (7, None, "Ann", "then there are three of us"),
    (8, 5, "Ben", "that she is leaving"),
]
EARLIER = {
    "I am here since this morning": [],
    "I am also here": [],
    "then there are three of us": ["is anybody there"],
    "that she is leaving": ["I am here since this morning", "is anybody there"],
}


@pytest.mark.parametrize("turns", [0, 3])
def test_the_context_of_a_pair_is_the_turns_of_its_thread_that_its_input_follows(tmp_path, turns):
    """Ben writes twice in a row and edits a message, Ann deletes one, and Dan answers the first message."""
    messages = [
        {"id": key, "type": "message", "date": "2024-05-01T09:00:00", "from": speaker, "text": text}
        | ({"reply_to_message_id": parent} if parent else {})
        for key, parent, speaker, text in MESSAGES
    ]
    chat = json_lines(tmp_path / "result.json", {"name": "us", "type": "group", "id": 1, "messages": messages})
    rows = [("1", "", "x"), ("2", "1", "x"), ("3", "2", "x"), ("4", "3", "y"), ("5", "4", "y"), ("6", "5", "y")]
    lines = [f"{key}\t{parent}\t{name}\ttext {key}" for key, parent, name in rows]
    links = write_tsv(tmp_path / "links.tsv", "id\tparent\tthread\ttext", *lines)
    assert run(chat, links, "-o", tmp_path / "out", "--context", turns) == 0
    found = {row["response"]: row["context"] for row in read(tmp_path / "out")}
    linked = {"text 2": [], "text 3": ["text 1"], "text 4": [], "text 5": [], "text 6": ["text 4"]}
    assert found == {response: context[:turns] for response, context in (EARLIER | linked).items()}
    counts = report(tmp_path / "out")
    assert counts["threads"]["pairs with earlier turns"] == (4 if turns else 0)
    assert counts["settings"]["context"] == turns
    assert counts["detected"] == {"result": "format: Telegram"}


def test_a_context_stays_in_its_part_of_a_long_thread(tmp_path):
    rows = [{"thread": "t", "speaker": "AB"[number % 2], "text": f"text {number}"} for number in range(45)]
    chat = json_lines(tmp_path / "chat.jsonl", *rows)
    assert run(chat, "-o", tmp_path / "out", "--context", "6") == 0
    pairs = read(tmp_path / "out")
    assert len({row["thread"] for row in pairs}) == 3
    for row in pairs:
        number = int(row["input"].split()[1])
        first = max(number - 6, number - number % 20)
        assert row["context"] == [f"text {earlier}" for earlier in range(number - 1, first - 1, -1)]


def test_masks_salutations_and_names_are_treated_in_contexts_too(tmp_path):
    said = [("Ann Lee", "Hi Tom,\n\nwrite to ann@example.org"), ("Tom", "Hello Ann, I did"), ("Ann Lee", "Tom, when?")]
    said += [("Tom", "it was today, Ann Lee")]
    chat = json_lines(tmp_path / "chat.jsonl", *({"thread": "t", "speaker": who, "text": text} for who, text in said))
    assert run(chat, "-o", tmp_path / "out", "--mask") == 0
    pairs = {row["response"]: row["context"] for row in read(tmp_path / "out")}
    assert pairs == {"I did": [], "When?": ["Write to [EMAIL]"], "it was today, [name]": ["I did", "Write to [EMAIL]"]}
    assert report(tmp_path / "out")["masked"]["e-mail addresses"] == 3
