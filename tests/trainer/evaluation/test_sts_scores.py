"""Cosines, angles and correlations of sentence pairs against loops and SciPy, of STS-B and of the SemEval datasets."""

import math
from collections.abc import Iterable

import numpy as np
import pytest
from datasets import Dataset
from scipy import stats

from modeling_convsim.files.errors import InputError
from tests.trainer.evaluation.fake_encoder import FakeEncoder
from tests.trainer.evaluation.invented_data import sts
from trainer.data.datasets import leaves
from trainer.evaluation.registry import EvaluationInputs
from trainer.evaluation.similarity import angular, cosine, encode_pairs, to_gold_scale
from trainer.evaluation.sts_sets import evaluate_sts_sets, sts_set_scores
from trainer.evaluation.stsb import evaluate_stsb


@pytest.fixture
def vectors() -> tuple[np.ndarray, np.ndarray]:
    u, v = np.random.default_rng(0).normal(size=(2, 40, 6)).astype(np.float32)
    return u, v


def loop_cosine(u: np.ndarray, v: np.ndarray) -> list[float]:
    return [
        math.fsum(x * y for x, y in zip(a, b, strict=True)) / math.hypot(*a) / math.hypot(*b)
        for a, b in zip(u.tolist(), v.tolist(), strict=True)
    ]


def test_gold_scale_is_five_times_one_minus_the_angle_over_pi(vectors: tuple[np.ndarray, np.ndarray]) -> None:
    expected = [5 * (1 - math.acos(value) / math.pi) for value in loop_cosine(*vectors)]
    assert to_gold_scale(angular(cosine(*vectors))) == pytest.approx(expected, abs=1e-12)
    assert to_gold_scale(np.array([0, -math.pi / 2, -math.pi])) == pytest.approx([5, 2.5, 0])


def test_rounding_never_leaves_the_arc_cosine_undefined(vectors: tuple[np.ndarray, np.ndarray]) -> None:
    u = np.concatenate(vectors)
    assert angular(cosine(u, 3 * u)) == pytest.approx(np.zeros(80), abs=1e-6)
    assert angular(cosine(u, -u)) == pytest.approx(np.full(80, -math.pi), abs=1e-6)


def test_every_text_is_encoded_once() -> None:
    encoder = FakeEncoder()
    first, second = ["a cat", "a dog", "a cat"], ["a dog", "a dog", "a cat"]
    u, v = encode_pairs(encoder, first, second)
    assert encoder.calls == [("input", ["a cat", "a dog"])]
    assert (u == encoder.encode(first)).all() and (v == encoder.encode(second)).all()


def graded_pairs(genres: list[str | None]) -> Dataset:
    rows = range(len(genres))
    scores = [row * 7 % 11 / 2 for row in rows]
    # A sentence may be in several pairs.
    texts = {
        name: [f"{name} sentence {row // step}" for row in rows] for name, step in (("sentence1", 3), ("sentence2", 1))
    }
    return Dataset.from_dict({**texts, "score": scores, "genre": genres})


def test_each_genre_equals_scipy_on_its_pairs() -> None:
    pairs = graded_pairs(["captions", "news"] * 10)
    encoder = FakeEncoder()
    cosines = (encoder.encode(pairs["sentence1"]).astype(float) * encoder.encode(pairs["sentence2"])).sum(axis=1)
    scores = -np.arccos(cosines)
    result = evaluate_stsb(encoder, EvaluationInputs(None, {"dev": pairs}))["dev"]
    assert list(result) == ["all", "captions", "news"]  # a missing genre is absent
    assert result["all"]["pairs"] == 20
    gold = np.array(pairs["score"])
    for name, rows in (("all", slice(None)), ("captions", slice(0, None, 2)), ("news", slice(1, None, 2))):
        assert result[name]["pearson"] == pytest.approx(stats.pearsonr(scores[rows], gold[rows])[0], abs=1e-6)
        assert result[name]["spearman"] == pytest.approx(stats.spearmanr(scores[rows], gold[rows])[0], abs=1e-6)


def test_without_genres_there_are_only_scores_of_all_pairs() -> None:
    inputs = EvaluationInputs(None, {"test": graded_pairs([None] * 6)})
    assert list(evaluate_stsb(FakeEncoder(), inputs)["test"]) == ["all"]


def test_a_genre_of_one_pair_is_refused() -> None:
    inputs = EvaluationInputs(None, {"test": graded_pairs(["captions", "captions", "news"])})
    with pytest.raises(InputError, match="only one pair has the genre news; a correlation needs two"):
        evaluate_stsb(FakeEncoder(), inputs)


def brute_force_cosines(rows: Dataset) -> list[float]:
    encoder, cosines = FakeEncoder(), []
    for row in rows:
        u, v = (encoder.encode([row[name]])[0].astype(float) for name in ("sentence1", "sentence2"))
        cosines.append(sum(u * v) / (sum(u * u) * sum(v * v)) ** 0.5)
    return cosines


def test_each_dataset_equals_scipy_on_brute_force_cosines() -> None:
    sets = dict(leaves(sts()))
    results = evaluate_sts_sets(FakeEncoder(), EvaluationInputs(None, sets))
    scores = sts_set_scores(FakeEncoder(), sets)
    assert {year: list(names) for year, names in results.items()} == {"2012": ["MSRpar", "OnWN"], "2014": ["OnWN"]}
    assert list(scores) == ["2012 MSRpar", "2012 OnWN", "2014 OnWN"]
    for key, found in scores.items():
        expected, gold, (year, name) = brute_force_cosines(sets[key]), sets[key]["score"], key.split()
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
    scores = sts_set_scores(OfKnownWords(), {"2013 FNWN": rows})["2013 FNWN"]
    assert scores.tolist() == [pytest.approx(1), 0, 0]
