"""The index of replies: its calibration for the precision that is possible, and the examples."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from datasets import Dataset, DatasetDict

from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from tests.modeling_convsim.suggestion.texts import make_texts
from tests.modeling_convsim.tiny_models import build
from trainer.adapt.cross_validation import Choice
from trainer.adapt.replies import (
    _calibrate,
    build_index,
    describe_threshold,
    format_calibration,
    format_examples,
    suggest_examples,
)
from trainer.adapt.suggestions import (
    CHOICES,
    Suggested,
    Weights,
    choose_weights,
    suggest_by_weights,
)


def make_pairs(count: int, name: str = "") -> Dataset:
    rows = range(count)
    return Dataset.from_dict(
        {"input": [f"hello {name}{n}" for n in rows], "response": [f"yes {name}{n}" for n in rows]}
    )


class Index:
    """An index whose best suggestions for test messages are right at the given ranks."""

    set_threshold = ReplyIndex.set_threshold
    calibration: Any = None

    def __init__(self, are_right: list[bool]) -> None:
        self.are_right, self.asked = are_right, []

    def score_pairs(
        self, inputs: list[str], replies: list[str], judge: str, contexts: list[list[str]]
    ) -> tuple[np.ndarray, np.ndarray]:
        assert judge == "judge" and len(inputs) == len(replies) == len(contexts)
        self.asked.append(inputs)
        return np.linspace(1, 0, len(self.are_right)), np.array(self.are_right)


def suggested(are_right: list[bool]) -> Suggested:
    cosines = np.where(are_right, 0.61, 0.59)
    return Suggested(np.linspace(1, 0, len(are_right)), cosines)


def choice_of(are_right: list[bool], weights: Weights) -> Choice:
    by_weights = {each: suggested(are_right if each == weights else [False] * len(are_right)) for each in CHOICES}
    return Choice(None, None, None, [], by_weights, weights, None)  # type: ignore[arg-type]


def test_the_threshold_is_chosen_on_held_out_messages_and_measured_on_test():
    index, test = Index([True] * 40 + [False] * 40), make_pairs(80, "test")
    result = _calibrate(index, suggested([True] * 40 + [False] * 40), test, 0.8, "judge")
    assert index.asked == [test["input"][:]] and (result["pairs"], result["min_precision"]) == (80, 0.8)
    assert index.calibration.threshold == result["threshold"]
    reached = np.linspace(1, 0, 80) >= result["threshold"]
    assert result["test"] == {"messages": 80, "suggestions": reached.sum(), "right": 40} and 40 < reached.sum() < 50
    text = format_calibration(result | {"measured_by": "dev"})
    assert "for 80 held-out messages (dev), right if it answers to the same effect as the real reply" in text
    assert text.endswith(f"did not choose it: {reached.sum()} suggestions, 40 right")
    described = describe_threshold(result)
    assert (
        f"a score of {result['threshold']:.3f} or more" in described and "80% or more of the suggestions" in described
    )
    assert "test" not in _calibrate(index, suggested([True] * 50), None, 0.8, "judge")


@pytest.mark.parametrize(
    ("right", "message"),
    [
        ([True] * 19, "19 held-out pairs, expected 20 or more"),
        ([True, True, True, True, False] * 8, "80% with 90% confidence on 40 pairs: the highest, of 20 suggestions"),
    ],
)
def test_an_index_without_a_certain_threshold_has_none_and_says_why(right, message):
    index = Index([])
    result = _calibrate(index, suggested(right), make_pairs(5), 0.8, "judge")
    assert index.calibration is None and message in result["no_threshold"] and not result.keys() & {"threshold", "test"}
    assert describe_threshold(result).startswith("nothing unless asked") and message in describe_threshold(result)
    assert format_calibration(result | {"measured_by": "dev"}).count("test messages") == 0


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_tokenizer):
    path = tmp_path_factory.mktemp("run")
    build("dan_best").save_pretrained(path / "model")
    tiny_tokenizer.save_pretrained(path / "model")
    return path


@pytest.mark.parametrize(("has_threshold", "weight"), [(True, 0.5), (False, 0.5), (True, 0.0)])
def test_the_index_holds_the_replies_of_the_training_split(folder, has_threshold, weight):
    splits = DatasetDict(train=make_pairs(6), test=make_pairs(24, "h"))
    judge = Encoder.from_pretrained(folder / "model")
    index, calibration = build_index(
        folder, judge, splits, choice_of([has_threshold] * 40, Weights(weight, 1.0)), 0.8, judge
    )
    assert ("threshold" in calibration) is has_threshold
    assert calibration["measured_by"] == "cross-validation"
    assert (calibration["message_weight"], calibration["consensus_weight"]) == (weight, 1)
    for each in (index, ReplyIndex.load(folder / "replies", judge)):
        assert each.replies.texts == splits["train"]["response"][:]
        assert each.replies.companions == splits["train"]["input"][:]
        assert (each.message_weight, each.consensus_weight) == (weight, 1)
        assert each.vectors.shape[1] == (2 if weight else 1) * judge.embedding_size
        assert (each.calibration and each.calibration.threshold) == calibration.get("threshold")
        assert bool(each.no_threshold) is not has_threshold


def test_on_dev_the_weight_with_the_suggestions_most_like_the_real_replies_is_chosen(folder):
    """The same messages are known with their replies, which have nothing to do with them: only the messages tell."""
    known = Dataset.from_dict({"input": make_texts(30), "response": make_texts(30, seed=1)})
    replies = np.array(known["response"])
    judge = SimpleNamespace(encode=lambda texts: (np.array(texts)[:, None] == replies).astype(float))
    index, calibration = build_index(
        folder, Encoder.from_pretrained(folder / "model"), DatasetDict(train=known, validation=known), None, 0.8, judge
    )
    assert calibration["measured_by"] == "dev" and calibration["pairs"] == 30
    by_weights = suggest_by_weights(index, known, judge)
    assert index.message_weight == calibration["message_weight"] == 2 and choose_weights(by_weights) == (2, 0)
    assert by_weights[Weights(2, 0)].cosines.mean() > by_weights[Weights(0, 0)].cosines.mean() + 0.3
    assert (index.message_weight, index.consensus_weight) == (2, 0)


def test_examples_are_some_short_held_out_messages():
    def suggest(message: str, k: int, threshold: float, context: list[str]) -> list[Any]:
        assert (k, threshold, context) == (1, -np.inf, [])
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
    examples[0]["reply"] = "a\x1b[31mred\nline"
    assert "a\\x1b[31mred line" in format_examples(examples)
    only_long = {"input": [long], "response": ["ho"]}
    assert [each["message"] for each in suggest_examples(index, Dataset.from_dict(only_long))] == [long]
    assert suggest_examples(index, None) == []
    silent = SimpleNamespace(suggest=lambda *_, **__: [])
    assert suggest_examples(silent, short) == []
