"""Tuning one matrix: its objective and gradient in float64, its start, its guarantees, and a planted direction."""

import math

import numpy as np
import pytest
import torch
from scipy import stats

from trainer.evaluation.metrics.sts_correlation.sts_correlation import sts_correlation
from trainer.evaluation.similarity import angular, cosine, to_gold_scale
from trainer.evaluation.sts_tuning import EmbeddedPairs, objective, tune, tuned_scores

SIZE = 5


def planted(pairs: int, seed: int, noise: float = 0.1) -> EmbeddedPairs:
    """Unit vectors whose gold is the angle of their first two coordinates; the other three have no effect on gold."""
    random = np.random.default_rng(seed)
    u, v = random.normal(size=(2, pairs, SIZE))
    u, v = (side / np.linalg.norm(side, axis=1, keepdims=True) for side in (u, v))
    gold = to_gold_scale(angular(cosine(u[:, :2], v[:, :2]))) + noise * random.normal(size=pairs)
    return EmbeddedPairs(u.astype(np.float32), v.astype(np.float32), gold.clip(0, 5).astype(np.float32))


def pearson(matrix: np.ndarray, pairs: EmbeddedPairs) -> float:
    return sts_correlation(tuned_scores(matrix, pairs), pairs.gold)["pearson"]


def loss_in_a_loop(matrix: np.ndarray, pairs: EmbeddedPairs, penalty: float) -> float:
    scores = []
    for first, second in zip(pairs.first.astype(float), pairs.second.astype(float), strict=True):
        u, v = matrix @ first, matrix @ second
        cosine_of_pair = float(u @ v) / math.hypot(*u) / math.hypot(*v)
        scores.append(-math.acos(max(-1, min(1, cosine_of_pair))))
    distance = float(((matrix - np.eye(len(matrix))) ** 2).sum())
    return 1 - float(stats.pearsonr(scores, pairs.gold.astype(float)).statistic) + penalty * distance


def loss_and_gradient(matrix: np.ndarray, pairs: EmbeddedPairs, penalty: float) -> tuple[float, np.ndarray]:
    weights = torch.tensor(matrix, dtype=torch.float64, requires_grad=True)
    first, second, gold = (
        torch.tensor(array, dtype=torch.float64) for array in (pairs.first, pairs.second, pairs.gold)
    )
    loss = objective(weights, first, second, gold, penalty)
    loss.backward()
    assert weights.grad is not None
    return loss.item(), weights.grad.numpy()


@pytest.mark.parametrize("penalty", [0.0, 0.01])
def test_objective_and_gradient_equal_the_formula_and_its_differences(penalty: float) -> None:
    pairs = planted(30, 0)
    matrix = np.eye(SIZE) + 0.3 * np.random.default_rng(1).normal(size=(SIZE, SIZE))
    loss, gradient = loss_and_gradient(matrix, pairs, penalty)
    assert loss == pytest.approx(loss_in_a_loop(matrix, pairs, penalty), abs=1e-12)
    step = 1e-5
    for place in np.ndindex(SIZE, SIZE):
        moved = np.zeros((SIZE, SIZE))
        moved[place] = step
        rise = loss_in_a_loop(matrix + moved, pairs, penalty) - loss_in_a_loop(matrix - moved, pairs, penalty)
        assert gradient[place] == pytest.approx(rise / (2 * step), abs=1e-7)


def test_gradient_is_finite_for_equal_opposite_and_empty_vectors() -> None:
    u = planted(1, 0).first[0]
    first, second = np.stack([u, u, u, 0 * u]), np.stack([u, -u, 0 * u, 0 * u])
    pairs = EmbeddedPairs(first, second, np.array([4, 1, 2, 3], dtype=np.float32))
    loss, gradient = loss_and_gradient(np.eye(SIZE), pairs, 0.0)
    assert math.isfinite(loss) and np.isfinite(gradient).all()


def test_tuning_finds_the_planted_direction() -> None:
    train, dev, test = planted(600, 0), planted(200, 1), planted(400, 2)
    matrix = tune(train, dev)
    untuned = pearson(np.eye(SIZE, dtype=np.float32), test)
    assert untuned < 0.8 and pearson(matrix, test) > 0.97
    # How much of the two relevant coordinates the matrix preserves, and how much of the other three.
    assert np.linalg.norm(matrix[:, 2:]) < 0.2 * np.linalg.norm(matrix[:, :2])


@pytest.mark.parametrize("seed", range(3))
def test_dev_is_never_worse_than_untuned(seed: int) -> None:
    train, dev = planted(40, seed), planted(30, seed + 10)
    misleading = EmbeddedPairs(train.first, train.second, 5 - train.gold)
    identity = np.eye(SIZE, dtype=np.float32)
    assert pearson(tune(misleading, dev), dev) >= pearson(identity, dev)


def test_tuning_is_deterministic_and_its_matrix_symmetric() -> None:
    train, dev = planted(100, 0), planted(50, 1)
    matrix = tune(train, dev)
    assert (matrix == tune(train, dev)).all()
    assert abs(matrix - np.eye(SIZE)).max() > 0.05 and matrix == pytest.approx(matrix.T, abs=1e-6)
