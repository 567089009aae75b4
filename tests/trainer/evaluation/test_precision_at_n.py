"""P@N against values computed by hand, a loop over ranks, and the `evaluate` module."""

import math

import evaluate
import numpy as np
import pytest

from trainer.evaluation.metrics.precision_at_n.precision_at_n import PrecisionAtN, precision_at_n

NAN = math.nan


@pytest.mark.parametrize(
    ("scores", "reference", "rank"),
    [
        ([0.9, 0.1, 0.2, 0.3], 0, 1),
        ([0.9, 0.1, 0.2, 0.3], 2, 3),
        ([0.5, 0.5, 0.2, 0.3], 0, 2),  # the tie goes before the true response
        ([0.5, 0.5, 0.5, 0.5], 0, 4),
        ([0.9, NAN, 0.2, 0.3], 0, 2),  # so does NaN
        ([NAN, 0.1, 0.2, 0.3], 0, 4),
        ([-math.inf, 0.1, -math.inf, 0.3], 0, 4),
    ],
)
def test_rank_of_the_true_response_by_hand(scores: list[float], reference: int, rank: int) -> None:
    n = [1, 2, 3, 4]
    result = precision_at_n(np.array([scores]), np.array([reference]), n)
    assert result == {f"p_at_{value}": float(rank <= value) for value in n}


def test_proportion_of_queries_by_hand() -> None:
    scores = np.array([[3, 2, 1], [1, 2, 3], [2, 2, 1], [1, 9, 5]])  # true response in column 0: ranks 1, 3, 2, 3
    assert precision_at_n(scores, np.zeros(4, int), [1, 2, 3]) == {"p_at_1": 0.25, "p_at_2": 0.5, "p_at_3": 1.0}


def random_case() -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(0)
    scores = random.integers(0, 12, (60, 20)) / 4  # coarse: many ties
    scores[random.random(scores.shape) < 0.02] = NAN
    return scores, random.integers(0, 20, 60)


def test_equals_a_loop_over_candidates() -> None:
    scores, references = random_case()
    ranks = []
    for row, true in zip(scores.tolist(), references.tolist(), strict=True):
        others = [score for column, score in enumerate(row) if column != true]
        ranks.append(1 + len(others) - sum(1 for score in others if score < row[true]))
    expected = {f"p_at_{n}": sum(rank <= n for rank in ranks) / len(ranks) for n in (1, 3, 10)}
    assert precision_at_n(scores, references) == pytest.approx(expected)
    assert 0 < expected["p_at_3"] < expected["p_at_10"] < 1


def test_module_by_class_and_by_path_gives_the_same(from_root: None) -> None:
    scores, references = random_case()
    expected = precision_at_n(scores, references, (1, 5))
    for metric in (PrecisionAtN(), evaluate.load("trainer/evaluation/metrics/precision_at_n")):
        assert metric.compute(predictions=scores, references=references, n=[1, 5]) == expected
        assert metric.compute(predictions=scores, references=references) == precision_at_n(scores, references)


def test_the_module_distinguishes_scores_that_are_equal_in_single_precision() -> None:
    scores = [[1 + 1e-12, 1.0], [1.0, 1 + 1e-12]]
    assert PrecisionAtN().compute(predictions=scores, references=[0, 0], n=[1]) == {"p_at_1": 0.5}


@pytest.mark.parametrize(
    ("scores", "references", "n", "message"),
    [
        (np.zeros((0, 3)), [], [1], "expected scores"),
        (np.zeros(3), [0, 0, 0], [1], "expected scores"),
        (np.zeros((2, 3)), [0], [1], "expected scores"),
        (np.zeros((1, 3)), [3], [1], "position of a candidate, 0 to 2"),
        (np.zeros((1, 3)), [-1], [1], "position of a candidate, 0 to 2"),
        (np.zeros((1, 3)), [0], [4], r"between 1 and the number of candidates \(3\), got \[4\]"),
        (np.zeros((1, 3)), [0], [0], "between 1 and"),
    ],
)
def test_wrong_sizes_are_refused(scores: np.ndarray, references: list[int], n: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        precision_at_n(scores, np.array(references, int), n)
