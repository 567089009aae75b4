"""The index of an adapted model, its review, and the examples."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from datasets import Dataset, DatasetDict

from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.estimate import Pairs
from modeling_convsim.suggestion.probability import Curve
from modeling_convsim.suggestion.ratings import HeldOut, Shown
from modeling_convsim.suggestion.reply_index import Suggestion
from tests.modeling_convsim.suggestion.texts import make_texts
from tests.modeling_convsim.tiny_models import build, save
from trainer.adapt.replies import build_index, format_examples, summarize
from trainer.adapt.suggestions import Part, Suggested, Weights

KNOWN = DatasetDict(train=Dataset.from_dict({"input": make_texts(30), "response": make_texts(30, seed=1)}))


@pytest.fixture
def encoder(tmp_path, tiny_tokenizer) -> Encoder:
    return Encoder.from_pretrained(save(build("dan_best"), tiny_tokenizer, tmp_path / "model"))


def make_suggested(count: int) -> Suggested:
    """Suggestions for held-out messages; those with higher scores can be sent more often."""
    rows, scores = range(count), np.random.default_rng(0).normal(size=(count, 3)).round(2)
    pairs = Pairs([f"m{row}" for row in rows], [f"r{row}" for row in rows], [["before"] * (row % 2) for row in rows])
    index: Any = None
    shown = [[Suggestion(f"{row} {score}", None, score, None, 1) for score in scores[row].tolist()] for row in rows]
    chances = [1 / (1 + np.exp(1 - 2 * each)) for each in scores]
    return Suggested([Part(index, pairs, np.arange(count))], Weights(2.0, 1.0, 0.4), shown, chances)


def test_an_index_has_the_weights_the_probabilities_and_the_review_of_held_out_messages(encoder, tmp_path):
    adapted: Any = SimpleNamespace(pairs=KNOWN, choice=SimpleNamespace(encoder=encoder))
    suggested = make_suggested(300)
    built = build_index(tmp_path, adapted, suggested)
    for index in (built, ReplyIndex.load(tmp_path)):
        assert (index.replies.texts, index.replies.messages) == (
            KNOWN["train"]["response"][:],
            KNOWN["train"]["input"][:],
        )
        settings, curve = index.settings, index.settings.curve
        assert (settings.message_weight, settings.consensus_weight, settings.diversity) == (2, 1, 0.4)
        assert index.is_estimated and curve.probability(0.5) == pytest.approx(0.5, abs=0.01)
        assert curve.probability(1.5) == pytest.approx(1 / (1 + np.exp(-2)), abs=0.02)
        numbers = [int(each.message[1:]) for each in index.review]
        assert len(set(numbers)) == 200 and numbers != sorted(numbers)
        for number, each in zip(numbers, index.review, strict=True):
            shown = [Shown(one.text, one.score) for one in suggested.suggestions[number]]
            assert each == HeldOut(f"m{number}", ["before"] * (number % 2), f"r{number}", shown)
    part = summarize(suggested, built)
    assert part["messages"] == 300 and part["weights"] == {"message": 2, "consensus": 1, "diversity": 0.4}
    assert part["curve"]["slope"] == pytest.approx(2, abs=0.1) and len(part["curve"]["table"]) == 10
    for count in (19, 20):
        few = build_index(tmp_path, adapted, make_suggested(count))
        assert (few.settings.curve is None) is (count == 19) and len(few.review) == count


def test_examples_are_the_first_short_messages_of_the_review(encoder):
    index = ReplyIndex.build(encoder, KNOWN["train"]["response"][:])
    first, second, third = ([Shown(f"{name} {n}", n / 2) for n in range(3)] for name in "abc")
    long, wild = HeldOut("x" * 101, [], "", first), HeldOut("a\x1b[31mred\nline", [], "", second)
    short = [HeldOut(f"short {n}", [], "r", third[: n + 1]) for n in range(3)]
    index.review = [long, wild, HeldOut("hi", [], "", [Shown("y" * 101, 1.0)]), *short]
    lines = format_examples(index)
    assert [line for line in lines if line.startswith(">")] == ["> a\\x1b[31mred line", "> short 0", "> short 1"]
    assert [line.split() for line in lines[1:4]] == [["?", "b", str(n)] for n in range(3)]
    index.settings = replace(
        index.settings, curve=Curve(0.0, np.log(3), estimated=True, table=[])
    )  # odds of 3 ** score
    index.review = [long]
    assert [line.split() for line in format_examples(index)[1:]] == [
        [chance, "a", str(n)] for n, chance in enumerate(["50%", "63%", "75%"])
    ]
