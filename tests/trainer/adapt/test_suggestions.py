"""What is suggested for held-out messages, and the weights that other messages choose."""

import zlib
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from datasets import Dataset

from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.deduplication import canonical_form
from modeling_convsim.suggestion.estimate import Pairs
from tests.modeling_convsim.suggestion.texts import make_texts
from tests.modeling_convsim.tiny_models import build
from trainer.adapt import suggestions as module
from trainer.adapt.cross_validation import Trial
from trainer.adapt.suggestions import (
    CONSENSUS_WEIGHTS,
    DIVERSITIES,
    MESSAGE_WEIGHTS,
    CenteredEncoder,
    Weights,
    best_replies,
    suggest_held_out,
)


def chance(text: str, reply: str) -> float:
    """An arbitrary probability; few are high."""
    return (zlib.crc32(f"{text}/{reply}".encode()) % 1000 / 1000) ** 3


ESTIMATOR: Any = SimpleNamespace(
    chances=lambda texts, replies: [
        np.array([chance(text, reply) for text in each]) for each, reply in zip(texts, replies, strict=True)
    ]
)


def one_of(chances: np.ndarray) -> float:
    return (chances.max() + 1 - np.prod(1 - chances)) / 2


@pytest.fixture(scope="module")
def encoder(tiny_tokenizer) -> Encoder:
    return Encoder(build("cbow"), tiny_tokenizer)


def make_trial(number: int) -> Trial:
    """40 known pairs, and 24 held-out ones, in conversations of ten and of two; every second one after another."""
    known = Dataset.from_dict({"input": make_texts(40, number), "response": make_texts(40, number + 10)})
    inputs, replies = make_texts(24, number + 20), make_texts(24, number + 30)
    turns = [[inputs[row - 1], "hello"] if row % 2 else [] for row in range(24)]
    threads = [f"trial {number}, {max(row, 8) // 2}" for row in range(24)]
    held_out = Dataset.from_dict({"input": inputs, "response": replies, "context": turns, "thread": threads})
    return Trial(np.arange(40), known, held_out, [])


def test_conversations_that_measure_nothing_choose_the_weights_for_one_of_three(encoder):
    trials = [make_trial(3), make_trial(4)]
    suggested = suggest_held_out(trials, [encoder, encoder], ESTIMATOR)
    measured = set(suggested.pairs.messages)
    rows = [(trial, row) for trial in trials for row in trial.held_out]
    threads = {row["thread"]: row["input"] in measured for _, row in rows}
    assert [row["input"] in measured for _, row in rows] == [threads[row["thread"]] for _, row in rows]  # whole ones
    assert 12 < len(measured) == len(suggested.pairs.messages) < 36 and len(set(threads.values())) == 2
    replies = {row["input"]: (row["response"], row["context"]) for _, row in rows}
    for message, reply, context in zip(*suggested.pairs, strict=True):
        assert replies[message] == (reply, context)
    for part, trial in zip(suggested.parts, trials, strict=True):
        of = dict(zip(trial.held_out["input"], trial.held_out["thread"], strict=True))
        names = [of[message] for message in part.pairs.messages]
        numbers = part.threads.tolist()
        assert len(set(zip(names, numbers, strict=True))) == len(set(names)) == len(set(numbers))

    def values(weights: Weights) -> np.ndarray:
        """Of every message: one of three, and the first."""
        message, consensus, diversity = weights
        found = []
        for trial in trials:
            known = trial.known
            index = ReplyIndex.build(encoder, known["response"][:], known["input"][:], message_weight=message or 1)
            settings = {"message_weight": message, "consensus_weight": consensus, "diversity": diversity}
            index.settings = type(index.settings)(**settings)
            for row in trial.held_out:
                texts = [each.text for each in index.suggest(row["input"], 3, row["context"])]
                chances = np.array([chance(text, row["response"]) for text in texts])
                found.append((one_of(chances), chances[0]))
        return np.array(found)

    def best(of: Any) -> Weights:
        grid = [Weights(*each, 0.0) for each in product(MESSAGE_WEIGHTS, CONSENSUS_WEIGHTS)]
        first = max(grid, key=lambda each: of(known[each]))
        known.update({first._replace(diversity=each): values(first._replace(diversity=each)) for each in DIVERSITIES})
        return max((first._replace(diversity=each) for each in DIVERSITIES), key=lambda each: of(known[each]))

    known = {Weights(*each, 0.0): values(Weights(*each, 0.0)) for each in product(MESSAGE_WEIGHTS, CONSENSUS_WEIGHTS)}
    chooses = np.array([row["input"] not in measured for _, row in rows])
    assert suggested.weights == best(lambda found: found[chooses, 0].mean())
    assert suggested.weights.diversity > 0
    others = [best(lambda found: found[~chooses, 0].mean()), best(lambda found: found[:, 0].mean())]
    assert suggested.weights not in [*others, best(lambda found: found[chooses, 1].mean())]
    expected = known[suggested.weights][~chooses, 0]
    order = [replies[row["input"]][0] for _, row in rows if row["input"] in measured]
    given = dict(zip(suggested.pairs.replies, map(one_of, suggested.chances), strict=True))
    np.testing.assert_allclose([given[reply] for reply in order], expected, atol=1e-9)


