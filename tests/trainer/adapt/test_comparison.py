"""The adapted model against other systems, on the same queries."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from datasets import Dataset, DatasetDict

from tests.trainer.evaluation.fake_encoder import FakeEncoder
from trainer.adapt import comparison
from trainer.adapt.comparison import PEER, Comparison, compare, describe_gain, format_comparison
from trainer.adapt.context import ContextChoice
from trainer.adapt.cross_validation import Choice
from trainer.adapt.selection import Gain
from trainer.adapt.suggestions import BY_MESSAGES, BY_REPLIES, Suggested, Weights, rival_suggestions, token_f1
from trainer.evaluation.ranking import Ranks

INPUTS = [f"question {number}" for number in range(30)]
RESPONSES = [f"answer {number}" for number in range(30)]
OWN = Weights(0.5, 1.0)
PAIRS = Dataset.from_dict({"input": INPUTS, "response": RESPONSES, "thread": INPUTS})


KNOWN = Dataset.from_dict(
    {
        "input": ["how much", "where", "when"],
        "response": ["ten euros", "in the city", "on monday"],
        "thread": list("abc"),
    }
)


@pytest.fixture
def encoders(monkeypatch) -> dict[str, FakeEncoder]:
    """The adapted model knows 20 answers, its base 12, of which the model does not know 3; the peer knows none."""
    known = dict(zip(INPUTS, RESPONSES, strict=True))
    answers = {
        "run/model": {text: known[text] for text in INPUTS[:20]},
        "the/base": {t: known[t] for t in INPUTS[11:23]},
    }
    found = {name: FakeEncoder(each, size=32) for name, each in (answers | {PEER: {}}).items()}
    for name, encoder in found.items():
        encoder.model = SimpleNamespace(name_or_path=name)  # type: ignore[attr-defined]
        encoder.uses_context = False  # type: ignore[attr-defined]
    monkeypatch.setattr(comparison, "load_encoder", found.__getitem__)
    monkeypatch.setattr(comparison, "installed_copy", lambda name: name)  # not installed
    monkeypatch.setattr(comparison, "ENOUGH", 30)
    monkeypatch.setattr(comparison, "ReplyIndex", SimpleNamespace(build=lambda encoder, *_, **__: encoder))
    suggested = {
        weights: Suggested(["on monday"] * right + ["ten euros"] * (30 - right), np.zeros(30), np.zeros(30))
        for weights, right in ((OWN, 12), (BY_REPLIES, 9), (BY_MESSAGES, 3))
    }
    monkeypatch.setattr(comparison, "suggest_by_weights", lambda *_: suggested)
    monkeypatch.setattr(
        comparison, "text_cosines", lambda _, texts, real: np.array([text == "on monday" for text in texts])
    )
    return found


def hits(encoder: FakeEncoder) -> np.ndarray:
    """Whether each input's own response has the highest score."""
    scores = encoder.encode(INPUTS, "query") @ encoder.encode(RESPONSES, "response").T
    return scores.argmax(axis=1) == np.arange(30)


def test_each_system_ranks_the_same_queries_and_the_gain_is_that_of_the_model(encoders):
    result = compare(
        encoders["the/base"],
        encoders["run/model"],
        DatasetDict(train=KNOWN, test=PAIRS),
        None,
        OWN,
        encoders["the/base"],
    )
    ours, base = hits(encoders["run/model"]), hits(encoders["the/base"])
    assert 20 <= ours.sum() < 30 and ours.sum() > base.sum() >= 12
    assert result.adapted["p_at_1"] == pytest.approx(ours.mean())
    for part in (result.adapted, *result.baselines.values()):
        low, high = part["p_at_1_interval"]
        assert low <= part["p_at_1"] <= high and (low < high or part["p_at_1"] in (0, 1))
    assert (result.adapted["queries"], result.adapted["candidates"], result.adapted["split"]) == (30, 30, "test")
    assert result.baselines.keys() == {"base", "bm25", "tfidf"}
    part = result.baselines["base"]
    assert part["p_at_1"] == pytest.approx(base.mean()) and part["split"] == "test"
    assert part["gain"] == pytest.approx(ours.mean() - base.mean())
    # of each query's difference, as the queries of both are the same
    difference = ours.astype(float) - base
    random = np.random.default_rng(1)
    means = difference[random.integers(30, size=(4000, 30))].mean(axis=1)
    assert part["gain_interval"] == pytest.approx(np.quantile(means, [0.025, 0.975]), abs=0.04)
    text = format_comparison(result)
    assert "the real reply ranks first among 30, for 30 held-out messages (test)" in text
    assert f"  {'the base':<30} {base.mean():6.3f}  [" in text and f"{part['gain']:+6.3f}  [" in text


def test_one_line_has_the_score_of_the_model_that_is_kept():
    result = Comparison({"p_at_1": 0.5}, {"base": {"p_at_1": 0.25}, PEER: {"p_at_1": 0.75}}, {})
    assert describe_gain(result, is_adapted=True) == f"adapted: P@1 0.500; 0.250 (the base), 0.750 ({PEER})"
    kept = "the base as it is, because adapting did not help for certain"
    assert describe_gain(result, is_adapted=False) == f"{kept}: P@1 0.250; 0.500 (adapted), 0.750 ({PEER})"
    joined = f"{kept}; joined with the project's own base, whose share in a score is 0.5"
    assert describe_gain(result, False, 0.5).startswith(f"{joined}: P@1 0.500; 0.250 (the base)")
    assert describe_gain(Comparison({}, {}, {}), is_adapted=True) == "adapted"


