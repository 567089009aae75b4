"""The SemEval datasets: correlations against SciPy on brute-force cosines, one encoding, and the real sizes."""

from collections.abc import Iterable

import numpy as np
import pytest
from datasets import Dataset
from scipy import stats

from data_scripts.errors import InputError
from tests.trainer.evaluation.fake_encoder import FakeEncoder
from tests.trainer.evaluation.invented_data import sts
from trainer.evaluation.sts_sets import evaluate_sts_sets, sts_set_scores


def brute_force_cosines(rows: Dataset) -> list[float]:
    encoder, cosines = FakeEncoder(), []
    for row in rows:
        u, v = (encoder.encode([row[name]])[0].astype(float) for name in ("sentence1", "sentence2"))
        cosines.append(sum(u * v) / (sum(u * u) * sum(v * v)) ** 0.5)
    return cosines


def test_each_dataset_equals_scipy_on_brute_force_cosines() -> None:
    sets = sts()
    results = evaluate_sts_sets(FakeEncoder(), sets)
    scores = sts_set_scores(FakeEncoder(), sets)
    assert {year: list(names) for year, names in results.items()} == {"2012": ["MSRpar", "OnWN"], "2014": ["OnWN"]}
    assert list(scores) == [("2012", "MSRpar"), ("2012", "OnWN"), ("2014", "OnWN")]
    for (year, name), found in scores.items():
        expected, gold = brute_force_cosines(sets[year][name]), sets[year][name]["score"]
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert results[year][name] == {
            "pearson": pytest.approx(stats.pearsonr(expected, gold)[0], abs=1e-6),
            "spearman": pytest.approx(stats.spearmanr(expected, gold)[0], abs=1e-6),
            "pairs": len(gold),
        }


class OfKnownWords(FakeEncoder):
    """A zero vector for a text without a known word."""

    def encode(self, texts: Iterable[str], side: str = "input") -> np.ndarray:
        texts = list(texts)
        return super().encode(texts, side) * np.array([["zzz" not in text] for text in texts])


def test_a_sentence_without_a_known_word_has_cosine_0() -> None:
    rows = Dataset.from_dict({"sentence1": ["a", "zzz", "zzz"], "sentence2": ["a", "b", "zzz"], "score": [5.0, 1, 0]})
    scores = sts_set_scores(OfKnownWords(), {"2013": {"FNWN": rows}})["2013", "FNWN"]
    assert scores.tolist() == [pytest.approx(1), 0, 0]


def test_a_dataset_of_one_pair_is_refused() -> None:
    with pytest.raises(InputError, match="STS 2012 MSRpar: has only one pair; a correlation needs two"):
        evaluate_sts_sets(FakeEncoder(), {"2012": {"MSRpar": sts()["2012"]["MSRpar"].select([0])}})
    two = evaluate_sts_sets(FakeEncoder(), {"2012": {"MSRpar": sts()["2012"]["MSRpar"].select([0, 1])}})
    assert abs(two["2012"]["MSRpar"]["pearson"]) == pytest.approx(1)
