"""The adapted model against other systems, on the same queries."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from datasets import Dataset, DatasetDict

from tests.trainer.evaluation.fake_encoder import FakeEncoder
from trainer.adapt import comparison
from trainer.adapt.comparison import PEER, compare, describe_gain, format_comparison
from trainer.adapt.cross_validation import hold_out
from trainer.adapt.selection import Gain
from trainer.evaluation.ranking import Ranks

INPUTS = [f"question {number}" for number in range(30)]
RESPONSES = [f"answer {number}" for number in range(30)]
PAIRS = Dataset.from_dict({"input": INPUTS, "response": RESPONSES, "thread": INPUTS})
KNOWN = Dataset.from_dict({"input": ["how much", "where"], "response": ["ten euros", "there"], "thread": ["a", "b"]})


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
        encoder.name = name  # type: ignore[attr-defined]
        encoder.uses_context = False  # type: ignore[attr-defined]
    monkeypatch.setattr(comparison, "load_encoder", found.__getitem__)
    monkeypatch.setattr(comparison, "installed_copy", lambda name: name)  # not installed
    monkeypatch.setattr(comparison, "ENOUGH", 30)
    return found


def adapted_of(encoders: dict[str, FakeEncoder], splits: DatasetDict, gain: Gain | None = None) -> Any:
    choice = SimpleNamespace(encoder=encoders["run/model"], gain=gain)
    trials = hold_out(DatasetDict(train=splits["train"])) if gain else []
    return SimpleNamespace(
        base=encoders["the/base"], choice=choice, pairs=splits, trials=trials, measured_by="cross-validation"
    )


def hits(encoder: FakeEncoder) -> np.ndarray:
    """Whether each input's own response has the highest score."""
    scores = encoder.encode(INPUTS, "query") @ encoder.encode(RESPONSES, "response").T
    return scores.argmax(axis=1) == np.arange(30)


def test_each_system_ranks_the_same_queries_and_the_gain_is_that_of_the_model(encoders):
    result = compare(adapted_of(encoders, DatasetDict(train=KNOWN, test=PAIRS)))
    ours, base = hits(encoders["run/model"]), hits(encoders["the/base"])
    assert 20 <= ours.sum() < 30 and ours.sum() > base.sum() >= 12
    assert result["adapted"]["p_at_1"] == pytest.approx(ours.mean())
    for part in result.values():
        low, high = part["p_at_1_interval"]
        assert low <= part["p_at_1"] <= high and (low < high or part["p_at_1"] in (0, 1))
        assert (part["queries"], part["candidates"], part["split"]) == (30, 30, "test")
    assert list(result) == ["adapted", "base", "bm25", "tfidf"]
    part = result["base"]
    assert part["p_at_1"] == pytest.approx(base.mean())
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
    result = {"adapted": {"p_at_1": 0.5}, "base": {"p_at_1": 0.25}, PEER: {"p_at_1": 0.75}}
    assert describe_gain(result, is_adapted=True) == f"adapted: P@1 0.500; 0.250 (the base), 0.750 ({PEER})"
    kept = "the base as it is, because adapting did not help for certain"
    assert describe_gain(result, is_adapted=False) == f"{kept}: P@1 0.250; 0.500 (adapted), 0.750 ({PEER})"
    joined = f"{kept}; joined with the project's own base, whose share in a score is 0.5"
    assert describe_gain(result, False, 0.5).startswith(f"{joined}: P@1 0.500; 0.250 (the base)")


def test_a_small_log_is_compared_on_the_messages_of_cross_validation(encoders):
    """Each fold is ranked among its own replies."""
    beaten = np.arange(30) % 2
    ranks = [Ranks(each, np.full(30, 9)) for each in (beaten, np.ones(30, dtype=int))]
    gain = Gain(np.arange(30), ranks[1], ranks[0])
    for splits in (DatasetDict(train=PAIRS), DatasetDict(train=PAIRS, test=PAIRS.select(range(29)))):
        result = compare(adapted_of(encoders, splits, gain))
        assert result["adapted"]["p_at_1"] == pytest.approx(0.5) and result["adapted"]["split"] == "cross-validation"
        assert result["base"]["p_at_1"] == 0 and result["bm25"]["queries"] == 30