def test_suggestions_are_right_by_the_judge_and_ours_come_first(encoders):
    result = compare(
        encoders["the/base"],
        encoders["run/model"],
        DatasetDict(train=KNOWN, test=PAIRS),
        None,
        OWN,
        encoders["the/base"],
    )
    rows = result.suggestions
    assert list(rows)[:3] == ["adapted", "adapted, replies", "adapted, messages"]
    assert [rows[name]["right"] for name in list(rows)[:3]] == pytest.approx([12 / 30, 9 / 30, 3 / 30])
    assert rows["adapted, messages"]["gain"] == pytest.approx(9 / 30)
    low, high = rows["adapted, messages"]["gain_interval"]
    assert 0 < low < 9 / 30 < high
    assert {"base, replies", "base, messages", "bm25, replies", "bm25, messages", "tfidf, messages"} < rows.keys()
    lines = format_comparison(result).splitlines()
    assert any(line.startswith("  adapted, by messages") and "+0.300" in line for line in lines)


def test_a_small_log_is_compared_on_the_messages_of_cross_validation(encoders, monkeypatch):
    """Each fold is ranked among its own replies, and suggested for from those of the others."""
    asked = []

    def rivals(systems: Any, known: Dataset, unknown: Dataset, turns: Any) -> dict[str, list[str]]:
        assert set(turns.values()) == {()}
        assert not set(known["input"]) & set(unknown["input"]) and len(known) + len(unknown) == 30
        asked.extend(unknown["input"])
        return {"bm25, messages": ["on monday"] * len(unknown)}

    monkeypatch.setattr(comparison, "rival_suggestions", rivals)
    folds = [np.arange(10), np.arange(10, 20), np.arange(20, 30)]
    beaten = np.arange(30) % 2
    ranks = [Ranks(each, np.full(30, 9)) for each in (beaten, np.ones(30, dtype=int))]
    gain = Gain(np.arange(30), ranks[1], ranks[0])
    suggested = {w: Suggested(["on monday"] * 30, np.zeros(30), np.zeros(30)) for w in (OWN, BY_REPLIES, BY_MESSAGES)}
    context = ContextChoice((), [(), (), ()], gain)
    choice = Choice(None, None, gain, folds, suggested, OWN, context)  # type: ignore[arg-type]
    for splits in (DatasetDict(train=PAIRS), DatasetDict(train=PAIRS, test=PAIRS.select(range(29)))):
        result = compare(encoders["the/base"], encoders["run/model"], splits, choice, OWN, encoders["the/base"])
        assert result.adapted["p_at_1"] == pytest.approx(0.5) and result.adapted["split"] == "cross-validation"
        assert result.baselines["base"]["p_at_1"] == 0 and result.baselines["bm25"]["queries"] == 30
        assert result.suggestions["bm25, messages"]["right"] == result.suggestions["adapted"]["right"] == 1
    assert asked == INPUTS * 2


def test_rivals_never_suggest_the_message_itself_and_take_the_best_reply_or_message():
    known = Dataset.from_dict({"input": ["where is it", "how much"], "response": ["How much?", "ten euros"]})
    unknown = Dataset.from_dict({"input": ["how much", "and where"], "response": ["x", "y"]})
    encoder = FakeEncoder({"how much": "How much?", "and where": "How much?"}, size=16)
    found = rival_suggestions({"fake": encoder}, known, unknown)
    assert found["fake, replies"] == ["ten euros", "How much?"]
    assert found["bm25, messages"] == ["ten euros", "How much?"] == found["tfidf, messages"]
    assert found["fake, messages"][0] == "ten euros" and found.keys() >= {"bm25, replies", "tfidf, replies"}


def test_a_peer_encodes_each_text_of_a_side_once():
    asked = []

    class Peer:
        def encode(self, texts: list[str], side: str) -> np.ndarray:
            asked.append((side, *texts))
            return np.array([[float(text), len(side)] for text in texts])

    once = comparison._EncodedOnce(Peer())
    assert once.encode(["1", "2", "1"]).tolist() == [[1, 5], [2, 5], [1, 5]]
    assert once.encode(["2", "3"]).tolist() == [[2, 5], [3, 5]] and once.encode(["3"], "query").tolist() == [[3, 5]]
    assert asked == [("input", "1", "2"), ("input", "3"), ("query", "3")]


def test_token_f1_counts_shared_words_with_repetitions():
    pairs = [("Ten euros!", "ten euros"), ("a a b", "a b c"), ("", "x"), ("a b", "c")]
    assert token_f1(*zip(*pairs, strict=True)) == pytest.approx([1, 4 / 6, 0, 0])


@pytest.mark.parametrize("pairs", [None, Dataset.from_dict({"input": ["a", "b"], "response": ["yes", "no"]})])
def test_there_is_no_comparison_without_three_held_out_replies(encoders, pairs):
    splits = DatasetDict(train=KNOWN, **({"test": pairs} if pairs else {}))
    result = compare(encoders["the/base"], encoders["run/model"], splits, None, OWN, encoders["the/base"])
    assert result == Comparison({}, {}, {}) and "no comparison" in format_comparison(result)
