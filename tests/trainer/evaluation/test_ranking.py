"""Ranks over all draws of other replies, against every draw; errors by conversation, against a loop."""

import itertools

import numpy as np
import pytest
from datasets import Dataset

from trainer.evaluation import ranking
from trainer.evaluation.ranking import Ranks, build_queries, rank, standard_error, summarize, thread_interval


def pairs_of(*texts: tuple[str, str]) -> Dataset:
    return Dataset.from_dict({"input": [one for one, _ in texts], "response": [two for _, two in texts]})


@pytest.mark.parametrize("drawn", [1, 3, 6, 9])
def test_the_values_are_the_means_over_every_draw_of_other_replies(monkeypatch, drawn):
    monkeypatch.setattr(ranking, "OTHERS", drawn)
    others, beaten_by = np.repeat([6, 5], 5), np.tile(np.arange(5), 2)
    ranks = Ranks(beaten_by, others)
    for query, (number, better) in enumerate(zip(others, beaten_by, strict=True)):
        draws = list(itertools.combinations(range(number), min(drawn, number)))
        places = [1 + sum(one < better for one in draw) for draw in draws]  # the first ones score higher
        for n in (1, 3):
            expected = np.mean([place <= n for place in places])
            assert ranks.precision(n)[query] == pytest.approx(expected, abs=1e-12)
        assert ranks.reciprocal_rank()[query] == pytest.approx(np.mean([1 / place for place in places]), abs=1e-12)


def test_a_message_is_no_candidate_for_its_own_reply():
    texts = [f"message {number}" for number in range(9)]
    pairs = pairs_of(*itertools.pairwise(texts), ("message 8", "message 3"))
    queries = build_queries(pairs, np.arange(9))
    others = [{queries.responses[place] for place in np.flatnonzero(row)} for row in queries.is_other()]
    for text, reply, row in zip(pairs["input"], pairs["response"], others, strict=True):
        assert row == set(pairs["response"]) - {text, reply}
    scores = np.zeros((9, 8))
    scores[np.arange(9), queries.true] = 1.0
    scores[4, queries.responses.index("message 4")] = 9.0  # the message itself
    assert rank(queries, scores).beaten_by.tolist() == [0] * 9
    scores[5, queries.responses.index("message 1")] = 1.0  # a tie counts against the system, as does no number
    scores[6, queries.responses.index("message 1")] = np.nan
    assert rank(queries, scores).beaten_by.tolist() == [0, 0, 0, 0, 0, 1, 1, 0, 0]


def test_a_sample_of_many_pairs_keeps_their_conversations():
    pairs = pairs_of(*((f"question {number}", f"answer {number}") for number in range(50)))
    queries = build_queries(pairs, np.arange(50) // 2, most=20)
    numbers = [int(text.split()[1]) for text in queries.inputs]
    assert len(queries) == len(set(numbers)) == 20 and numbers == sorted(numbers)
    assert queries.threads.tolist() == [number // 2 for number in numbers]
    assert [queries.responses[place] for place in queries.true] == [f"answer {number}" for number in numbers]


def test_errors_and_intervals_are_those_of_conversations():
    generator = np.random.default_rng(0)
    threads = generator.permutation(np.repeat(np.arange(60), 10))
    values = generator.standard_normal(60)[threads] + 0.1 * generator.standard_normal(600)
    means = np.array([values[threads == thread].mean() for thread in range(60)])
    assert standard_error(values, threads) == pytest.approx(means.std(ddof=1) / np.sqrt(60))
    low, high = thread_interval(values, threads)
    assert (low + high) / 2 == pytest.approx(values.mean(), abs=0.05)
    assert (high - low) / 2 == pytest.approx(1.96 * means.std(ddof=1) / np.sqrt(60), rel=0.1)
    # a single conversation is as many as its messages
    assert standard_error(values, np.zeros(600, int)) == pytest.approx(values.std(ddof=1) / np.sqrt(600))


def test_the_summary_has_the_means_and_no_precision_beyond_the_candidates():
    ranks = Ranks(np.array([0, 1, 5, 0]), np.array([6, 6, 6, 5]))
    summary = summarize(ranks, "dev", np.arange(4))
    assert summary.keys() == {
        "p_at_1", "p_at_1_interval", "p_at_3", "p_at_3_interval", "mean_reciprocal_rank",
        "mean_reciprocal_rank_interval", "candidates", "queries", "split",
    }  # fmt: skip
    assert (summary["p_at_1"], summary["p_at_3"]) == (0.5, 0.75)  # all six are drawn
    assert summary["mean_reciprocal_rank"] == pytest.approx((1 + 1 / 2 + 1 / 6 + 1) / 4)
    assert (summary["candidates"], summary["queries"], summary["split"]) == (7, 4, "dev")
