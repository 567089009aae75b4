"""The index of replies, its calibration, and the examples."""

from dataclasses import asdict
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
    build_index,
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


def suggested(are_right: list[bool]) -> Suggested:
    cosines = np.where(are_right, 0.61, 0.59)
    return Suggested(np.linspace(1, 0, len(are_right)), cosines)


def choice_of(are_right: list[bool], weights: Weights) -> Choice:
    by_weights = {each: suggested(are_right if each == weights else [False] * len(are_right)) for each in CHOICES}
    return Choice(None, None, None, [], by_weights, weights, None)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_tokenizer):
    path = tmp_path_factory.mktemp("run")
    build("dan_best").save_pretrained(path / "model")
    tiny_tokenizer.save_pretrained(path / "model")
    return path


@pytest.mark.parametrize("weight", [0.5, 0.0])
def test_the_index_holds_the_replies_of_the_training_split_and_what_cross_validation_measured(folder, weight):
    splits, right = DatasetDict(train=make_pairs(6), test=make_pairs(24, "h")), [True] * 30 + [False] * 10
    judge = Encoder.from_pretrained(folder / "model")
    index, calibration = build_index(folder, judge, splits, choice_of(right, Weights(weight, 1.0)), judge)
    assert (calibration["measured_by"], calibration["pairs"]) == ("cross-validation", 40)
    assert (calibration["message_weight"], calibration["consensus_weight"]) == (weight, 1)
    assert calibration["table"][-1]["precision"] == 0.75 and calibration["table"][0]["precision"] == 1
    text = format_calibration(calibration)
    assert "for 40 held-out messages (cross-validation), right if it answers to the same effect as the" in text
    assert text.endswith("75.0%    100.0%")
    for each in (index, ReplyIndex.load(folder / "replies", judge)):
        assert each.replies.texts == splits["train"]["response"][:]
        assert each.replies.messages == splits["train"]["input"][:]
        assert (each.settings.message_weight, each.settings.consensus_weight) == (weight, 1)
        assert each.vectors.shape[1] == (2 if weight else 1) * judge.embedding_size
        assert [asdict(row) for row in each.settings.calibration.table] == calibration["table"]
        assert set(each.settings.examples) < set(splits["test"]["input"])


def test_few_messages_measure_nothing(folder):
    judge = Encoder.from_pretrained(folder / "model")
    splits, choice = DatasetDict(train=make_pairs(6)), choice_of([True] * 19, Weights(0.5, 0.0))
    index, calibration = build_index(folder, judge, splits, choice, judge)
    assert index.settings.calibration is None and calibration["table"] == []


def test_on_dev_the_weight_with_the_suggestions_most_like_the_real_replies_is_chosen(folder):
    """The same messages are known with their replies, which have nothing to do with them: only the messages tell."""
    known = Dataset.from_dict({"input": make_texts(30), "response": make_texts(30, seed=1)})
    replies = np.array(known["response"])
    judge = SimpleNamespace(encode=lambda texts: (np.array(texts)[:, None] == replies).astype(float))
    index, calibration = build_index(
        folder, Encoder.from_pretrained(folder / "model"), DatasetDict(train=known, validation=known), None, judge
    )
    assert calibration["measured_by"] == "dev" and calibration["pairs"] == 30
    by_weights = suggest_by_weights(index, known, judge)
    assert index.settings.message_weight == calibration["message_weight"] == 2 and choose_weights(by_weights) == (2, 0)
    assert by_weights[Weights(2, 0)].cosines.mean() > by_weights[Weights(0, 0)].cosines.mean() + 0.3
    assert (index.settings.message_weight, index.settings.consensus_weight) == (2, 0)


def test_examples_are_some_short_held_out_messages():
    def suggest(message: str, k: int, context: list[str]) -> list[Any]:
        assert (k, context) == (1, [])
        return [SimpleNamespace(text=f"to {message}", score=0.5, message="who?")]

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
