"""Interpolation of trained weights with those of the model that training started from (Wortsman et al., 2022)."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from modeling_convsim.modeling_heads import ConvSimForMultitask

FACTORS = (0.25, 0.5, 0.75, 1.0)

Result = TypeVar("Result")


class Interpolation:
    """The weights base + factor (trained - base): 0 gives the base, 1 the trained weights."""

    def __init__(self, base: ConvSimForMultitask) -> None:
        self._base = _copy(base)

    def apply(self, model: ConvSimForMultitask, factor: float) -> None:
        """Replace the trained weights of a model by interpolated ones."""
        self._load(model, _copy(model), factor)

    def evaluate(
        self, model: ConvSimForMultitask, evaluate: Callable[[], Result], factors: Sequence[float] = FACTORS
    ) -> list[tuple[float, Result]]:
        """Evaluate the model with each factor: (factor, result); its trained weights are restored."""
        trained = _copy(model)
        outcomes = []
        for factor in factors:
            self._load(model, trained, factor)
            outcomes.append((factor, evaluate()))
        self._load(model, trained, 1.0)
        return outcomes

    @torch.no_grad()
    def _load(self, model: ConvSimForMultitask, trained: Mapping[str, Tensor], factor: float) -> None:
        for name, value in model.state_dict().items():
            torch.lerp(self._base[name].to(value), trained[name], factor, out=value)


def _copy(model: ConvSimForMultitask) -> dict[str, Tensor]:
    """The weights, with those of the lexical channel, which no step changes."""
    return {name: value.detach().clone() for name, value in model.state_dict().items()}
