"""Correlation of predicted with gold similarity: Pearson and Spearman, in total and by group."""

from collections.abc import Sequence

import datasets
import evaluate
import numpy as np
from scipy import stats

_DESCRIPTION = """\
Pearson's r and Spearman's rho between predicted and gold similarity scores, which \
evaluate semantic textual similarity (STS): over all pairs and, if the group of each pair is given (on the STS \
Benchmark, its genre), over each group.
"""

_CITATION = """\
@inproceedings{cer-etal-2017-semeval,
  title = {{S}em{E}val-2017 Task 1: Semantic Textual Similarity Multilingual and Crosslingual Focused Evaluation},
  author = {Cer, Daniel and Diab, Mona and Agirre, Eneko and Lopez-Gazpio, I{\\~n}igo and Specia, Lucia},
  booktitle = {Proceedings of the 11th International Workshop on Semantic Evaluation},
  year = {2017},
  url = {https://aclanthology.org/S17-2001}
}
"""

_INPUTS = """\
Args:
    predictions: a score for each pair, on any scale, higher for more similar.
    references: the gold score of each pair.
    groups: optional, the name of each pair's group.
Returns:
    pearson, spearman: from -1 to 1; NaN where one side is constant. With `groups`, a dictionary with these two for
    "all" and for each group.
"""


def sts_correlation(predictions: np.ndarray, references: np.ndarray) -> dict[str, float]:
    """Pearson and Spearman correlation, -1 to 1, of `predictions` (pairs,) with gold `references` (pairs,).

    Raises:
        ValueError: fewer than two pairs, or sizes that differ.
    """
    predictions, references = (np.asarray(values, np.float64) for values in (predictions, references))
    return {
        "pearson": float(stats.pearsonr(predictions, references).statistic),
        "spearman": float(stats.spearmanr(predictions, references).statistic),
    }


def sts_correlation_by_group(
    predictions: np.ndarray, references: np.ndarray, groups: Sequence[str]
) -> dict[str, dict[str, float]]:
    """`sts_correlation` over all pairs, under "all", and over the pairs of each group, under the group's name."""
    predictions, references, names = np.asarray(predictions), np.asarray(references), np.asarray(groups)
    result = {"all": sts_correlation(predictions, references)}
    for name in sorted(set(groups)):
        result[name] = sts_correlation(predictions[names == name], references[names == name])
    return result


class StsCorrelation(evaluate.Metric):
    """STS correlation as an `evaluate` metric."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features(
                {"predictions": datasets.Value("float64"), "references": datasets.Value("float64")}
            ),
            reference_urls=["https://ixa2.si.ehu.eus/stswiki/index.php/STSbenchmark"],
        )

    def _compute(self, predictions: list[float], references: list[float], groups: Sequence[str] | None = None) -> dict:
        if groups is None:
            return sts_correlation(np.asarray(predictions), np.asarray(references))
        return sts_correlation_by_group(np.asarray(predictions), np.asarray(references), groups)
