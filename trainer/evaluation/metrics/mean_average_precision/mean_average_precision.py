"""Mean average precision over queries, with the conventions of the SemEval community question answering scorer."""

from collections.abc import Sequence

import datasets
import evaluate
import numpy as np

_DESCRIPTION = """\
Mean average precision (MAP) of ranked candidates, as the scorer of SemEval-2016 and 2017 Task 3 computes it: a query \
without a relevant candidate counts 0, and candidates with equal scores keep the order in which they are given.
"""

_CITATION = """\
@inproceedings{nakov-etal-2017-semeval,
  title = {{S}em{E}val-2017 Task 3: Community Question Answering},
  author = {Nakov, Preslav and Hoogeveen, Doris and M{\\`a}rquez, Llu{\\'\\i}s and Moschitti, Alessandro and Mubarak,
            Hamdy and Baldwin, Timothy and Verspoor, Karin},
  booktitle = {Proceedings of the 11th International Workshop on Semantic Evaluation},
  year = {2017},
  url = {https://aclanthology.org/S17-2003}
}
"""

_INPUTS = """\
Args:
    predictions: a score for each candidate of each query, higher for more relevant.
    references: 1 if that candidate is relevant, 0 if not.
    queries: the name of the query each candidate belongs to.
Returns:
    map: from 0 to 1.
"""


def average_precisions(scores: np.ndarray, relevant: np.ndarray, queries: Sequence[str]) -> np.ndarray:
    """Average precision (distinct queries,), 0 to 1, of each query, in the order of their names.

    Args:
        scores: of the candidates of all queries, (candidates,).
        relevant: whether each is, (candidates,).
        queries: which query each belongs to, (candidates,).

    Raises:
        ValueError: no candidate, or sizes that differ.
    """
    scores, relevant, names = np.asarray(scores), np.asarray(relevant), np.asarray(queries)
    if not len(scores) or not scores.shape == relevant.shape == names.shape:
        raise ValueError(
            f"expected a score, a relevance and a query for each candidate, got {scores.shape}, "
            f"{relevant.shape} and {names.shape}"
        )
    result = []
    for name in np.unique(names):
        of_query = names == name
        # Stable, as the official scorer: among equal scores the given order stays.
        ranked = relevant[of_query][np.argsort(-scores[of_query], kind="stable")]
        places = np.flatnonzero(ranked) + 1
        precisions = np.arange(1, len(places) + 1) / places
        result.append(precisions.mean() if len(places) else 0.0)
    return np.array(result)


def mean_average_precision(scores: np.ndarray, relevant: np.ndarray, queries: Sequence[str]) -> float:
    """MAP, 0 to 1: the mean of `average_precisions`, which takes the same arguments.

    Raises:
        ValueError: no candidate, or sizes that differ.
    """
    return float(average_precisions(scores, relevant, queries).mean())


class MeanAveragePrecision(evaluate.Metric):
    """MAP as an `evaluate` metric; `mean_average_precision` is the same as a function of arrays."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description=_DESCRIPTION,
            citation=_CITATION,
            inputs_description=_INPUTS,
            features=datasets.Features(
                {
                    "predictions": datasets.Value("float64"),
                    "references": datasets.Value("int64"),
                    "queries": datasets.Value("string"),
                }
            ),
            reference_urls=["https://alt.qcri.org/semeval2017/task3/"],
        )

    def _compute(self, predictions: list[float], references: list[int], queries: list[str]) -> dict[str, float]:
        return {"map": mean_average_precision(np.asarray(predictions), np.asarray(references), queries)}
