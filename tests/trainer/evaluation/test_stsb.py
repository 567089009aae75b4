"""STS-B: correlations against SciPy on fixed vectors, and the published results of a published model."""

import numpy as np
import pytest
from datasets import Dataset
from scipy import stats

from data_scripts.errors import InputError
from tests.trainer.evaluation.fake_encoder import FakeEncoder
from trainer.evaluation.stsb import Similarity, evaluate_stsb


def graded_pairs(genres: list[str | None]) -> Dataset:
    rows = range(len(genres))
    scores = [row * 7 % 11 / 2 for row in rows]
    # A sentence may be in several pairs.
    texts = {
        name: [f"{name} sentence {row // step}" for row in rows] for name, step in (("sentence1", 3), ("sentence2", 1))
    }
    return Dataset.from_dict({**texts, "score": scores, "genre": genres})


@pytest.mark.parametrize("similarity", ["angular", "cosine"])
def test_each_genre_equals_scipy_on_its_pairs(similarity: Similarity) -> None:
    pairs = graded_pairs(["captions", "news"] * 10)
    encoder = FakeEncoder()
    cosines = (encoder.encode(pairs["sentence1"]).astype(float) * encoder.encode(pairs["sentence2"])).sum(axis=1)
    scores = -np.arccos(cosines) if similarity == "angular" else cosines
    result = evaluate_stsb(encoder, {"dev": pairs}, similarity)["dev"]
    assert list(result) == ["all", "captions", "news"]  # a missing genre is absent
    assert result["all"]["pairs"] == 20
    gold = np.array(pairs["score"])
    for name, rows in (("all", slice(None)), ("captions", slice(0, None, 2)), ("news", slice(1, None, 2))):
        assert result[name]["pearson"] == pytest.approx(stats.pearsonr(scores[rows], gold[rows])[0], abs=1e-6)
        assert result[name]["spearman"] == pytest.approx(stats.spearmanr(scores[rows], gold[rows])[0], abs=1e-6)


def test_without_genres_there_are_only_scores_of_all_pairs() -> None:
    assert list(evaluate_stsb(FakeEncoder(), {"test": graded_pairs([None] * 6)})["test"]) == ["all"]


def test_a_genre_of_one_pair_is_refused() -> None:
    with pytest.raises(InputError, match="only one pair is news; a correlation needs two"):
        evaluate_stsb(FakeEncoder(), {"test": graded_pairs(["captions", "captions", "news"])})
