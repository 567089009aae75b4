from collections.abc import Callable

import numpy as np
import pytest
import torch
from scipy.special import rel_entr, softmax
from torch import Tensor

from trainer.tasks.losses import (
    accuracy,
    cosine_ranking,
    false_negatives,
    in_batch_softmax,
    neighbor_cross_entropy,
    similarity_divergence,
    sum_over_dims,
)


def test_in_batch_softmax_equals_the_papers_formula():
    generator = np.random.default_rng(0)
    scores = generator.normal(size=(5, 9)) * 4
    targets = np.array([3, 0, 8, 2, 1])
    # P(y | x) = exp S(x, y) / sum over the K responses of exp S(x, y_k); the loss is -mean log P, in float64.
    expected = -np.mean([scores[i, t] - np.log(np.exp(scores[i]).sum()) for i, t in enumerate(targets)])
    loss = in_batch_softmax(torch.tensor(scores), torch.tensor(targets))
    np.testing.assert_allclose(loss.item(), expected, rtol=1e-6)


def test_masked_candidates_are_ignored():
    scores = torch.tensor([[1.0, 5.0, 2.0]])
    without = in_batch_softmax(scores[:, [0, 2]], torch.tensor([0]))
    masked = in_batch_softmax(scores, torch.tensor([0]), torch.tensor([[False, True, False]]))
    torch.testing.assert_close(masked, without)


def test_false_negatives_against_a_loop():
    generator = np.random.default_rng(1)
    inputs, responses = generator.integers(0, 6, 40), generator.integers(0, 6, 40)
    targets = np.arange(10, 20)
    expected = [
        [j != t and (inputs[t] == inputs[j] or responses[t] == responses[j]) for j in range(40)] for t in targets
    ]
    mask = false_negatives(
        *(torch.tensor(x) for x in (inputs[targets], responses[targets], inputs, responses, targets))
    )
    np.testing.assert_array_equal(mask.numpy(), expected)


# One neighbor or two, before or after; candidates that are ignored; one neighbor among three candidates.
NEIGHBORS = np.array([[1, 1, 0, 0, 0], [1, 0, 0, 0, 0], [0, 1, 0, 0, 0], [1, 1, 0, 0, 0]], dtype=bool)
CANDIDATES = np.array([[1, 1, 1, 1, 1], [1, 0, 1, 1, 1], [0, 1, 1, 0, 1], [1, 1, 0, 0, 0]], dtype=bool)


def test_neighbor_cross_entropy_is_equation_1_with_a_uniform_target_over_neighbors():
    cosines = np.random.default_rng(7).uniform(-1, 1, (4, 5))
    losses = []
    for row, true, counted in zip(cosines, NEIGHBORS, CANDIDATES, strict=True):
        total = sum(np.exp(row[j]) for j in range(5) if counted[j])
        # L = -sum over S+ and S- of p(s_i, s_j) log p_theta(s_i, s_j), where p is 1 / |S+| for s_j in S+ and 0 in S-.
        losses.append(-sum(np.log(np.exp(row[j]) / total) / true.sum() for j in range(5) if true[j]))
    loss = neighbor_cross_entropy(*map(torch.tensor, (cosines, NEIGHBORS, CANDIDATES)))
    np.testing.assert_allclose(loss.item(), np.mean(losses), rtol=1e-6)


def test_the_gradient_of_neighbor_cross_entropy_is_softmax_minus_target_and_zero_for_ignored_candidates():
    cosines = torch.tensor(np.random.default_rng(8).uniform(-1, 1, (4, 5)), requires_grad=True)
    neighbor_cross_entropy(cosines, torch.tensor(NEIGHBORS), torch.tensor(CANDIDATES)).backward()
    weights = np.where(CANDIDATES, np.exp(cosines.detach().numpy()), 0)
    probabilities = weights / weights.sum(axis=1, keepdims=True)
    expected = (probabilities - NEIGHBORS / NEIGHBORS.sum(axis=1, keepdims=True)) / len(NEIGHBORS)
    np.testing.assert_allclose(cosines.grad.numpy(), expected, atol=1e-7)
    assert not cosines.grad.numpy()[~CANDIDATES].any()


