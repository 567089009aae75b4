"""Community question answering, subtask B: rank related questions by their similarity (Yang et al. 2018, 4.4)."""

from collections.abc import Mapping

import numpy as np
from datasets import Dataset

from trainer.evaluation.encoders import SentenceEncoder
from trainer.evaluation.metrics.mean_average_precision.mean_average_precision import mean_average_precision
from trainer.evaluation.similarity import cosine, encode_pairs


def evaluate_cqa(encoder: SentenceEncoder, splits: Mapping[str, Dataset]) -> dict[str, dict[str, float]]:
    """MAP of the cosine between question and related question: name of each of `splits` -> {"map": 0 to 1}."""
    return {
        name: summarise(cosine(*encode_pairs(encoder, rows["query"][:], rows["candidate"][:])), rows)
        for name, rows in splits.items()
    }


def summarise(scores: np.ndarray, rows: Dataset) -> dict[str, float]:
    """The entry of results.json for `scores` (rows,) of the related questions in `rows`."""
    return {"map": mean_average_precision(scores, np.asarray(rows["relevant"]), rows["query_id"][:])}
