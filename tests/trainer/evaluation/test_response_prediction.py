"""The queries of response prediction are sampled uniformly and fixed; their scores equal those of a loop."""

import hashlib
import logging
from collections.abc import Iterable

import numpy as np
import pytest
from datasets import Dataset

from data_scripts.files.errors import InputError
from tests.trainer.evaluation.fake_encoder import FakeEncoder
from trainer.evaluation.baselines import BASELINES
from trainer.evaluation.registry import EvaluationInputs
from trainer.evaluation.response_prediction import (
    EVALUATOR,
    ResponseQueries,
    build_queries,
    evaluate_response_prediction,
    score_candidates,
    summarize,
)


def conversations(pairs: int, distinct: int) -> tuple[list[str], list[str]]:
    return [f"question {i}" for i in range(pairs)], [f"answer {i % distinct}" for i in range(pairs)]


def texts_of(queries: ResponseQueries) -> list[list[str]]:
    return [[queries.responses[position] for position in row] for row in queries.candidates]


def test_true_response_is_among_99_distinct_others() -> None:
    inputs, responses = conversations(400, 150)
    queries = build_queries(inputs, responses)
    assert queries.inputs == inputs and queries.candidates.shape == (400, 100)
    for true, candidates in zip(responses, texts_of(queries), strict=True):
        assert candidates[0] == true
        assert len(set(candidates)) == 100


def test_every_other_response_is_equally_likely() -> None:
    queries = build_queries(*conversations(3000, 200))
    counts = np.bincount(queries.candidates[:, 1:].ravel(), minlength=200)
    # Each is drawn with probability 99/199 by the 2,985 queries it is not the true response of: 1,485 times, sd 27.
    assert abs(counts - 2985 * 99 / 199).max() < 5 * 27.5


def test_list_never_changes_between_versions() -> None:
    """Published results depend on this list: after a change they cannot be compared."""
    queries = build_queries(*conversations(500, 300), max_queries=200)
    text = "\n".join("\t".join([query, *row]) for query, row in zip(queries.inputs, texts_of(queries), strict=True))
    assert hashlib.sha256(text.encode()).hexdigest()[:16] == "47bb60ebbf6c18bc"


def test_queries_are_limited_and_stay_in_order() -> None:
    inputs, responses = conversations(500, 500)
    queries = build_queries(inputs, responses, max_queries=120)
    positions = [inputs.index(text) for text in queries.inputs]
    assert len(set(positions)) == 120 and positions == sorted(positions)
    assert set(queries.responses) == {responses[position] for position in positions}


def test_scores_equal_dot_products_in_a_loop() -> None:
    queries = build_queries(*conversations(300, 120))
    encoder = FakeEncoder()
    scores = score_candidates(encoder, queries)
    for row in (0, 255, 256, 299):
        query = encoder.encode([queries.inputs[row]])[0].astype(float)
        for column in range(100):
            response = encoder.encode([queries.responses[queries.candidates[row, column]]], "response")[0].astype(float)
            assert scores[row, column] == pytest.approx(float(query @ response), abs=1e-6)


def test_inputs_are_the_side_that_scores_responses() -> None:
    encoder = FakeEncoder()
    score_candidates(encoder, build_queries(*conversations(120, 110)))
    assert sorted(side for side, _ in encoder.calls) == ["query", "response"]


def test_fewer_than_100_responses_rank_all_of_them_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    inputs, responses = conversations(40, 12)
    queries = build_queries(inputs, responses)
    for true, candidates in zip(responses, texts_of(queries), strict=True):
        assert candidates[0] == true and sorted(candidates) == sorted(set(responses))
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    assert "40 queries have only 12 distinct responses" in caplog.text and "1-of-100" in caplog.text
    result = evaluate_response_prediction(FakeEncoder(), queries, "test")
    assert set(result) == {"p_at_1", "p_at_3", "p_at_10", "candidates", "queries", "split"}
    assert result["candidates"] == 12


@pytest.mark.parametrize(
    ("candidates", "names"), [(2, ["p_at_1"]), (3, ["p_at_1", "p_at_3"]), (9, ["p_at_1", "p_at_3"])]
)
def test_no_precision_beyond_the_candidates(candidates: int, names: list[str]) -> None:
    result = summarize(np.eye(candidates), "test")
    assert list(result) == [*names, "candidates", "queries", "split"]
    assert result["candidates"] == candidates and result["p_at_1"] == 1 / candidates


@pytest.mark.parametrize(("pairs", "distinct"), [(5, 1), (0, 1)])
def test_a_single_distinct_response_is_refused(pairs: int, distinct: int) -> None:
    with pytest.raises(InputError, match=rf"at least 2 distinct held-out responses to rank.* these {pairs} pairs have"):
        build_queries(*conversations(pairs, distinct))


