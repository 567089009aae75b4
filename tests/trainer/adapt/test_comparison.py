"""The adapted model against other systems, on the same queries."""

from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset

from tests.trainer.evaluation.fake_encoder import FakeEncoder
from trainer.adapt import comparison
from trainer.adapt.comparison import PEER, Comparison, compare, format_comparison

INPUTS = [f"question {number}" for number in range(30)]
RESPONSES = [f"answer {number}" for number in range(30)]
PAIRS = Dataset.from_dict({"input": INPUTS, "response": RESPONSES, "thread": INPUTS})


@pytest.fixture
def encoders(monkeypatch) -> dict[str, FakeEncoder]:
    """The adapted model knows 20 answers, its base 12, of which the model does not know 3; the peer knows none."""
    known = dict(zip(INPUTS, RESPONSES, strict=True))
    answers = {
        "run/model": {text: known[text] for text in INPUTS[:20]},
        "the/base": {t: known[t] for t in INPUTS[11:23]},
    }
    found = {name: FakeEncoder(each, size=32) for name, each in (answers | {PEER: {}}).items()}
    monkeypatch.setattr(comparison, "load_encoder", found.__getitem__)
    monkeypatch.setattr(comparison, "installed_copy", lambda name: name)  # not installed
    return found


def hits(encoder: FakeEncoder) -> np.ndarray:
    """Whether each input's own response has the highest score."""
    scores = encoder.encode(INPUTS, "query") @ encoder.encode(RESPONSES, "response").T
    return scores.argmax(axis=1) == np.arange(30)


def test_each_system_ranks_the_same_queries_and_the_gain_is_that_of_the_model(encoders):
    result = compare("the/base", Path("run/model"), PAIRS)
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
    assert "P@1 of 30 held-out messages, each with 30 candidate replies" in text
    assert f"  the base           {base.mean():6.3f}  [" in text and f"{part['gain']:+6.3f}  [" in text


@pytest.mark.parametrize("pairs", [None, Dataset.from_dict({"input": ["a", "b"], "response": ["yes", "no"]})])
def test_there_is_no_comparison_without_three_held_out_replies(encoders, pairs):
    result = compare("the/base", Path("run/model"), pairs)
    assert result == Comparison({}, {}) and "no comparison" in format_comparison(result)
