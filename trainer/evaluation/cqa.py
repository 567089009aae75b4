"""Community question answering, subtask B: rank related questions by their similarity (Yang et al. 2018, 4.4)."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from datasets import Dataset

from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.bootstrap import mean_interval, with_intervals
from trainer.evaluation.metrics.mean_average_precision.mean_average_precision import average_precisions
from trainer.evaluation.similarity import cosine, encode_pairs


def evaluate_cqa(
    encoder: SentenceEncoder, splits: Mapping[str, Dataset], intervals: bool = False
) -> dict[str, dict[str, Any]]:
    """MAP of the cosine between question and related question: name of each of `splits` -> {"map": 0 to 1}."""
    return {
        name: summarise(cosine(*encode_pairs(encoder, rows["query"][:], rows["candidate"][:])), rows, intervals)
        for name, rows in splits.items()
    }


def summarise(scores: np.ndarray, rows: Dataset, intervals: bool = False) -> dict[str, Any]:
    """The entry of results.json for `scores` (rows,) of the related questions in `rows`.

    With `intervals` also "map_interval", over resamples of the questions, each with all its related ones.
    """
    precisions = average_precisions(scores, np.asarray(rows["relevant"]), rows["query_id"][:])
    return with_intervals({"map": float(precisions.mean())}, {"map": mean_interval(precisions)} if intervals else {})