def test_a_model_without_response_vectors_is_refused() -> None:
    class Bare(FakeEncoder):
        def encode(self, texts: Iterable[str], side: str = "input") -> np.ndarray:
            if side == "response":
                raise ValueError("no response head")
            return super().encode(texts, side)

    with pytest.raises(InputError, match="task response_prediction: no response head"):
        score_candidates(Bare(), build_queries(*conversations(100, 100)))


def test_an_input_is_no_candidate_of_its_own_query():
    """In a thread, an input is the response of the pair before it."""
    texts = [f"message {number}" for number in range(31)]
    inputs, responses = [*texts[:-1], "new"], [*texts[1:], "message 7"]
    queries = build_queries(inputs, responses)
    assert queries.candidates.shape == (31, 29)
    for text, response, row in zip(inputs, responses, queries.candidates, strict=True):
        candidates = [queries.responses[position] for position in row]
        assert candidates[0] == response and text not in candidates and len(set(candidates)) == 29
    left_out = [
        set(queries.responses) - {queries.responses[position] for position in row} for row in queries.candidates
    ]
    assert left_out[3] == {"message 3"} and len({*left_out[0], *left_out[-1]}) == 2  # no input among the responses


def test_the_candidates_of_other_queries_stay_if_an_input_is_a_response():
    inputs, responses = conversations(300, 200)
    before = build_queries(inputs, responses).candidates
    inputs[::2] = responses[7:157]
    after = build_queries(inputs, responses).candidates
    own = np.array([responses.index(text) if text in responses else -1 for text in inputs])
    is_drawn = (before[:, 1:] == own[:, None]).any(axis=1)
    assert ((before != after).any(axis=1) == is_drawn).all() and 20 < is_drawn.sum() < 150


TURNS = [[f"answer {number + 1}", f"hint {number}"] if number % 3 else [] for number in range(300)]


def test_no_earlier_turn_is_a_candidate():
    inputs, responses = conversations(300, 120)
    queries = build_queries(inputs, responses, contexts=TURNS)
    assert queries.candidates.shape == (300, 100) and queries.contexts == TURNS
    for response, context, candidates in zip(responses, TURNS, texts_of(queries), strict=True):
        assert candidates[0] == response and len(set(candidates)) == 100 and not set(candidates) & set(context)
    few = build_queries(inputs[:20], responses[:20], contexts=TURNS[:20])
    assert few.candidates.shape == (20, 19)  # of 20, without an earlier turn


def test_scores_with_earlier_turns_are_weighted_sums_in_a_loop():
    queries, encoder = build_queries(*conversations(300, 120), contexts=TURNS), FakeEncoder()
    scores = score_candidates(encoder, queries, [0.5, 0.25])
    for row in (0, 1, 256, 299):
        own, *others = encoder.encode([queries.inputs[row], *TURNS[row]]).astype(float)
        vector = own + sum(weight * other for weight, other in zip([0.5, 0.25], others, strict=False))
        vector *= np.linalg.norm(own) / np.linalg.norm(vector)
        candidates = [queries.responses[position] for position in queries.candidates[row]]
        assert scores[row] == pytest.approx(encoder.encode(candidates, "response") @ vector, abs=1e-6)


def test_results_have_both_where_there_are_weights_and_turns():
    queries, encoder = build_queries(*conversations(300, 120), contexts=TURNS), FakeEncoder()
    alone = evaluate_response_prediction(encoder, queries, "test")
    both = evaluate_response_prediction(encoder, queries, "test", intervals=True, weights=[0.5])
    assert not any(name.startswith("context") for name in alone) and both.items() > alone.items()
    expected = summarize(score_candidates(encoder, queries, [0.5]), "test", intervals=True)
    for name in ("p_at_1", "p_at_10", "p_at_1_interval"):
        assert both[f"context_{name}"] == expected[name]
    assert both["context_weights"] == [0.5]
    without = build_queries(*conversations(300, 120))
    assert "context_weights" not in evaluate_response_prediction(encoder, without, "test", weights=[0.5])


def test_a_baseline_gets_the_same_turns():
    """The turn before has the word of the response."""
    rows = [{"input": f"well {n}", "response": f"about topic{n}", "context": ["hm", f"topic{n}"]} for n in range(120)]
    inputs = EvaluationInputs(None, {"test": Dataset.from_list(rows)}, context=[0.0, 1.0])
    result = EVALUATOR.evaluate_baseline(BASELINES["bm25"], inputs)
    assert result["p_at_1"] < 0.1 and result["context_p_at_1"] == 1
