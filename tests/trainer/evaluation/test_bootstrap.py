"""Bootstrap intervals against a loop, and what 95 % means; on the right items of every task."""

import math

import numpy as np
import pytest
from scipy import stats

from modeling_convsim.files.errors import InputError
from tests.trainer.evaluation.invented_data import cqa, stsb
from trainer.evaluation import bootstrap
from trainer.evaluation.bootstrap import bootstrap_interval, mean_interval, pearson_interval
from trainer.evaluation.cqa import summarize as summarize_cqa
from trainer.evaluation.metrics.mean_average_precision.mean_average_precision import average_precisions
from trainer.evaluation.ranking import Ranks
from trainer.evaluation.response_prediction import summarize as summarize_ranking
from trainer.evaluation.stsb import correlation_by_genre


def correlated(pairs: int, seed: int, r: float = 0.7) -> tuple[np.ndarray, np.ndarray]:
    x, noise = np.random.default_rng(seed).normal(size=(2, pairs))
    return x, r * x + math.sqrt(1 - r * r) * noise


def interval_in_a_loop(statistic, *columns: np.ndarray, resamples: int = 4000) -> list[float]:  # type: ignore[no-untyped-def]
    random = np.random.RandomState(7)
    drawn = []
    for _ in range(resamples):
        rows = random.randint(len(columns[0]), size=len(columns[0]))
        drawn.append(statistic(*(column[rows] for column in columns)))
    drawn.sort()
    return [drawn[round(0.025 * resamples)], drawn[round(0.975 * resamples)]]


def test_pearson_interval_equals_a_loop() -> None:
    x, y = correlated(150, 0)
    expected = interval_in_a_loop(lambda a, b: np.corrcoef(a, b)[0, 1], x, y)
    assert pearson_interval(x, y) == pytest.approx(expected, abs=0.012)


def test_95_of_100_intervals_contain_the_true_correlation() -> None:
    intervals = [pearson_interval(*correlated(60, seed)) for seed in range(100)]
    held = sum(low <= 0.7 <= high for low, high in intervals)
    assert 88 <= held <= 99  # 95 expected, standard deviation 2; the percentile method is a little narrow


def test_resamples_without_a_correlation_are_ignored() -> None:
    """Half of the resamples of two pairs have the same pair twice."""
    assert pearson_interval(np.array([1.0, 2.0]), np.array([0.0, 3.0])) == pytest.approx([1, 1])


def test_one_item_has_no_interval() -> None:
    with pytest.raises(InputError, match="a score on a single item"):
        mean_interval(np.array([1.0]))


def test_intervals_of_published_scores_do_not_change() -> None:
    """Seed, number of resamples and quantiles are part of published results."""
    assert mean_interval(np.arange(37) % 5 < 2) == pytest.approx([10 / 37, 22 / 37], abs=1e-12)
    x = np.arange(25.0)
    assert pearson_interval(x, np.sin(x) + x / 9) == pytest.approx([0.5469269111218686, 0.825169831618197], abs=1e-9)


@pytest.mark.parametrize("items_per_batch", [1_000_000, 5_000, 1])
def test_items_are_resampled_with_replacement_in_batches(monkeypatch, items_per_batch):
    monkeypatch.setattr(bootstrap, "ITEMS_PER_BATCH", items_per_batch)
    values = np.random.default_rng(0).normal(size=150)
    resamples = []

    def statistic(rows: np.ndarray) -> np.ndarray:
        assert len(rows) <= max(1, items_per_batch // 150)  # bounds the memory
        resamples.append(rows.copy())
        return values[rows].mean(1)

    interval = bootstrap_interval(statistic, 150)
    drawn = np.concatenate(resamples)
    assert drawn.shape == (1000, 150) and drawn.min() == 0 and drawn.max() == 149
    assert interval == pytest.approx(np.quantile(values[drawn].mean(1), [0.025, 0.975]), abs=1e-12)
    assert interval == bootstrap_interval(statistic, 150)
    # A resample holds a share of 1 - 1/e of the distinct items, on average.
    distinct = np.mean([len(set(row)) / 150 for row in drawn.tolist()])
    assert distinct == pytest.approx(1 - (1 - 1 / 150) ** 150, abs=0.01)


def test_stsb_resamples_all_pairs_and_the_pairs_of_each_genre() -> None:
    pairs = stsb("test")
    scores, gold, genres = np.random.default_rng(0).normal(size=30), np.array(pairs["score"]), np.array(pairs["genre"])
    with_them, without = correlation_by_genre(scores, pairs, intervals=True), correlation_by_genre(scores, pairs)
    assert with_them["all"].pop("pearson_interval") == pearson_interval(scores, gold)
    for genre in ("captions", "forums", "news"):
        rows = genres == genre
        assert with_them[genre].pop("pearson_interval") == pearson_interval(scores[rows], gold[rows])
    assert with_them == without


def test_ranking_resamples_queries() -> None:
    ranks = Ranks(np.random.default_rng(0).integers(0, 9, 400), np.full(400, 19))  # all others are candidates
    result = summarize_ranking(ranks, "test", intervals=True)
    for n in (1, 3):
        share = float((ranks.beaten_by < n).mean())
        assert result[f"p_at_{n}"] == pytest.approx(share)
        expected = stats.binom.ppf([0.025, 0.975], 400, share) / 400
        assert result[f"p_at_{n}_interval"] == pytest.approx(expected, abs=0.01)


def test_cqa_resamples_questions_with_all_their_candidates() -> None:
    rows = cqa("dev")
    random = np.random.default_rng(0)
    names = [f"q{i:02}" for i in range(40) for _ in range(3)]
    rows = type(rows).from_dict({"query_id": names, "relevant": (random.random(120) < 0.4).tolist()})
    scores, relevant = random.normal(size=120), np.array(rows["relevant"])

    def map_of(questions: np.ndarray) -> float:
        """MAP of whole questions, each as often as it was drawn."""
        taken = [(3 * question + place, str(draw)) for draw, question in enumerate(questions) for place in range(3)]
        places = [place for place, _ in taken]
        return float(average_precisions(scores[places], relevant[places], [name for _, name in taken]).mean())

    result = summarize_cqa(scores, rows, intervals=True)
    expected = interval_in_a_loop(map_of, np.arange(40), resamples=1000)
    assert list(result) == ["map", "map_interval"]
    assert result["map_interval"] == pytest.approx(expected, abs=0.02)
