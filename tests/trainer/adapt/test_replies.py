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
from trainer.adapt.cross_validation import Trial
from trainer.adapt.replies import build_index, format_calibration, format_examples, suggest_examples
from trainer.adapt.suggestions import Weights, suggest_held_out


def make_pairs(count: int, name: str = "") -> Dataset:
    rows = range(count)
    return Dataset.from_dict(
        {"input": [f"hello {name}{n}" for n in rows], "response": [f"yes {name}{n}" for n in rows]}
    )


def adapted_of(encoder: Encoder, splits: DatasetDict, trials: list[Trial], judge: Any) -> Any:
    choice = SimpleNamespace(encoder=encoder, trial_encoders=[encoder] * len(trials))
    return SimpleNamespace(pairs=splits, trials=trials, choice=choice, judge=judge, measured_by="cross-validation")


@pytest.fixture(scope="module")
def folder(tmp_path_factory, tiny_tokenizer):
    path = tmp_path_factory.mktemp("run")
    build("dan_best").save_pretrained(path / "model")
    tiny_tokenizer.save_pretrained(path / "model")
    return path


def test_the_weights_with_the_suggestions_most_like_the_real_replies_are_chosen(folder):
    """The same messages are known with their replies, which have nothing to do with them: only the messages tell."""
    known = Dataset.from_dict({"input": make_texts(30), "response": make_texts(30, seed=1)})
    texts, encoder = np.array(known["response"]), Encoder.from_pretrained(folder / "model")
    judge = SimpleNamespace(encode=lambda some: (np.array(some)[:, None] == texts).astype(float))
    trials, splits = [Trial(np.arange(30), known, known, [])] * 2, DatasetDict(train=known, test=make_pairs(24))
    built, calibration = build_index(folder, adapted_of(encoder, splits, trials, judge))
    assert calibration["pairs"] == 60 and (calibration["message_weight"], calibration["consensus_weight"]) == (2, 0)
    for index in (built, ReplyIndex.load(folder / "replies")):
        assert (index.replies.texts, index.replies.messages) == (known["response"][:], known["input"][:])
        assert (index.settings.message_weight, index.settings.consensus_weight) == (2, 0)
        assert [asdict(row) for row in index.settings.calibration.table] == calibration["table"]
        assert set(index.settings.examples) < set(splits["test"]["input"])
    assert format_calibration(calibration).endswith("    100.0%")
    few = [Trial(np.arange(30), known, known.select(range(19)), [])]
    built, calibration = build_index(folder, adapted_of(encoder, DatasetDict(train=known), few, judge))
    assert built.settings.calibration is None and calibration["table"] == []
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
    silent = SimpleNamespace(suggest=lambda *_, **__: [])
    assert suggest_examples(index, None) == suggest_examples(silent, short) == []
