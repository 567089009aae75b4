"""Response prediction of an encoder and of baselines: exact, for messages with and without earlier turns."""

import logging
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest
from datasets import Dataset

from modeling_convsim.files.errors import InputError
from tests.trainer.evaluation.fake_encoder import FakeEncoder
from trainer.evaluation import ranking
from trainer.evaluation.registry import EvaluationInputs
from trainer.evaluation.response_prediction import EVALUATOR, evaluate_with_turns, queries_of

TURNS = [[f"answer {number + 1}", f"hint {number}"] if number % 3 else [] for number in range(300)]


def conversations(pairs: int, distinct: int, contexts: list[list[str]] | None = None) -> Dataset:
    columns: dict[str, list] = {
        "input": [f"question {i}" for i in range(pairs)],
        "response": [f"answer {i % distinct}" for i in range(pairs)],
    }
    return Dataset.from_dict(columns | ({"context": contexts} if contexts else {}))


def evaluate(encoder: Any, pairs: Dataset, **options: Any) -> dict[str, Any]:
    return EVALUATOR.evaluate(encoder, EvaluationInputs(None, {"test": pairs}, **options))


class Coarse(FakeEncoder):
    """Vectors of a few small whole numbers, so that many scores tie."""

    def encode(self, texts: Iterable[str], side: str = "input", contexts: object = None) -> np.ndarray:
        return np.sign(super().encode(texts, side)).astype(np.float32)


def sampled(
    encoder: FakeEncoder, pairs: Dataset, draws: int = 500, weights: Sequence[float] = ()
) -> tuple[np.ndarray, np.ndarray]:
    """P@1, P@3 and P@10 over draws of 99 others for each pair, one by one, and their standard errors."""
    random, replies = np.random.default_rng(0), list(dict.fromkeys(pairs["response"]))
    vectors, outcomes = encoder.encode(replies, "response").astype(float), []
    for row in pairs:
        turns = row.get("context", [])
        vector, *earlier = encoder.encode([row["input"], *turns], "query").astype(float)
        for weight, turn in zip(weights, earlier, strict=False):
            vector = vector + weight * turn
        scores = dict(zip(replies, np.round(vectors @ vector, 6), strict=True))
        true = scores.pop(row["response"])
        others = np.array([score for text, score in scores.items() if text not in (row["input"], *turns)])
        size = min(99, len(others))
        drawn = others[random.random((draws, len(others))).argpartition(size - 1, axis=1)[:, :size]]
        beaten = (drawn >= true).sum(axis=1)
        outcomes.append([beaten < n for n in (1, 3, 10)])
    found = np.mean(outcomes, axis=2)  # (pairs, 3)
    return found.mean(axis=0), np.sqrt((found * (1 - found)).sum(axis=0) / draws) / len(found)


@pytest.mark.parametrize("at_once", [7, 500])
def test_precision_is_the_mean_of_many_draws(monkeypatch, at_once):
    """Inputs are replies of other pairs, many scores tie, and two inputs have the same reply."""
    monkeypatch.setattr(ranking, "RANKED_AT_ONCE", at_once)
    texts = [f"message {number}" for number in range(150)]
    pairs = Dataset.from_dict({"input": [*texts[:-1], "new"], "response": [*texts[1:], "message 7"]})
    encoder = Coarse(dict(zip(pairs["input"][::3], pairs["response"][::3], strict=True)))
    result = evaluate(encoder, pairs)
    expected, error = sampled(encoder, pairs)
    found = np.array([result[f"p_at_{n}"] for n in (1, 3, 10)])
    assert (abs(found - expected) < 4 * error).all() and error.max() < 0.003
    assert 0.02 < found[0] < found[1] < found[2] < 0.98
    assert (result["candidates"], result["queries"], result["split"]) == (100, 150, "test")


def test_earlier_turns_count_by_their_weights_and_are_no_candidates():
    pairs, encoder = conversations(300, 120, TURNS), FakeEncoder({f"question {n}": f"answer {n}" for n in range(90)})
    alone = evaluate(encoder, pairs, intervals=True)
    both = evaluate_with_turns(encoder, EvaluationInputs(None, {"test": pairs}, intervals=True), [0.5, 0.25])
    assert not any(name.startswith("context") for name in alone) and both.items() > alone.items()
    for prefix, weights in (("", []), ("context_", [0.5, 0.25])):
        expected, error = sampled(encoder, pairs, weights=weights)
        found = np.array([both[f"{prefix}p_at_{n}"] for n in (1, 3, 10)])
        assert (abs(found - expected) < 4 * error).all()
        low, high = both[f"{prefix}p_at_1_interval"]
        assert low < both[f"{prefix}p_at_1"] < high
    assert both["context_p_at_1"] < both["p_at_1"] and both["context_weights"] == [0.5, 0.25]
    bare = EvaluationInputs(None, {"test": conversations(300, 120)})
    assert "context_weights" not in evaluate_with_turns(encoder, bare, [0.5])


def test_the_sample_of_queries_never_changes_between_versions_and_stays_in_order():
    """Published results depend on it: after a change they cannot be compared."""
    pairs = conversations(500, 500)
    queries = queries_of(pairs, 120)
    numbers = [int(text.split()[1]) for text in queries.inputs]
    assert len(set(numbers)) == 120 and numbers == sorted(numbers) and numbers[:5] == [1, 6, 7, 8, 10]
    assert queries.responses == [f"answer {number}" for number in numbers]


@pytest.mark.parametrize(
    ("distinct", "names"), [(2, ["p_at_1"]), (9, ["p_at_1", "p_at_3"]), (12, ["p_at_1", "p_at_3", "p_at_10"])]
)
def test_fewer_than_100_responses_are_all_ranked_with_a_warning(caplog, distinct, names):
    caplog.set_level(logging.WARNING, "trainer.evaluation.response_prediction")  # which the command adapt silences
    pairs, encoder = conversations(40 + distinct, distinct), FakeEncoder()
    result = evaluate(encoder, pairs)
    assert list(result) == [*names, "candidates", "queries", "split"] and result["candidates"] == distinct
    scores = encoder.encode(pairs["input"]) @ encoder.encode([f"answer {n}" for n in range(distinct)]).T
    first = scores.argmax(axis=1) == np.arange(len(pairs)) % distinct
    assert result["p_at_1"] == pytest.approx(first.mean(), abs=1e-12)
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert f"{len(pairs)} queries have only {distinct} distinct responses" in caplog.text and "1-of-100" in caplog.text


@pytest.mark.parametrize(
    "pairs", [conversations(5, 1), Dataset.from_dict({"input": ["b", "x"], "response": ["a", "b"]})]
)
def test_a_query_without_another_response_is_refused(pairs: Dataset) -> None:
    with pytest.raises(InputError, match=rf"at least 2 distinct held-out responses.* these {len(pairs)} pairs have"):
        evaluate(FakeEncoder(), pairs)


def test_a_model_without_response_vectors_is_refused() -> None:
    class Bare(FakeEncoder):
        def encode(self, texts: Iterable[str], side: str = "input", contexts: object = None) -> np.ndarray:
            if side == "response":
                raise ValueError("no response head")
            return super().encode(texts, side)

    with pytest.raises(InputError, match="task response_prediction: no response head"):
        evaluate(Bare(), conversations(100, 100))
