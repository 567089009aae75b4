"""The index of replies: its calibration for the precision that is possible, and the examples."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from datasets import Dataset, DatasetDict

from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from tests.modeling_convsim.tiny_models import build
from trainer.adapt.cross_validation import Choice
from trainer.adapt.replies import _calibrate, build_index, format_calibration, format_examples, suggest_examples


def make_pairs(count: int, name: str = "") -> Dataset:
    rows = range(count)
    return Dataset.from_dict(
        {"input": [f"hello {name}{n}" for n in rows], "response": [f"yes {name}{n}" for n in rows]}
    )


class Index:
    """An index whose best candidates are right at the given ranks."""

    calibration: Any = None

    def __init__(self, are_right: list[bool]) -> None:
        self.are_right, self.asked = are_right, []

    def score_pairs(self, inputs: list[str], replies: list[str], candidates: int) -> tuple[np.ndarray, np.ndarray]:
        assert candidates == 100 and len(inputs) == len(replies)
        self.asked.append(inputs)
        return np.linspace(1, 0, len(self.are_right)), np.array(self.are_right)


def choice_of(are_right: list[bool]) -> Choice:
    scores = np.linspace(1, 0, len(are_right))
    return Choice(None, None, None, scores, np.array(are_right))  # type: ignore[arg-type]


def test_the_threshold_is_chosen_on_dev_and_measured_on_test():
    index = Index([True] * 40 + [False] * 40)
    splits = DatasetDict(validation=make_pairs(80, "dev"), test=make_pairs(80, "test"))
    result = _calibrate(index, splits, None, 0.8)
    assert index.asked == [splits["validation"]["input"][:], splits["test"]["input"][:]]
    assert (result["pairs"], result["measured_by"], result["min_precision"]) == (80, "dev", 0.8)
    assert index.calibration.threshold == result["threshold"] and index.calibration.candidates == 100
    reached = np.linspace(1, 0, 80) >= result["threshold"]
    assert result["test"] == {"messages": 80, "suggestions": reached.sum(), "right": 40} and 40 < reached.sum() < 50
    text = format_calibration(result)
    assert "for 80 held-out messages (dev): the true reply among 99 others" in text
    assert "a precision of 80% or more with 90% confidence" in text
    assert text.endswith(f"did not choose it: {reached.sum()} suggestions, 40 right ({40 / reached.sum():.0%})")


def test_cross_validated_pairs_choose_the_threshold_on_the_held_out_folds_and_never_on_test():
    index = Index([False] * 30)
    splits = DatasetDict(test=make_pairs(30, "test"))
    result = _calibrate(index, splits, choice_of([True] * 50 + [False] * 50), 0.8)
    assert index.asked == [splits["test"]["input"][:]] and result["measured_by"] == "cross-validation"
    assert result["pairs"] == 100 and index.calibration.precision > 0.8
    reached = int((np.linspace(1, 0, 30) >= result["threshold"]).sum())
    assert result["test"] == {"messages": 30, "suggestions": reached, "right": 0}
    assert "test" not in _calibrate(index, DatasetDict(), choice_of([True] * 50), 0.8)


@pytest.mark.parametrize(
    ("right", "message"),
    [
        ([True] * 19, "19 held-out pairs, expected 20 or more"),
        ([True, True, True, True, False] * 8, "80% with 90% confidence on 40 pairs: the highest, of 20 suggestions"),
    ],
)
def test_an_index_without_a_certain_threshold_has_none_and_says_why(right, message):
    index = Index([])
    result = _calibrate(index, DatasetDict(test=make_pairs(5)), choice_of(right), 0.8)
    assert index.calibration is None and message in result["no_threshold"] and not result.keys() & {"threshold", "test"}
    assert message in format_calibration(result).splitlines()[-1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_tokenizer):
    path = tmp_path_factory.mktemp("run")
    build("dan_best").save_pretrained(path / "model")
    tiny_tokenizer.save_pretrained(path / "model")
    return path


@pytest.mark.parametrize("has_threshold", [True, False])
def test_the_index_holds_the_replies_of_the_training_split(folder, has_threshold):
    splits = DatasetDict(train=make_pairs(6), test=make_pairs(24, "h"))
    index, calibration = build_index(folder, splits, choice_of([has_threshold] * 40), 0.8)
    assert ("threshold" in calibration) is has_threshold
    saved = ReplyIndex.load(folder / "replies", Encoder.from_pretrained(folder / "model"))
    for each in (index, saved):
        assert each.replies.texts == splits["train"]["response"][:]
        assert each.replies.companions == splits["train"]["input"][:]
        assert (each.calibration and each.calibration.threshold) == calibration.get("threshold")


def test_examples_are_some_short_held_out_messages():
    def suggest(message: str, k: int, threshold: float) -> list[Any]:
        assert (k, threshold) == (1, -np.inf)
        return [SimpleNamespace(text=f"to {message}", score=0.5, question="who?")]

    index, short, long = SimpleNamespace(suggest=suggest), make_pairs(40), "b" * 101
    pairs = {"input": [*short["input"], long, "hi"], "response": [*short["response"], "ho", long]}
    examples = suggest_examples(index, Dataset.from_dict(pairs))
    messages = [example["message"] for example in examples]
    assert len(set(messages)) == 3 and messages != short["input"][:3]  # not the first ones
    replies = dict(zip(short["input"], short["response"], strict=True))
    assert examples[0] == {
        "message": messages[0], "suggestion": f"to {messages[0]}", "score": 0.5, "in_reply_to": "who?",
        "reply": replies[messages[0]],
    }  # fmt: skip
    assert f"message     {messages[0]}\nsuggestion  to {messages[0]}  (0.500)\n" in format_examples(examples)
    only_long = {"input": [long], "response": ["ho"]}
    assert [each["message"] for each in suggest_examples(index, Dataset.from_dict(only_long))] == [long]
    assert suggest_examples(index, None) == []
