"""Feedback from the page: how its file is read, and where it counts."""

import json

import pytest
from datasets import Dataset

from data_scripts.chats.conversations import ConversationOptions
from data_scripts.files.errors import InputError
from trainer.adapt.feedback import add_feedback, read_feedback

LINES = [
    {"message": "is it open?", "reply": "until six", "accepted": False},
    {"message": "is it open?", "reply": "yes", "accepted": True},
    {"message": "is it open?", "reply": "until six", "accepted": True, "context": ["hi", "hello"]},
    {"message": "my mail is a@example.com", "reply": "thanks", "accepted": True},
    {"message": "is it open?", "reply": "yes", "accepted": False},
]


def write(path, *lines) -> object:
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


def test_the_last_verdict_on_a_suggestion_counts(tmp_path, capsys):
    path = write(tmp_path / "feedback.jsonl", *LINES, '{"message": "an incomplete l')
    feedback = read_feedback(path, ConversationOptions(mask=True))
    assert [(row["input"], row["response"], row["context"]) for row in feedback] == [
        ("is it open?", "until six", ["hi", "hello"]),
        ("my mail is [EMAIL]", "thanks", []),
    ]
    captured = capsys.readouterr()
    assert "2 accepted replies" in captured.out and "2 rejected ones" in captured.out
    assert "left out 1 lines" in captured.err and f"{path}:6: not JSON" in captured.err


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"message": "a", "reply": "b"}, "accepted is missing"),
        ({"message": "a", "reply": "b", "accepted": "yes"}, "accepted is 'yes', expected true or false"),
        ({"message": "a", "reply": " ", "accepted": True}, "an empty text"),
        ({"message": "a", "reply": "b", "accepted": True, "context": "c"}, "context is 'c', expected a list"),
    ],
)
def test_another_line_is_an_error_that_names_it(tmp_path, line, problem):
    path = write(tmp_path / "feedback.jsonl", LINES[0], line)
    with pytest.raises(InputError, match=rf"feedback.jsonl:2: {problem}.*delete"):
        read_feedback(path, ConversationOptions())
    with pytest.raises(InputError, match="No such file"):
        read_feedback(tmp_path / "missing.jsonl", ConversationOptions())


def test_feedback_is_added_to_the_pairs_to_train_on_unless_the_logs_have_its_message(tmp_path, capsys):
    letter = {"message": "Hi Tom,\nhow are you\nBest regards,\nAnn", "reply": "well", "accepted": True}
    feedback = read_feedback(write(tmp_path / "feedback.jsonl", *LINES, letter), ConversationOptions())
    train, test = (
        Dataset.from_list([{"input": text, "response": "r", "thread": text, "source": "s"} for text in texts])
        for texts in (["how are you", "what is it"], ["My mail is a@example.com"])
    )
    pairs = add_feedback({"train": train, "test": test}, feedback)
    assert pairs["input"][:] == ["how are you", "what is it", "is it open?"]
    assert pairs["response"][:] == ["r", "r", "until six"]
    assert "2 replies left out" in capsys.readouterr().out
