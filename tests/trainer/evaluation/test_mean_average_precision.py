"""MAP by hand, on the official rankings with their published scores, and as an `evaluate` module."""

from pathlib import Path

import evaluate
import numpy as np
import pytest

from data_scripts.sources.cqa import load_cqa
from trainer.evaluation.metrics.mean_average_precision.mean_average_precision import (
    MeanAveragePrecision,
    mean_average_precision,
)

# Query a ranks no, yes, no, yes: (1/2 + 2/4) / 2. Query b ranks yes, no: 1. Query c has nothing relevant: 0.
QUERIES = ["a", "b", "a", "c", "a", "b", "a", "c"]
SCORES = np.array([0.4, 7.0, 0.9, 1.0, 0.1, 6.0, 0.8, 2.0])
RELEVANT = np.array([False, True, False, False, True, False, True, False])


def test_by_hand_and_a_query_without_relevant_candidates_counts_zero() -> None:
    assert mean_average_precision(SCORES, RELEVANT, QUERIES) == pytest.approx((0.5 + 1 + 0) / 3)


@pytest.mark.parametrize(("relevant", "expected"), [([True, False, False], 1.0), ([False, False, True], 1 / 3)])
def test_equal_scores_keep_the_given_order(relevant: list[bool], expected: float) -> None:
    assert mean_average_precision(np.full(3, 0.5), np.array(relevant), ["q"] * 3) == pytest.approx(expected)


def test_equal_scores_keep_the_given_order_among_many() -> None:
    scores, relevant = np.arange(200) % 2 / 2, np.arange(200) % 7 == 0
    order = [*range(1, 200, 2), *range(0, 200, 2)]  # score 0.5, then 0
    places = [place for place, row in enumerate(order, 1) if row % 7 == 0]
    expected = np.mean([count / place for count, place in enumerate(places, 1)])
    assert mean_average_precision(scores, relevant, ["q"] * 200) == pytest.approx(expected)


@pytest.mark.parametrize(("split", "published"), [("validation", 71.35), ("test2017", 41.85)])
def test_order_of_the_search_engine_gives_its_published_score(data_dir: Path, split: str, published: float) -> None:
    rows = load_cqa(str(data_dir / "cqa"))[split]
    score = mean_average_precision(-np.array(rows["rank"]), np.array(rows["relevant"]), rows["query_id"][:])
    assert 100 * score == pytest.approx(published, abs=0.005)


def test_module_by_class_and_by_path_gives_the_same(from_root: None) -> None:
    for metric in (MeanAveragePrecision(), evaluate.load("trainer/evaluation/metrics/mean_average_precision")):
        result = metric.compute(predictions=SCORES, references=RELEVANT.astype(int), queries=QUERIES)
        assert result == {"map": mean_average_precision(SCORES, RELEVANT, QUERIES)}


@pytest.mark.parametrize(("scores", "relevant", "queries"), [([], [], []), ([1.0], [True, False], ["q"])])
def test_empty_input_and_other_sizes_are_refused(scores: list[float], relevant: list[bool], queries: list[str]) -> None:
    with pytest.raises(ValueError, match="expected a score, a relevance and a query for each candidate"):
        mean_average_precision(np.array(scores), np.array(relevant), queries)
