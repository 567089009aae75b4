"""STS Benchmark: correlation of the encoder's similarity with gold, in total and by genre (Yang et al. 2018, 4.3)."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np

from modeling_convsim.files.errors import InputError
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.bootstrap import pearson_interval, with_intervals
from trainer.evaluation.registry import CardEntry, EvaluationInputs, Evaluator
from trainer.evaluation.similarity import angular, cosine, encode_pairs

if TYPE_CHECKING:
    from datasets import Dataset


def evaluate_stsb(encoder: SentenceEncoder, inputs: EvaluationInputs) -> dict[str, dict]:
    """Correlations of the untuned encoder: split -> genre -> "pearson", "spearman"."""
    return {
        name: correlation_by_genre(untuned_scores(encoder, pairs), pairs, inputs.intervals)
        for name, pairs in inputs.splits.items()
    }


def untuned_scores(encoder: SentenceEncoder, pairs: Dataset) -> np.ndarray:
    """The angular score (pairs,), float64, of the sentences of each pair."""
    return angular(cosine(*encode_pairs(encoder, pairs["sentence1"][:], pairs["sentence2"][:])))


def correlation_by_genre(scores: np.ndarray, pairs: Dataset, intervals: bool = False) -> dict[str, dict[str, Any]]:
    """Pearson and Spearman of `scores` (pairs,) with gold: under "all" (with the number of pairs) and by genre.

    `intervals` adds "pearson_interval", over resamples of all pairs or of those of the genre.

    Raises:
        InputError: a genre has a single pair.
    """
    from trainer.evaluation.metrics.sts_correlation.sts_correlation import sts_correlation_by_group

    genres = [genre or "" for genre in pairs["genre"]]  # some copies of STS-B have no genres
    if single := [genre for genre, count in Counter(genres).items() if count < 2]:
        raise InputError(
            f"STS-B: only one pair has the genre {single[0] or 'none'}; a correlation needs two of each: add pairs"
        )
    gold = np.asarray(pairs["score"])
    result: dict[str, dict[str, Any]] = dict(sts_correlation_by_group(scores, gold, genres))
    result.pop("", None)
    if intervals:
        for name, part in result.items():
            rows = np.array([name in ("all", genre) for genre in genres])
            result[name] = with_intervals(part, {"pearson": pearson_interval(scores[rows], gold[rows])})
    return {**result, "all": {**result["all"], "pairs": len(pairs)}}


EVALUATOR = Evaluator(
    name="stsb",
    dataset="stsb",
    data_help="folder or Hub id of STS-B",
    evaluate=evaluate_stsb,
    card=CardEntry(
        task_type="sentence-similarity",
        task_name="textual similarity",
        dataset_id="mteb/stsbenchmark-sts",
        dataset_name="STS Benchmark",
        metrics={"pearson": "Pearson", "spearman": "Spearman"},
        public_sizes={"dev": 1500, "test": 1379},
    ),
)
