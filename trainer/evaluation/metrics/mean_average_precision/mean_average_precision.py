"""Mean average precision over queries, with the conventions of the SemEval community question answering scorer."""

from collections.abc import Sequence

import datasets
import evaluate
import numpy as np


def average_precisions(scores: np.ndarray, relevant: np.ndarray, queries: Sequence[str]) -> np.ndarray:
    """Average precision (distinct queries,), 0 to 1, of each query, in the order of their names.

    Args:
        scores: scores of the candidates of all queries, (candidates,).
        relevant: whether each candidate is relevant, (candidates,).
        queries: the query of each candidate, (candidates,).

    Raises:
        ValueError: there are no candidates, or the sizes differ.
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
        # Stable, like the official scorer: candidates with equal scores keep their order.
        ranked = relevant[of_query][np.argsort(-scores[of_query], kind="stable")]
        places = np.flatnonzero(ranked) + 1
        precisions = np.arange(1, len(places) + 1) / places
        result.append(precisions.mean() if len(places) else 0.0)
    return np.array(result)


class MeanAveragePrecision(evaluate.Metric):
    """The mean of `average_precisions`, 0 to 1, as an `evaluate` metric; README.md describes it."""

    def _info(self) -> evaluate.MetricInfo:
        return evaluate.MetricInfo(
            description="Mean average precision (MAP) as the scorer of SemEval-2016 and 2017 Task 3 computes it: a "
            "query without a relevant candidate counts as 0, and candidates with equal scores keep the given order.",
            citation="Nakov et al. (2017), SemEval-2017 Task 3, https://aclanthology.org/S17-2003",
            inputs_description="predictions: scores of all candidates; references: 1 if relevant, 0 if not; queries: "
            "the name of each candidate's query. Returns map.",
            features=datasets.Features(
                {
                    "predictions": datasets.Value("float64"),
                    "references": datasets.Value("int64"),
                    "queries": datasets.Value("string"),
                }
            ),
        )

    def _compute(self, predictions: list[float], references: list[int], queries: list[str]) -> dict[str, float]:
        return {"map": float(average_precisions(np.asarray(predictions), np.asarray(references), queries).mean())}
