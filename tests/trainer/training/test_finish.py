"""The finished model has the weights of the best checkpoint, and is evaluated on the requested splits."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from trainer.training.context import Progress
from trainer.training.finish import _final_results, _load_best


def test_the_weights_of_the_best_checkpoint_are_loaded(tmp_path: Path) -> None:
    for step in (2, 4, 6):
        (tmp_path / f"checkpoint-{step}").mkdir()
        save_file({"weight": torch.full((1, 2), float(step))}, tmp_path / f"checkpoint-{step}" / "model.safetensors")
    model: Any = nn.Linear(2, 1, bias=False)
    _load_best(model, tmp_path, Progress(step=6, best_step=4))
    assert model.weight.tolist() == [[4, 4]]


class FakeEvaluator:
    """Its score is the weight of its model; remembers how it is called."""

    def __init__(self) -> None:
        self.model = nn.Linear(1, 1, bias=False)
        nn.init.constant_(self.model.weight, 1 / 3)
        self.calls: list[tuple[str, bool]] = []

    def evaluate(self, split: str, intervals: bool = False, matrices: Any = None) -> dict[str, Any]:
        self.calls.append((split, intervals))
        weight = self.model.weight.item()
        matrices["stsb_tuned"] = np.full((1, 1), weight)
        return {"snli": {"accuracy": weight}, "stsb_tuned": {"test": {"all": {"pearson": weight}}}}


@pytest.mark.parametrize("split", ["both", "dev"])
@pytest.mark.parametrize("half", [False, True])
def test_the_published_weights_are_evaluated_on_the_requested_splits(split: str, half: bool) -> None:
    evaluator, matrices = FakeEvaluator(), {}
    context = SimpleNamespace(arguments=SimpleNamespace(final_split=split, half_precision=half))
    results = _final_results(context, evaluator, matrices)  # type: ignore[arg-type, var-annotated]
    whole, rounded = float(np.float32(1 / 3)), float(np.float16(1 / 3))
    published = rounded if half else whole
    assert evaluator.calls == [(split, True)] * (1 + half)
    assert results["snli"] == {"accuracy": published} and matrices["stsb_tuned"] == published
    assert results["stsb_tuned"]["test"]["all"]["pearson"] == published
    # Tuning is not compared: it changes by more than the rounding of the weights.
    assert results.get("full_precision") == ({"snli": {"accuracy": whole}} if half else None)
