"""STS Benchmark: correlation of the encoder's similarity with people's, whole and by genre (Yang et al. 2018, 4.3)."""

from collections import Counter
from collections.abc import Mapping
from typing import Literal

import numpy as np
from datasets import Dataset

from data_scripts.errors import InputError
from trainer.evaluation.encoders import SentenceEncoder
from trainer.evaluation.metrics.sts_correlation.sts_correlation import sts_correlation_by_group
from trainer.evaluation.similarity import angular, cosine, encode_pairs

Similarity = Literal["angular", "cosine"]


def evaluate_stsb(
    encoder: SentenceEncoder, splits: Mapping[str, Dataset], similarity: Similarity = "angular"
) -> dict[str, dict]:
    """Correlations of the untuned encoder: name of each of `splits` -> genre -> "pearson", "spearman"."""
    result = {}
    for name, pairs in splits.items():
        cosines = cosine(*encode_pairs(encoder, pairs["sentence1"][:], pairs["sentence2"][:]))
        result[name] = correlation_by_genre(angular(cosines) if similarity == "angular" else cosines, pairs)
    return result


def correlation_by_genre(scores: np.ndarray, pairs: Dataset) -> dict[str, dict[str, float]]:
    """Pearson and Spearman of `scores` (pairs,) with gold: under "all" (with the number of pairs) and by genre.

    Raises:
        InputError: a genre has a single pair.
    """
    genres = [genre or "" for genre in pairs["genre"]]  # some copies of STS-B do not tell the genre
    if single := [genre or "without a genre" for genre, count in Counter(genres).items() if count < 2]:
        raise InputError(f"STS-B: one pair only is {single[0]}; a correlation needs two of each genre: give more pairs")
    result = sts_correlation_by_group(scores, np.asarray(pairs["score"]), genres)
    result.pop("", None)
    return {**result, "all": {**result["all"], "pairs": len(pairs)}}