def test_a_single_conversation_is_halved_and_of_many_messages_some_are_drawn(encoder, monkeypatch):
    trial = make_trial(1)
    held_out = trial.held_out.remove_columns("thread").add_column("thread", ["one"] * 24)
    trials = [Trial(trial.rows, trial.known, held_out, [])]
    suggested = suggest_held_out(trials, [encoder], ESTIMATOR)
    assert suggested.pairs.messages == held_out["input"][1::2] and set(suggested.threads) == {0}
    monkeypatch.setattr(module, "MOST_MESSAGES", 12)
    drawn = [held_out["input"][:].index(each) for each in suggest_held_out(trials, [encoder], ESTIMATOR).pairs.messages]
    assert len(drawn) == 6 and drawn == sorted(drawn) and drawn[-1] > 12


def test_the_best_replies_of_a_rival_differ_and_were_not_said():
    replies = ["Yes!", "yes", "no", "maybe", "hello", "Hello!", "see you", "thanks"]
    pairs = Pairs(["hello", "Thanks", "who?"], ["", "", ""], [["no", "what"], [], ["yes", "maybe", "see you", "no"]])
    scores = np.random.default_rng(3).normal(size=(3, 8)).round(1)
    scores[0, [4, 5, 2]] = 9  # its message, in two forms, and an earlier turn
    scores[1, [0, 1]] = 5, 5  # a tie of two forms
    expected = []
    for row, message, context in zip(scores, pairs.messages, pairs.contexts, strict=True):
        said = {canonical_form(text) for text in [message, *context]}
        allowed = sorted((-score, number) for number, score in enumerate(row))
        forms = dict[str, str]()
        for _, number in allowed:
            forms.setdefault(canonical_form(replies[number]), replies[number])
        expected.append([text for form, text in forms.items() if form not in said][:3])
    assert best_replies(scores, replies, pairs) == expected
    assert [len(each) for each in expected] == [3, 3, 2] and expected[1][0] == "Yes!"


def test_what_all_texts_have_in_common_is_taken_from_vectors():
    vectors = {
        text: np.array([3.0, *row]) for text, row in zip("abcd", [(1, 0), (-1, 0), (0, 2), (0, -2)], strict=True)
    }
    plain: Any = SimpleNamespace(encode=lambda texts: np.stack([vectors[text] for text in texts]))
    centered = CenteredEncoder(plain, list("abcd"))
    np.testing.assert_allclose(centered.encode(["b", "c"], side="response"), [[0, -1, 0], [0, 0, 1]], atol=1e-12)
