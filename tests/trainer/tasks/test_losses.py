"""Losses against the papers' formulas, computed in float64 by loops."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.special import rel_entr, softmax
from torch import Tensor

from trainer.tasks.losses import (
    false_negatives,
    in_batch_softmax,
    neighbor_cross_entropy,
    similarity_divergence,
)


def test_in_batch_softmax_equals_the_papers_formula():
    generator = np.random.default_rng(0)
    scores, targets = generator.normal(size=(5, 9)) * 4, np.array([3, 0, 8, 2, 1])
    # P(y | x) = exp S(x, y) / sum over the K responses of exp S(x, y_k); the loss is -mean log P, in float64.
    expected = -np.mean([scores[i, t] - np.log(np.exp(scores[i]).sum()) for i, t in enumerate(targets)])
    loss = in_batch_softmax(torch.tensor(scores), torch.tensor(targets))
    np.testing.assert_allclose(loss.item(), expected, rtol=1e-6)


def test_false_negatives_against_a_loop():
    generator = np.random.default_rng(1)
    inputs, responses = generator.integers(0, 6, 40), generator.integers(0, 6, 40)
    targets = np.arange(10, 20)
    expected = [
        [j != t and (inputs[t] == inputs[j] or responses[t] == responses[j]) for j in range(40)] for t in targets
    ]
    mask = false_negatives(*map(torch.tensor, (inputs[targets], responses[targets], inputs, responses, targets)))
    np.testing.assert_array_equal(mask.numpy(), expected)


# One neighbor or two, before or after; candidates that are ignored; one neighbor among three candidates.
NEIGHBORS = np.array([[1, 1, 0, 0, 0], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 1, 0, 0, 0]], dtype=bool)
CANDIDATES = np.array([[1, 1, 1, 1, 1], [1, 0, 1, 1, 1], [0, 1, 1, 0, 1], [1, 1, 0, 0, 0]], dtype=bool)


def test_neighbor_cross_entropy_is_equation_1_with_a_uniform_target_over_neighbors():
    cosines = torch.tensor(np.random.default_rng(7).uniform(-1, 1, (4, 5)), requires_grad=True)
    losses = []
    for row, true, counted in zip(cosines.detach().numpy(), NEIGHBORS, CANDIDATES, strict=True):
        total = sum(np.exp(row[j]) for j in range(5) if counted[j])
        # L = -sum over S+ and S- of p(s_i, s_j) log p_theta(s_i, s_j), where p is 1 / |S+| for s_j in S+ and 0 in S-.
        losses.append(-sum(np.log(np.exp(row[j]) / total) / true.sum() for j in range(5) if true[j]))
    loss = neighbor_cross_entropy(cosines, torch.tensor(NEIGHBORS), torch.tensor(CANDIDATES))
    np.testing.assert_allclose(loss.item(), np.mean(losses), rtol=1e-6)
    loss.backward()
    assert not cosines.grad.numpy()[~CANDIDATES].any()


def test_similarity_divergence_is_the_mean_relative_entropy_over_the_other_texts():
    cosines, teacher = np.random.default_rng(3).uniform(-1, 1, (2, 6, 6))
    expected = []
    for i in range(6):
        others = np.arange(6) != i
        expected.append(rel_entr(softmax(20 * teacher[i, others]), softmax(20 * cosines[i, others])).sum())
    loss = similarity_divergence(torch.tensor(cosines), torch.tensor(teacher), 20)
    np.testing.assert_allclose(loss.item(), np.mean(expected), rtol=1e-5)


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
