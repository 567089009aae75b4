"""Questions and answers that are lists."""

import json
from pathlib import Path
from typing import Any

import pytest

from data_scripts.chats.logs import read_log
from data_scripts.chats.messages import ChatLog
from data_scripts.files.errors import InputError


def read(path: Path, content: Any, **columns: str) -> tuple[list[tuple[str, str]], ChatLog]:
    """Writes JSON, or JSON lines if the name of the file says so, and reads its pairs."""
    rows = "\n".join(map(json.dumps, content)) if path.suffix == ".jsonl" else json.dumps(content)
    path.write_text(rows, encoding="utf-8")
    log = ChatLog(path, "c", columns=columns)
    return [(item.input, item.response) for _, item in read_log(log)], log


def test_each_pattern_of_an_intent_has_each_response(tmp_path):
    intents = [
        {"tag": "hours", "patterns": ["when are you open?", "opening hours"], "responses": ["from nine", "until six"]},
        {"tag": "bye", "patterns": ["goodbye"], "responses": ["see you"], "context": [""]},
    ]
    pairs, log = read(tmp_path / "c.json", {"intents": intents})
    assert pairs == [
        ("when are you open?", "from nine"),
        ("when are you open?", "until six"),
        ("opening hours", "from nine"),
        ("opening hours", "until six"),
        ("goodbye", "see you"),
    ]
    assert log.detected == {"format": "each of patterns with each of responses"}


@pytest.mark.parametrize("answers", [["a", "b"], [{"body": "a", "score": 3}, {"body": "b", "score": 1}]])
def test_a_question_has_each_answer(tmp_path, answers):
    rows = [{"id": 1, "question": "q", "answers": answers}, {"id": 2, "question": "r", "answers": "c"}]
    assert read(tmp_path / "c.jsonl", rows)[0] == [("q", "a"), ("q", "b"), ("r", "c")]


def test_the_pairs_of_a_row_are_a_thread(tmp_path):
    path = tmp_path / "c.jsonl"
    read(path, [{"question": name, "answers": ["a", "\ud83d"]} for name in ("q", "r", "q")])
    threads = [item.thread for _, item in read_log(ChatLog(path, "c"))]
    assert len(threads) == 6 and threads[0] == threads[1] == threads[4] != threads[2] == threads[3]


def test_rows_without_a_pair_are_counted(tmp_path):
    rows = [{"question": "q", "answers": ["a"]}] * 20
    rows += [
        {"question": "q", "answers": []},
        {"question": None, "answers": ["a"]},
        {"question": "q", "answers": [1, " "]},
    ]
    pairs, log = read(tmp_path / "c.jsonl", rows)
    assert len(pairs) == 20 and log.broken.counts == {"no pair": 3}
    rows[0] = {"question": "q", "answers": ["a", 3, "", None]}
    pairs, log = read(tmp_path / "c.jsonl", rows)
    assert len(pairs) == 20 and log.broken.counts == {"no text": 3, "no pair": 3}
    pairs, log = read(tmp_path / "c.jsonl", [{"question": "q", "answers": ["a"]}] * 20 + rows[20:])
    assert "c.jsonl:21: no pair (answers should be a text, or a list of texts)" in log.broken.examples[0]
    assert "question should be" in log.broken.examples[1]


@pytest.mark.parametrize(
    "record",
    [
        {"question": "q", "tags": ["a", "b"]},
        {"question": "q", "query": "r", "answers": ["a"]},  # which one?
        {"question": "q", "answers": [{"text": "a", "body": "b"}]},
        {"question": "q", "answers": {"text": ["a"], "start": [3]}},  # parts of a passage
        {
            "prompt": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "r"}],
            "response": "a",
        },  # a dialog
    ],
)
def test_other_lists_are_no_pairs(tmp_path, record):
    with pytest.raises(InputError, match=r"the columns are|more than one column"):
        read(tmp_path / "c.jsonl", [record] * 2)
