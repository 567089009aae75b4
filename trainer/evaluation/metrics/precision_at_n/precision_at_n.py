"""P@N for response selection: the proportion of queries whose true response is among the N best candidates."""

from collections.abc import Sequence

import datasets
import evaluate
import numpy as np


def precision_at_n(scores: np.ndarray, references: np.ndarray, n: int | Sequence[int] = (1, 3, 10)) -> dict[str, float]:
    """P@N of `scores` (queries, candidates) with the true response of query i in column `references[i]`.

    Ties count against the model, and so does a score that is not a number.

    Raises:
        ValueError: there are no queries, the shapes do not match, or a position or an N is out of range.
    """
    if scores.ndim != 2 or references.shape != scores.shape[:1] or not len(references):
        raise ValueError(
            f"expected scores (queries, candidates) and a position per query, got {scores.shape} and {references.shape}"
        )
    queries, candidates = scores.shape
    if references.min() < 0 or references.max() >= candidates:
        raise ValueError(f"references must be positions of candidates, 0 to {candidates - 1}")
    if not all(value in range(1, candidates + 1) for value in np.atleast_1d(n).tolist()):
        raise ValueError(f"N must be a whole number from 1 to the number of candidates ({candidates}), got {n}")
    true_scores = scores[np.arange(queries), references][:, None]
    # "Not lower" instead of ">=": a NaN on either side counts against the model. The true response counts itself, so
    # the best rank is 1.
    ranks = (~(scores < true_scores)).sum(axis=1)
    return {f"p_at_{value:.0f}": float(np.mean(ranks <= value)) for value in np.atleast_1d(n)}


class PrecisionAtN(evaluate.Metric):
    """`precision_at_n` as an `evaluate` metric; README.md describes it."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description="P@N of response selection: the proportion of queries whose true response is among the N "
            "candidates with the highest scores. Ties count against the model.",
            citation="Yang et al. (2018), https://aclanthology.org/W18-3022",
            inputs_description="predictions: for each query, the scores of its candidates; references: the position of "
            "the true response among them, from 0; n: one or more values of N. Returns p_at_N for each N.",
            # float64: single precision would turn near ties into ties.
            features=datasets.Features(
                {"predictions": datasets.Sequence(datasets.Value("float64")), "references": datasets.Value("int64")}
            ),
        )

    def _compute(
        self, predictions: list[list[float]], references: list[int], n: int | Sequence[int] = (1, 3, 10)
    ) -> dict[str, float]:
        for number, scores in enumerate(predictions):
            if len(scores) != len(predictions[0]):
                raise ValueError(
                    f"predictions[{number}] has {len(scores)} candidates, but predictions[0] has "
                    f"{len(predictions[0])}: expected the same number for all queries"
                )
        return precision_at_n(np.asarray(predictions), np.asarray(references), n)
