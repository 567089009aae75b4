"""STS Benchmark: correlation of the encoder's similarity with people's, whole and by genre (Yang et al. 2018, 4.3)."""

from collections import Counter
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from datasets import Dataset

from data_scripts.errors import InputError
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.bootstrap import pearson_interval, with_intervals
from trainer.evaluation.metrics.sts_correlation.sts_correlation import sts_correlation_by_group
from trainer.evaluation.similarity import angular, cosine, encode_pairs

Similarity = Literal["angular", "cosine"]


def evaluate_stsb(
    encoder: SentenceEncoder,
    splits: Mapping[str, Dataset],
    similarity: Similarity = "angular",
    intervals: bool = False,
) -> dict[str, dict]:
    """Correlations of the untuned encoder: name of each of `splits` -> genre -> "pearson", "spearman"."""
    return {
        name: correlation_by_genre(untuned_scores(encoder, pairs, similarity), pairs, intervals)
        for name, pairs in splits.items()
    }


def untuned_scores(encoder: SentenceEncoder, pairs: Dataset, similarity: Similarity) -> np.ndarray:
    """The encoder's similarity (pairs,), float64, of the sentences of each pair."""
    cosines = cosine(*encode_pairs(encoder, pairs["sentence1"][:], pairs["sentence2"][:]))
    return angular(cosines) if similarity == "angular" else cosines


def correlation_by_genre(scores: np.ndarray, pairs: Dataset, intervals: bool = False) -> dict[str, dict[str, Any]]:
    """Pearson and Spearman of `scores` (pairs,) with gold: under "all" (with the number of pairs) and by genre.

    With `intervals` also "pearson_interval", over resamples of the whole's or the genre's pairs.

    Raises:
        InputError: a genre has a single pair.
    """
    genres = [genre or "" for genre in pairs["genre"]]  # some copies of STS-B do not tell the genre
    if single := [genre or "without a genre" for genre, count in Counter(genres).items() if count < 2]:
        raise InputError(f"STS-B: one pair only is {single[0]}; a correlation needs two of each genre: give more pairs")
    gold = np.asarray(pairs["score"])
    result: dict[str, dict[str, Any]] = dict(sts_correlation_by_group(scores, gold, genres))
    result.pop("", None)
    if intervals:
        for name, part in result.items():
            rows = np.array([name in ("all", genre) for genre in genres])
            result[name] = with_intervals(part, {"pearson": pearson_interval(scores[rows], gold[rows])})
    return {**result, "all": {**result["all"], "pairs": len(pairs)}}
