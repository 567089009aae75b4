"""Losses in half precision; `test_task_losses` has their formulas."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from trainer.tasks.losses import (
    in_batch_softmax,
    neighbor_cross_entropy,
    similarity_divergence,
)

MASK = torch.tensor(np.random.default_rng(9).random((6, 6)) < 0.3) & ~torch.eye(6, dtype=torch.bool)
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "in_batch_softmax": lambda scores, _: in_batch_softmax(scores, torch.arange(6), MASK),
    "neighbor_cross_entropy": lambda scores, _: neighbor_cross_entropy(
        scores, torch.eye(6, dtype=torch.bool), MASK | torch.eye(6, dtype=torch.bool)
    ),
    "similarity_divergence": lambda scores, teacher: similarity_divergence(scores, teacher, 16),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_half_precision_are_computed_in_float32(name):
    # Multiples of 1/64 have few digits: their products and differences are exact in bfloat16.
    scores, teacher = torch.tensor(np.random.default_rng(3).integers(-64, 65, (2, 6, 6)) / 64)
    loss = LOSSES[name](scores.bfloat16(), teacher.bfloat16())
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), LOSSES[name](scores, teacher).double(), rtol=1e-5, atol=1e-6)
