"""P@N for response selection: the proportion of queries whose true response is among the N best candidates."""

from collections.abc import Sequence

import datasets
import evaluate
import numpy as np

_DESCRIPTION = """\
P@N of response selection (1-of-100 ranking where each query has 100 candidates): the proportion of queries whose true \
response is among the N candidates with the highest scores. Ties count against the model: a candidate that scores as \
much as the true response is ranked before it.
"""

_CITATION = """\
@inproceedings{yang-etal-2018-learning,
  title = {Learning Semantic Textual Similarity from Conversations},
  author = {Yang, Yinfei and Yuan, Steve and Cer, Daniel and Kong, Sheng-yi and Constant, Noah and Pilar, Petr and Ge,
            Heming and Sung, Yun-Hsuan and Strope, Brian and Kurzweil, Ray},
  booktitle = {Proceedings of the Third Workshop on Representation Learning for NLP},
  year = {2018},
  url = {https://aclanthology.org/W18-3022}
}
"""

_INPUTS = """\
Args:
    predictions: for each query, the scores of its candidates (the same number for every query).
    references: for each query, the position of the true response among its candidates, from 0.
    n: the values of N, from 1 to the number of candidates; default (1, 3, 10).
Returns:
    p_at_N for each N: a proportion from 0 to 1.
"""


def true_ranks(scores: np.ndarray, references: np.ndarray) -> np.ndarray:
    """Ranks (queries,), from 1, of the true responses; takes `scores` and `references` of `precision_at_n`.

    Ties count against the model, and so does a score that is not a number.

    Raises:
        ValueError: no query, shapes that do not match, or a position outside the candidates.
    """
    scores, references = np.asarray(scores), np.asarray(references)
    if scores.ndim != 2 or references.shape != scores.shape[:1] or not len(references):
        raise ValueError(
            f"expected scores (queries, candidates) and one position a query, got {scores.shape} and {references.shape}"
        )
    if references.min() < 0 or references.max() >= scores.shape[1]:
        raise ValueError(f"a reference is the position of a candidate, 0 to {scores.shape[1] - 1}")
    true_scores = scores[np.arange(len(scores)), references][:, None]
    # "Not lower" instead of ">=": a NaN on either side counts against the model. The true response counts itself, so
    # the best rank is 1.
    return (~(scores < true_scores)).sum(axis=1)


def precision_at_n(scores: np.ndarray, references: np.ndarray, n: Sequence[int] = (1, 3, 10)) -> dict[str, float]:
    """P@N of `scores` (queries, candidates) with the true response of query i in column `references[i]`.

    Raises:
        ValueError: as `true_ranks`, or an N outside the candidates.
    """
    ranks, candidates = true_ranks(scores, references), np.shape(scores)[1]
    if not all(1 <= value <= candidates for value in n):
        raise ValueError(f"N must lie between 1 and the number of candidates ({candidates}), got {list(n)}")
    return {f"p_at_{value}": float(np.mean(ranks <= value)) for value in n}


class PrecisionAtN(evaluate.Metric):
    """P@N as an `evaluate` metric; `precision_at_n` is the same as a function of arrays."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS,
            # float64: single precision would turn near ties into ties.
            features=datasets.Features(
                {"predictions": datasets.Sequence(datasets.Value("float64")), "references": datasets.Value("int64")}
            ),
            reference_urls=["https://aclanthology.org/W18-3022"],
        )

    def _compute(
        self, predictions: list[list[float]], references: list[int], n: Sequence[int] = (1, 3, 10)
    ) -> dict[str, float]:
        return precision_at_n(np.asarray(predictions), np.asarray(references), n)
