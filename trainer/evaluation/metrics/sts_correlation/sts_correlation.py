"""Correlation of predicted with gold similarity: Pearson and Spearman, in total and by group."""

from collections.abc import Sequence

import datasets
import evaluate
import numpy as np
from scipy import stats


def sts_correlation(predictions: np.ndarray, references: np.ndarray) -> dict[str, float]:
    """Pearson and Spearman correlation, -1 to 1, of `predictions` (pairs,) with gold `references` (pairs,).

    Raises:
        ValueError: there are fewer than two pairs, or the sizes differ.
    """
    predictions, references = (np.asarray(values, np.float64) for values in (predictions, references))
    if predictions.shape != references.shape or predictions.ndim != 1 or len(predictions) < 2:
        raise ValueError(
            f"expected two or more pairs, each with a prediction and a gold score, got {predictions.shape} and "
            f"{references.shape}"
        )
    return {
        "pearson": float(stats.pearsonr(predictions, references).statistic),
        "spearman": float(stats.spearmanr(predictions, references).statistic),
    }


def sts_correlation_by_group(
    predictions: np.ndarray, references: np.ndarray, groups: Sequence[str]
) -> dict[str, dict[str, float]]:
    """`sts_correlation` over all pairs, under "all", and over the pairs of each group, under the group's name.

    Raises:
        ValueError: as above, for all pairs or for a group; or there is not one group per pair, or one is named "all".
    """
    predictions, references, names = np.asarray(predictions), np.asarray(references), np.asarray(groups, str)
    result = {"all": sts_correlation(predictions, references)}
    if names.shape != predictions.shape or "all" in names:
        raise ValueError(f'expected {len(predictions)} groups, one for each pair, none of them "all", got {len(names)}')
    for name in np.unique(names).tolist():
        try:
            result[name] = sts_correlation(predictions[names == name], references[names == name])
        except ValueError as error:
            raise ValueError(f"group {name!r}: {error}") from error
    return result


class StsCorrelation(evaluate.Metric):
    """STS correlation as an `evaluate` metric; README.md describes it."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description="Pearson's r and Spearman's rho between predicted and gold similarity scores: over all pairs "
            "and, if the group of each pair is given (on the STS Benchmark, its genre), over each group.",
            citation="Cer et al. (2017), SemEval-2017 Task 1, https://aclanthology.org/S17-2001",
            inputs_description="predictions: a score for each pair; references: the gold scores; groups: optional, the "
            'name of each pair\'s group. Returns pearson and spearman, with groups for "all" and each group.',
            features=datasets.Features(
                {"predictions": datasets.Value("float64"), "references": datasets.Value("float64")}
            ),
        )

    def _compute(self, predictions: list[float], references: list[float], groups: Sequence[str] | None = None) -> dict:
        if groups is None:
            return sts_correlation(np.asarray(predictions), np.asarray(references))
        return sts_correlation_by_group(np.asarray(predictions), np.asarray(references), groups)
