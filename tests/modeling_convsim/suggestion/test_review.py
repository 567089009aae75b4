"""`convsim review`: answers of one key, which are kept; no model is needed."""

import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest
from scipy.stats import binomtest

from modeling_convsim.suggestion.ratings import HeldOut, Rating, Shown, add_rating
from modeling_convsim.suggestion.review import Review, main

MESSAGES = [
    HeldOut("zip broke", ["and now?", "hello"], "we repair it", [Shown("A", 0.3), Shown("B", 0.2), Shown("C", 0.1)]),
    HeldOut("open on Friday?", [], "until six", [Shown("A", 0.5), Shown("D", 0.4)]),
    HeldOut("thanks", [], "bye", []),
    HeldOut("refund", [], "by mail", [Shown("A", 0.9)]),
]  # fmt: skip


@pytest.fixture
def run(tmp_path) -> Path:
    """The folder of a run whose model is not there."""
    folder = tmp_path / "run" / "replies"
    folder.mkdir(parents=True)
    (folder / "index.json").write_text('{"model": "../model"}')
    (folder / "review.jsonl").write_bytes(msgspec.json.Encoder().encode_lines(MESSAGES))
    return tmp_path / "run"


def press(monkeypatch, capsys, folder: Path, keys: str) -> str:
    monkeypatch.setattr("sys.stdin", io.StringIO(keys))
    assert main([str(folder)]) == 0
    return capsys.readouterr().out


def shares(text: str) -> list[list[str]]:
    """Counts and percentages of the first suggestions, and of one of three."""
    return [re.findall(r"\d+", share) for share in re.findall(r"\d+ of \d+ [^;)]*\)", text)]


def share(right: int, count: int) -> list[str]:
    interval = binomtest(right, count).proportion_ci(method="wilson")
    return [str(right), str(count), *(f"{100 * value:.0f}" for value in (right / count, *interval))]


def test_each_key_answers_and_the_next_call_goes_on_where_the_last_one_ended(run, monkeypatch, capsys):
    printed = press(monkeypatch, capsys, run, "n E\ns r x s")  # ends within the second message
    order = ["1 of 4", "hello", "and now?", "zip broke", "we repair it", "2 of 4", "open on", "until six"]
    assert [printed.count(each) for each in order] == [1] * len(order)
    assert sorted(order, key=printed.index) == order  # the first real reply after the answers, the second as asked for
    path = run / "replies" / "ratings.jsonl"
    given = [json.loads(line) for line in path.read_text().splitlines()]
    assert [(each["reply"], each["rating"], each["score"], each["from"]) for each in given] == [
        ("A", "no", 0.3, "review"), ("B", "edit", 0.2, "review"), ("C", "send", 0.1, "review"),
        ("A", "send", 0.5, "review"),
    ]  # fmt: skip
    assert given[0]["context"] == ["and now?", "hello"] and given[3]["message"] == "open on Friday?"
    assert shares(printed)[-2:] == [share(0, 1), share(1, 1)]  # of messages with all answers

    printed = press(monkeypatch, capsys, run / "replies", "nqs")
    assert "1 of 4" not in printed and "until six" in printed and "4 of 4" in printed and "refund" in printed
    assert shares(printed)[-2:] == [share(1, 2), share(2, 2)]
    printed = press(monkeypatch, capsys, run, "e")
    assert shares(printed)[-2:] == [share(2, 3), share(3, 3)] and "1 after an edit" in printed
    before = path.read_bytes()
    assert shares(press(monkeypatch, capsys, run, "sss")) == [share(2, 3), share(3, 3)]  # there is no question left
    assert path.read_bytes() == before


def test_answers_of_use_count_and_ratings_without_a_score_are_none_that_probabilities_follow(run):
    path = run / "replies" / "ratings.jsonl"
    add_rating(path, Rating("refund", "A", "send", [], 0.9))
    add_rating(path, Rating("zip broke", "A", "send", [], 0.9))  # without the earlier turns
    review = Review(run)
    assert review.answers(MESSAGES[3]) == ["send"] and review.answers(MESSAGES[0]) == [None] * 3
    assert shares(review.summary()) == [share(1, 1), share(1, 1)]
    for number in range(40):
        add_rating(path, Rating("refund", f"{number}", "no"))
        add_rating(path, Rating("zip", f"{number}", "send", [], 0.9))
    assert Review(run).summary().endswith(" 42 can be sent, 0 cannot")
    add_rating(path, Rating("refund", "0", "no", [], 0.1))
    assert "\n" not in Review(run).summary()


@pytest.mark.skipif(os.name == "nt", reason="needs a pseudo-terminal")
@pytest.mark.parametrize("end", [b"\x03", b"\x04", b"q"])
def test_in_a_terminal_a_key_needs_no_enter_and_ctrl_c_ends(run, end):
    import pty
    import termios

    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "modeling_convsim.suggestion.review", str(run)]
    process = subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=subprocess.PIPE, start_new_session=True)
    os.close(theirs)
    printed = b""
    for key in (b"\x1b[A", b"e", end):  # an arrow is no answer
        while not printed.endswith(b"? "):
            printed += os.read(ours, 1000)
        while termios.tcgetattr(ours)[3] & termios.ICANON:  # the prompt comes before the key is read
            time.sleep(0.01)
        os.write(ours, key)
        printed = b""
    _, errors = process.communicate(timeout=60)
    os.close(ours)
    assert (process.returncode, errors) == (0, b"")
    assert [each and each.rating for each in Review(run).ratings.values()] == ["edit"]


def test_a_folder_without_a_review_or_with_a_damaged_one_is_named(run, capsys):
    assert main([str(run.parent)]) == 2
    assert "there is no review" in capsys.readouterr().err
    (run / "replies" / "review.jsonl").write_text('{"message": "a"}\n')
    assert main([str(run)]) == 2
    assert "review.jsonl:1: " in capsys.readouterr().err
