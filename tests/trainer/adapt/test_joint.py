"""Two adapted models are joined where that ranks replies better, on messages that did not choose the share."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from datasets import Dataset, DatasetDict

from tests.trainer.evaluation.fake_encoder import FakeEncoder
from trainer.adapt import joint
from trainer.adapt.cross_validation import Choice
from trainer.adapt.joint import SHARES, join
from trainer.adapt.selection import Gain
from trainer.adapt.suggestions import CHOICES, Suggested, Weights
from trainer.evaluation.ranking import Ranks

COUNT = 60
ANSWERS = {f"question {number}": f"answer {number}" for number in range(COUNT)}
PAIRS = Dataset.from_dict(
    {"input": list(ANSWERS), "response": list(ANSWERS.values()), "thread": [f"t{number}" for number in range(COUNT)]}
)
FOLDS = [np.arange(start, COUNT, 3) for start in range(3)]


def adapted(known: range, has_folds: bool) -> Any:
    """An adapted model that knows some of the answers, and its folds."""
    encoder = FakeEncoder({f"question {number}": f"answer {number}" for number in known}, size=64)
    encoder.model = SimpleNamespace(config=SimpleNamespace(context_weights=[]))  # type: ignore[attr-defined]
    base = FakeEncoder()
    model = SimpleNamespace(open=lambda given: encoder if given is base else None)
    none = Ranks(np.full(COUNT, 9), np.full(COUNT, 19))
    choice = Choice(None, None, Gain(np.arange(COUNT), none, none), FOLDS, {}, CHOICES[0], None, [model] * 3)  # type: ignore[arg-type]
    splits = DatasetDict(train=PAIRS) if has_folds else DatasetDict(train=PAIRS, validation=PAIRS)
    return SimpleNamespace(
        choice=choice if has_folds else None,
        pairs=splits,
        base=base,
        judge="judge",
        open=lambda folder: (encoder, folder)[0],
    )


class Both:
    """In place of a `JointEncoder`."""

    def __init__(self, first: FakeEncoder, second: FakeEncoder, share: float) -> None:
        self.parts, self.share = (first, second), share


@pytest.fixture(autouse=True)
def fakes(monkeypatch) -> None:
    def suggest(index: Any, unknown: Dataset, judge: Any) -> dict[Weights, Suggested]:
        assert (
            judge == "judge"
            and not index["known"] & set(unknown["input"])
            and len(index["known"]) + len(unknown) == COUNT
        )
        cosines = np.zeros(len(unknown))
        return {each: Suggested(cosines, cosines + each.message) for each in CHOICES}

    def build(encoder: Both, replies: list[str], questions: list[str]) -> Any:
        assert encoder.share in SHARES
        return {"known": set(questions)}

    monkeypatch.setattr(joint, "JointEncoder", Both)
    monkeypatch.setattr(joint, "ReplyIndex", SimpleNamespace(build=build))
    monkeypatch.setattr(joint, "suggest_by_weights", suggest)


@pytest.mark.parametrize("has_folds", [True, False])
def test_models_that_know_different_answers_are_joined(has_folds):
    first, second = adapted(range(40), has_folds), adapted(range(20, 60), has_folds)
    found = join(first, second, (Path("one"), Path("two")))
    assert found is not None
    queries = COUNT if has_folds else COUNT // 2  # the other half has chosen
    part = found.summarize()
    assert part["share"] == found.encoder.share in SHARES and part["queries"] == queries
    assert part["p_at_1"] > 0.9 > 0.8 > part["base_p_at_1"] > 0.6
    assert part["gain"] == pytest.approx(part["p_at_1"] - part["base_p_at_1"])
    if not has_folds:
        assert found.choice is None
        return
    assert found.choice and found.choice.held_out == FOLDS
    assert found.choice.gain.base is first.choice.gain.base and found.choice.gain.adapted is found.gain.adapted
    assert found.choice.weights == Weights(2.0, 0.0)  # whose suggestions are most like the real replies


@pytest.mark.parametrize("has_folds", [True, False])
def test_a_model_that_adds_nothing_is_not_joined(has_folds):
    assert join(adapted(range(40), has_folds), adapted(range(0), has_folds), (Path("one"), Path("two"))) is None
