"""The index of replies: its calibration for the precision that is possible, and the examples."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from datasets import Dataset, DatasetDict

from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from tests.modeling_convsim.tiny_models import build
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

    def score_pairs(self, *arguments: Any) -> tuple[np.ndarray, np.ndarray]:
        self.asked.append(arguments)
        return np.linspace(1, 0, len(self.are_right)), np.array(self.are_right)


@pytest.mark.parametrize(
    ("right", "required", "chosen"),
    [
        (30, 0.9, 0.9),  # of 40
        (30, 1.0, 1.0),
        (30, 0.85, 0.85),  # not only those of the list
        (15, 0.9, 0.7),  # 15 of the 20 best
        (10, 0.8, 0.5),
        (9, 0.8, None),
        (9, 0.45, 0.45),
    ],
)
def test_the_index_is_calibrated_for_the_highest_possible_precision_up_to_the_required_one(right, required, chosen):
    index = Index([True] * right + [False] * (40 - right))
    pairs = make_pairs(40)
    result = _calibrate(index, pairs, required)
    assert index.asked == [(pairs["input"][:], pairs["response"][:], 100)]
    assert result["pairs"] == 40 and result.get("min_precision") == chosen
    assert [row["coverage"] for row in result["table"]] == [0.5, 0.75, 1.0]
    text = format_calibration(result)
    assert "on 40 held-out pairs: the true reply among 99 others" in text
    if chosen is None:
        assert index.calibration is None and "threshold" not in result
        assert text.endswith("no threshold has a precision of 50%: there are always suggestions")
        return
    assert index.calibration.threshold == result["threshold"] and index.calibration.candidates == 100
    assert text.endswith(f"the lowest with a precision of {chosen:.0%}")
    reached = np.linspace(1, 0, 40) >= result["threshold"]
    assert min(right, reached.sum()) / reached.sum() >= chosen


def test_too_few_pairs_choose_no_threshold():
    index = Index([True] * 19)
    assert _calibrate(index, make_pairs(19), 0.8) == {"pairs": 19, "table": []} and index.calibration is None
    assert "too few held-out pairs" in format_calibration({"pairs": 19, "table": []})


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_tokenizer):
    path = tmp_path_factory.mktemp("run")
    build("dan_best").save_pretrained(path / "model")
    tiny_tokenizer.save_pretrained(path / "model")
    return path


@pytest.mark.parametrize(("dev", "test", "pairs"), [(22, 24, 22), (None, 24, 24), (22, None, 22), (None, None, 0)])
def test_the_index_holds_the_replies_of_the_training_split_and_is_calibrated_on_others(folder, dev, test, pairs):
    train = make_pairs(6)
    held_out = {"validation": dev, "test": test}
    splits = DatasetDict(train=train) | {name: make_pairs(count, "h") for name, count in held_out.items() if count}
    index, calibration = build_index(folder, splits, 0.8)
    assert calibration["pairs"] == pairs and bool(calibration["table"]) is (pairs > 0)
    saved = ReplyIndex.load(folder / "replies", Encoder.from_pretrained(folder / "model"))
    for each in (index, saved):
        assert each.replies.texts == train["response"][:] and each.replies.companions == train["input"][:]
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
