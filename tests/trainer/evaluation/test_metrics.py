"""The metrics by hand, against loops and published scores, as `evaluate` modules, and the values in their cards."""

import ast
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from data_scripts.public.cqa import load_cqa
from trainer.evaluation.metrics.mean_average_precision.mean_average_precision import average_precisions
from trainer.evaluation.metrics.precision_at_n.precision_at_n import PrecisionAtN, precision_at_n
from trainer.evaluation.metrics.sts_correlation.sts_correlation import StsCorrelation, sts_correlation
from trainer.evaluation.results import flatten

ROOT = Path(__file__).resolve().parents[3]
METRICS = "trainer/evaluation/metrics"
NAN = math.nan


@pytest.mark.parametrize("name", ["mean_average_precision", "precision_at_n", "sts_correlation"])
def test_values_in_a_card_are_those_of_the_loaded_module(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)  # the working folder of the examples
    text = Path(METRICS, name, "README.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL))
    assert f'evaluate.load("{METRICS}/{name}")' in code
    scope: dict = {}
    exec(code.partition("metric.compute")[0], scope)
    examples = re.findall(r"^(metric\.compute\(.*\))\n# (\{.*\})$", code, flags=re.MULTILINE)
    assert len(examples) == code.count("metric.compute") >= 3
    for call, shown in examples:
        expected = flatten(ast.literal_eval(shown.replace("...", "")))
        assert flatten(eval(call, scope)) == pytest.approx(expected, abs=0.001)


# -- P@N --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("scores", "reference", "rank"),
    [
        ([0.9, 0.1, 0.2, 0.3], 2, 3),
        ([0.5, 0.5, 0.2, 0.3], 0, 2),  # the tie goes before the true response
        ([0.5, 0.5, 0.5, 0.5], 0, 4),
        ([0.9, NAN, 0.2, 0.3], 0, 2),  # so does NaN
        ([NAN, 0.1, 0.2, 0.3], 0, 4),
    ],
)
def test_rank_of_the_true_response_by_hand(scores: list[float], reference: int, rank: int) -> None:
    n = [1, 2, 3, 4]
    result = precision_at_n(np.array([scores]), np.array([reference]), n)
    assert result == {f"p_at_{value}": float(rank <= value) for value in n}


def test_the_module_distinguishes_scores_that_are_equal_in_single_precision() -> None:
    scores = [[1 + 1e-12, 1.0], [1.0, 1 + 1e-12]]
    assert PrecisionAtN().compute(predictions=scores, references=[0, 0], n=1) == {"p_at_1": 0.5}


def test_the_module_names_the_query_with_another_number_of_candidates() -> None:
    with pytest.raises(ValueError, match=r"predictions\[2\] has 3 candidates, but predictions\[0\] has 2"):
        PrecisionAtN().compute(predictions=[[1.0, 2.0], [2.0, 1.0], [1.0, 2.0, 3.0]], references=[0, 0, 0], n=1)


@pytest.mark.parametrize(
    ("predictions", "references", "groups", "message"),
    [
        ([1.0], [2.0], None, r"two or more pairs, .* got \(1,\)"),
        ([1.0, 2, 3], [2.0, 3, 1], ["x", "x", "news"], "group 'news': expected two or more pairs"),
        ([1.0, 2, 3], [2.0, 3, 1], ["x", "x"], "expected 3 groups, one for each pair, .* got 2"),
        ([1.0, 2, 3, 4], [2.0, 3, 1, 4], ["all", "all", "x", "x"], 'none of them "all"'),
    ],
)
def test_a_correlation_of_too_few_pairs_or_groups_is_refused(
    predictions: list[float], references: list[float], groups: list[str] | None, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        StsCorrelation().compute(predictions=predictions, references=references, groups=groups)


@pytest.mark.parametrize(
    ("scores", "references", "n", "message"),
    [
        (np.zeros((0, 3)), [], [1], "expected scores"),
        (np.zeros((2, 3)), [0], [1], "expected scores"),
        (np.zeros((1, 3)), [3], [1], "positions of candidates, 0 to 2"),
        (np.zeros((1, 3)), [0], [4], r"whole number from 1 to the number of candidates \(3\), got \[4\]"),
        (np.zeros((1, 3)), [0], 0, "got 0"),
        (np.zeros((1, 3)), [0], [1.5], r"got \[1.5\]"),
    ],
)
def test_wrong_sizes_are_refused(scores: np.ndarray, references: list[int], n: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        precision_at_n(scores, np.array(references, int), n)


# -- MAP --------------------------------------------------------------------------------------------------------------


def test_average_precision_by_hand_and_a_query_without_relevant_candidates_counts_zero() -> None:
    # Query a ranks no, yes, no, yes: (1/2 + 2/4) / 2. Query b ranks yes, no: 1. Query c has nothing relevant: 0.
    scores = np.array([0.4, 7.0, 0.9, 1.0, 0.1, 6.0, 0.8, 2.0])
    relevant = np.array([False, True, False, False, True, False, True, False])
    assert average_precisions(scores, relevant, [*"abacabac"]) == pytest.approx([0.5, 1, 0])


def test_equal_scores_keep_the_given_order() -> None:
    scores, relevant = np.arange(200) % 2 / 2, np.arange(200) % 7 == 0
    order = [*range(1, 200, 2), *range(0, 200, 2)]  # score 0.5, then 0
    places = [place for place, row in enumerate(order, 1) if row % 7 == 0]
    expected = np.mean([count / place for count, place in enumerate(places, 1)])
    assert average_precisions(scores, relevant, ["q"] * 200) == pytest.approx(expected)


def test_order_of_the_search_engine_gives_its_published_score(data_dir: Path) -> None:
    rows = load_cqa(str(data_dir / "cqa"))["validation"]
    precisions = average_precisions(-np.array(rows["rank"]), np.array(rows["relevant"]), rows["query_id"][:])
    assert 100 * precisions.mean() == pytest.approx(71.35, abs=0.005)


@pytest.mark.parametrize(("scores", "relevant", "queries"), [([], [], []), ([1.0], [True, False], ["q"])])
def test_empty_input_and_other_sizes_are_refused(scores: list[float], relevant: list[bool], queries: list[str]) -> None:
    with pytest.raises(ValueError, match="expected a score, a relevance and a query for each candidate"):
        average_precisions(np.array(scores), np.array(relevant), queries)


# -- correlation ------------------------------------------------------------------------------------------------------


def test_single_precision_is_computed_in_double_precision() -> None:
    u, v = (10 + np.random.default_rng(0).normal(size=(2, 500)) * 1e-2).astype(np.float32)
    expected = stats.pearsonr(u.astype(float), v.astype(float)).statistic
    assert sts_correlation(u, v)["pearson"] == pytest.approx(expected, abs=1e-12)


@pytest.mark.filterwarnings("ignore:An input array is constant")
def test_constant_scores_have_no_correlation() -> None:
    assert all(math.isnan(value) for value in sts_correlation(np.ones(4), np.arange(4)).values())
