"""The index of replies, its calibration, and the examples."""

from collections.abc import Callable
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
from trainer.adapt import replies
from trainer.adapt.cross_validation import Trial
from trainer.adapt.replies import build_index, format_calibration, format_examples, suggest_examples
from trainer.adapt.suggestions import CHOICES, Suggested, Weights, suggest_held_out


def make_pairs(count: int, name: str = "") -> Dataset:
    rows = range(count)
    return Dataset.from_dict(
        {"input": [f"hello {name}{n}" for n in rows], "response": [f"yes {name}{n}" for n in rows]}
    )


@pytest.fixture
def build_from(folder, monkeypatch) -> Callable[..., Any]:
    """Build the index of a model whose suggestions for held-out messages are right or not, with some weights."""

    def run(splits: DatasetDict, are_right: list[bool], best: Weights) -> Any:
        cosines, scores = np.where(are_right, 0.61, 0.59), np.linspace(1, 0, len(are_right))
        suggested = {each: Suggested(scores, cosines - (each != best)) for each in CHOICES}
        monkeypatch.setattr(replies, "suggest_held_out", lambda *_: suggested)
        encoder = Encoder.from_pretrained(folder / "model")
        return build_index(folder, adapted_of(encoder, splits, [], encoder))

    return run


def adapted_of(encoder: Encoder, splits: DatasetDict, trials: list[Trial], judge: Any) -> Any:
    choice = SimpleNamespace(encoder=encoder, trial_encoders=[encoder] * len(trials))
    return SimpleNamespace(pairs=splits, trials=trials, choice=choice, judge=judge, measured_by="cross-validation")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_tokenizer):
    path = tmp_path_factory.mktemp("run")
    build("dan_best").save_pretrained(path / "model")
    tiny_tokenizer.save_pretrained(path / "model")
    return path


@pytest.mark.parametrize("weight", [0.5, 0.0])
def test_the_index_holds_the_replies_of_the_training_split_and_what_held_out_ones_measured(folder, build_from, weight):
    splits, right = DatasetDict(train=make_pairs(6), test=make_pairs(24, "h")), [True] * 30 + [False] * 10
    index, calibration = build_from(splits, right, Weights(weight, 1.0))
    assert (calibration["measured_by"], calibration["pairs"]) == ("cross-validation", 40)
    assert (calibration["message_weight"], calibration["consensus_weight"]) == (weight, 1)
    assert calibration["table"][-1]["precision"] == 0.75 and calibration["table"][0]["precision"] == 1
    text = format_calibration(calibration)
    assert "for 40 held-out messages (cross-validation), right if it answers to the same effect as the" in text
    assert text.endswith("75.0%    100.0%")
    for each in (index, ReplyIndex.load(folder / "replies")):
        assert each.replies.texts == splits["train"]["response"][:]
        assert each.replies.messages == splits["train"]["input"][:]
        assert (each.settings.message_weight, each.settings.consensus_weight) == (weight, 1)
        assert each.vectors.shape[1] == (2 if weight else 1) * index.encoder.embedding_size
        assert [asdict(row) for row in each.settings.calibration.table] == calibration["table"]
        assert set(each.settings.examples) < set(splits["test"]["input"])


def test_few_messages_measure_nothing(build_from):
    index, calibration = build_from(DatasetDict(train=make_pairs(6)), [True] * 19, Weights(0.5, 0.0))
    assert index.settings.calibration is None and calibration["table"] == []


def test_the_weights_with_the_suggestions_most_like_the_real_replies_are_chosen(folder):
    """The same messages are known with their replies, which have nothing to do with them: only the messages tell."""
    known = Dataset.from_dict({"input": make_texts(30), "response": make_texts(30, seed=1)})
    texts, encoder = np.array(known["response"]), Encoder.from_pretrained(folder / "model")
    judge = SimpleNamespace(encode=lambda some: (np.array(some)[:, None] == texts).astype(float))
    trials = [Trial(np.arange(30), known, known, [])] * 2
    index, calibration = build_index(folder, adapted_of(encoder, DatasetDict(train=known), trials, judge))
    assert calibration["pairs"] == 60 and (calibration["message_weight"], calibration["consensus_weight"]) == (2, 0)
    assert (index.settings.message_weight, index.settings.consensus_weight) == (2, 0)
    by_weights = suggest_held_out(trials, [encoder] * 2, judge)
    assert by_weights[Weights(2, 0)].cosines.mean() > by_weights[Weights(0, 0)].cosines.mean() + 0.3


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
