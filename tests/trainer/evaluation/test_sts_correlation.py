"""STS correlation against scipy and a formula in float64, by genre, and as an `evaluate` module."""

import math

import evaluate
import numpy as np
import pytest
from scipy import stats

from trainer.evaluation.metrics.sts_correlation.sts_correlation import (
    StsCorrelation,
    sts_correlation,
    sts_correlation_by_group,
)


@pytest.fixture
def case() -> tuple[np.ndarray, np.ndarray, list[str]]:
    random = np.random.default_rng(0)
    gold = random.integers(0, 26, 90) / 5
    groups = random.choice(["captions", "news"], 90).tolist()
    return gold + random.normal(0, 2, 90), gold, groups


def test_pearson_and_spearman_equal_their_formulas(case: tuple[np.ndarray, np.ndarray, list[str]]) -> None:
    scores, gold, _ = case

    def pearson(a: np.ndarray, b: np.ndarray) -> float:
        a, b = a - math.fsum(a) / len(a), b - math.fsum(b) / len(b)
        return math.fsum(a * b) / math.sqrt(math.fsum(a * a) * math.fsum(b * b))

    result = sts_correlation(scores, gold)
    assert result["pearson"] == pytest.approx(pearson(scores, gold), abs=1e-12)
    assert result["spearman"] == pytest.approx(pearson(stats.rankdata(scores), stats.rankdata(gold)), abs=1e-12)


def test_single_precision_is_computed_in_double_precision() -> None:
    u, v = (10 + np.random.default_rng(0).normal(size=(2, 500)) * 1e-2).astype(np.float32)
    expected = stats.pearsonr(u.astype(float), v.astype(float)).statistic
    assert sts_correlation(u, v)["pearson"] == pytest.approx(expected, abs=1e-12)


def test_groups_are_evaluated_alone_and_a_missing_one_is_absent(case: tuple[np.ndarray, np.ndarray, list[str]]) -> None:
    scores, gold, groups = case
    result = sts_correlation_by_group(scores, gold, groups)
    assert list(result) == ["all", "captions", "news"]
    for name in ("captions", "news"):
        rows = [row for row, group in enumerate(groups) if group == name]
        assert result[name]["pearson"] == pytest.approx(stats.pearsonr(scores[rows], gold[rows])[0])
        assert result[name]["spearman"] == pytest.approx(stats.spearmanr(scores[rows], gold[rows])[0])
    assert result["all"] == sts_correlation(scores, gold)


def test_module_by_class_and_by_path_gives_the_same(
    case: tuple[np.ndarray, np.ndarray, list[str]], from_root: None
) -> None:
    scores, gold, groups = case
    for metric in (StsCorrelation(), evaluate.load("trainer/evaluation/metrics/sts_correlation")):
        assert metric.compute(predictions=scores, references=gold) == sts_correlation(scores, gold)
        by_group = metric.compute(predictions=scores, references=gold, groups=groups)
        assert by_group == sts_correlation_by_group(scores, gold, groups)


@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_constant_scores_have_no_correlation() -> None:
    assert all(math.isnan(value) for value in sts_correlation(np.ones(4), np.arange(4)).values())


@pytest.mark.parametrize(("scores", "gold"), [([1.0], [1.0]), ([1.0, 2.0], [1.0, 2.0, 3.0])])
def test_one_pair_and_other_sizes_are_refused(scores: list[float], gold: list[float]) -> None:
    with pytest.raises(ValueError, match=r"length|broadcast"):
        sts_correlation(np.array(scores), np.array(gold))
