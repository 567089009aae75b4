"""Two adapted models are joined where that ranks replies better, on messages that did not choose the share."""

from collections.abc import Iterable
from types import SimpleNamespace

import numpy as np
import pytest
from datasets import Dataset, DatasetDict

from tests.trainer.evaluation.fake_encoder import FakeEncoder
from trainer.adapt import joint
from trainer.adapt.cross_validation import Choice, hold_out
from trainer.adapt.joint import SHARES, join
from trainer.adapt.selection import Gain
from trainer.evaluation.ranking import Ranks

COUNT = 60
ANSWERS = {f"question {number}": f"answer {number}" for number in range(COUNT)}
PAIRS = Dataset.from_list(
    [
        {"input": one, "response": two, "thread": one, "source": "s", "context": [one.replace("question", "turn")]}
        for one, two in ANSWERS.items()
    ]
)


class Longer(FakeEncoder):
    """Has vectors of the length 3."""

    def encode(self, texts: Iterable[str], side: str = "input", contexts: object = None) -> np.ndarray:
        return 3 * super().encode(texts, side, contexts)


def choice_of(known: range, trials: int, by_turns: bool = False) -> Choice:
    """That of a model which knows some of the answers, perhaps by earlier turns, and whose base knows none."""
    asked, weights, kind = ("turn", [1e6], Longer) if by_turns else ("question", [], FakeEncoder)
    encoder = kind({f"{asked} {number}": f"answer {number}" for number in known}, size=64)
    encoder.model = SimpleNamespace(config=SimpleNamespace(context_weights=weights))  # type: ignore[attr-defined]
    none = Ranks(np.full(COUNT, 9), np.full(COUNT, 19))
    gain, trial_encoders = Gain(np.arange(COUNT), none, none), [encoder] * trials
    return Choice(None, gain, None, False, encoder, None, None, trial_encoders)  # type: ignore[arg-type]


@pytest.mark.parametrize("splits", [DatasetDict(train=PAIRS), DatasetDict(train=PAIRS, validation=PAIRS)])
def test_models_are_joined_if_they_know_different_answers(splits, monkeypatch):
    monkeypatch.setattr(joint, "JointEncoder", lambda *parts: SimpleNamespace(parts=parts[:2], share=parts[2]))
    trials = hold_out(splits)
    first, nothing = (choice_of(known, len(trials)) for known in (range(40), range(0)))
    second = choice_of(range(20, 60), len(trials), by_turns=True)
    found = join(first, second, trials)
    assert found is not None
    part = found.summarize()
    assert part["share"] == found.encoder.share in SHARES[:2] and part["queries"] == COUNT
    assert part["p_at_1"] > 0.9 > 0.8 > part["base_p_at_1"] > 0.6
    assert part["gain"] == pytest.approx(part["p_at_1"] - part["base_p_at_1"])
    assert found.choice.gain.base is first.gain.base and found.choice.gain.adapted is found.gain.adapted
    assert found.choice.encoder is found.encoder and found.encoder.parts == (first.encoder, second.encoder)
    assert [each.share for each in found.choice.trial_encoders] == [part["share"]] * len(trials)
    assert join(first, nothing, trials) is None