def test_cosine_ranking_against_a_loop():
    generator = np.random.default_rng(2)
    cosines, scores = generator.uniform(-1, 1, 12), generator.integers(0, 3, 12) / 2
    terms = [np.exp(20 * (cosines[i] - cosines[j])) for i in range(12) for j in range(12) if scores[i] < scores[j]]
    loss = cosine_ranking(torch.tensor(cosines), torch.tensor(scores), 20)
    np.testing.assert_allclose(loss.item(), np.log(1 + sum(terms)), rtol=1e-5)


def test_cosine_ranking_of_pairs_with_equal_scores_is_zero():
    cosines = torch.tensor([0.1, 0.9], requires_grad=True)
    loss = cosine_ranking(cosines, torch.ones(2), 20)
    loss.backward()
    assert loss.item() == 0 and not cosines.grad.any()


def test_similarity_divergence_is_the_mean_relative_entropy_over_the_other_texts():
    generator = np.random.default_rng(3)
    cosines, teacher = generator.uniform(-1, 1, (2, 6, 6))
    expected = []
    for i in range(6):
        others = np.arange(6) != i
        expected.append(rel_entr(softmax(20 * teacher[i, others]), softmax(20 * cosines[i, others])).sum())
    loss = similarity_divergence(torch.tensor(cosines), torch.tensor(teacher), 20)
    np.testing.assert_allclose(loss.item(), np.mean(expected), rtol=1e-5)
    assert similarity_divergence(torch.tensor(teacher), torch.tensor(teacher), 20).item() == 0


MASK = torch.tensor(np.random.default_rng(9).random((6, 6)) < 0.3) & ~torch.eye(6, dtype=torch.bool)
LOSSES: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "in_batch_softmax": lambda scores, _: in_batch_softmax(scores, torch.arange(6), MASK),
    "neighbor_cross_entropy": lambda scores, _: neighbor_cross_entropy(
        scores, torch.eye(6, dtype=torch.bool), MASK | torch.eye(6, dtype=torch.bool)
    ),
    "cosine_ranking": lambda scores, _: cosine_ranking(scores[0], torch.arange(6) / 5, 20),
    "similarity_divergence": lambda scores, teacher: similarity_divergence(scores, teacher, 16),
}


@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_half_precision_are_computed_in_float32(name):
    # Multiples of 1/64 have few digits: their products and differences are exact in bfloat16.
    scores, teacher = torch.tensor(np.random.default_rng(3).integers(-64, 65, (2, 6, 6)) / 64)
    loss = LOSSES[name](scores.bfloat16(), teacher.bfloat16())
    assert loss.dtype == torch.float32
    torch.testing.assert_close(loss.double(), LOSSES[name](scores, teacher).double(), rtol=1e-5, atol=1e-6)


def test_accuracy_is_the_share_of_rows_whose_target_has_the_highest_score():
    scores = torch.tensor([[3.0, 1.0, 2.0], [0.0, -1.0, 5.0], [1.0, 7.0, 0.0], [9.0, 1.0, 1.0]])
    assert accuracy(scores, torch.tensor([0, 2, 1, 1])).item() == 0.75


def test_losses_of_all_sizes_are_added():
    def score(dims: int | None) -> tuple[Tensor, Tensor]:
        return torch.tensor({None: 1.0, 8: 20.0, 2: 300.0}[dims]), torch.tensor(float(dims or 0))

    loss, accuracies = sum_over_dims(score, [8, 2])
    assert loss.item() == 321
    assert {name: value.item() for name, value in accuracies.items()} == {
        "accuracy": 0, "accuracy_8": 8, "accuracy_2": 2,
    }  # fmt: skip
    assert sum_over_dims(score, [])[0].item() == 1
