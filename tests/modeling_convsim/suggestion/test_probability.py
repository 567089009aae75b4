"""The curve of probabilities, what ratings show, and the threshold, against scikit-learn and SciPy."""

import math
import re
import time

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.linear_model import LogisticRegression

from modeling_convsim.suggestion.probability import Curve, find_threshold, share_interval, shows

SCORES = np.sort(np.random.default_rng(0).normal(3, 0.4, 57))
NOISY = np.random.default_rng(1).random(57) < 1 / (1 + np.exp(-4 * (SCORES - 2.8)))


@pytest.mark.parametrize("shares", [NOISY, SCORES > 3.2, NOISY * 0.3 + 0.3 * (SCORES > 3)])
def test_the_curve_is_the_logistic_regression_of_platt_s_targets(shares):
    """Also where a score separates both kinds, and for estimates; in any order."""
    yes, no = shares.sum(), (1 - shares.astype(float)).sum()
    targets = shares * (yes + 1) / (yes + 2) + (1 - shares.astype(float)) / (no + 2)
    peer = LogisticRegression(C=np.inf, tol=1e-9, max_iter=10_000)
    peer.fit(np.tile(SCORES, 2)[:, None], np.repeat([1, 0], 57), np.concatenate([targets, 1 - targets]))
    order = np.random.default_rng(2).permutation(57)
    curve = Curve.fit(SCORES[order], shares[order], estimated=True)
    assert curve.estimated and curve.slope > 1
    for score in (1.0, 2.7, 3.3, 5.0):
        assert curve.probability(score) == pytest.approx(peer.predict_proba([[score]])[0, 1], abs=1e-4)
    parts = [range(start, start + size) for start, size in zip(range(0, 42, 6), [6] * 7, strict=True)]
    parts += [range(start, start + 5) for start in (42, 47, 52)]  # tenths of 57
    assert [each.suggestions for each in curve.table] == [len(part) for part in parts]
    for each, part in zip(curve.table, parts, strict=True):
        assert (each.score, each.share) == pytest.approx((SCORES[part].mean(), shares[part].mean()))


def test_probabilities_do_not_depend_on_scores_where_higher_ones_are_no_better():
    """Of 12 of 57 that can be sent, and with Platt's prior."""
    decreasing = np.arange(57) < 12
    expected = (12 * 13 / 14 + 45 / 47) / 57
    for scores, shares in ((SCORES, decreasing), (np.full(57, 3.0), decreasing), (np.full(57, 0.1), ~decreasing[::-1])):
        curve = Curve.fit(scores, shares, estimated=False)
        mean = expected if shares.sum() == 12 else 1 - expected
        assert curve.slope == 0 and [curve.probability(score) for score in (-99, 3, 99)] == pytest.approx([mean] * 3)
    assert 0.9 < Curve.fit(SCORES, np.ones(57), estimated=False).probability(3) < 1


def test_what_ratings_show_and_the_interval_of_a_share_are_those_of_scipy():
    for count in (1, 2, 20, 44, 300):
        for successes in {0, 1, count // 2, round(0.9 * count), count - 1, count}:
            test = binomtest(successes, count, 0.8, alternative="greater")
            assert shows(successes, count, 0.8) is bool(test.pvalue <= 0.1)
            assert shows(successes, count, 0.8, 0.5) is bool(test.pvalue <= 0.5)
            interval = binomtest(successes, count).proportion_ci(method="wilson")
            assert share_interval(successes, count) == pytest.approx(tuple(interval), abs=1e-7)
    assert not shows(0, 0, 0.8) and not shows(18, 20, 0.8) and shows(19, 20, 0.8)


def alternate(choosing: list, testing: list) -> np.ndarray:
    return np.array([one for pair in zip(choosing, testing, strict=True) for one in pair])


def test_a_threshold_is_chosen_by_every_other_rating_and_tested_by_the_others():
    """Those that choose are right down to .52; of 20 that test there, 18 right ones are not enough."""
    scores = alternate(*[[0.9 - 0.02 * n for n in range(20)] + [0.2] * 10] * 2)
    for right, is_shown in ((18, False), (19, True), (20, True)):
        found = find_threshold(scores, alternate([1] * 20 + [0] * 10, [1] * right + [0] * (30 - right)) == 1, 0.8)
        assert found.score == (pytest.approx(0.52) if is_shown else math.inf)
    assert math.isinf(find_threshold(scores, alternate([0] * 12 + [1] * 18, [1] * 30) == 1, 0.8).score)
    assert math.isinf(find_threshold(np.empty(0), np.empty(0, bool), 0.8).score)
    # Of equal scores, the right ones come first.
    scores = alternate(*[[0.9] * 25 + [0.5] * 30] * 2)
    assert find_threshold(scores, alternate(*[[1] * 30 + [0] * 25] * 2) == 1, 0.8).score == 0.9


def test_the_named_number_of_further_ratings_suffices_and_fewer_do_not():
    """Half of the suggestions reach the threshold; the further ones that do are right, and the others are wrong."""
    position = np.arange(60)
    scores = np.where(position // 2 % 2, 0.2, 0.7 + 0.001 * position)
    is_right = scores > 0.5
    is_right[[1, 21, 41]] = False
    for precision in (0.8, 0.95):
        reason = find_threshold(scores, is_right, precision).reason
        further = int(re.search(r"([\d,]+) more", reason)[1].replace(",", ""))
        for count, is_shown in ((further, True), (further - 4, False)):
            more = np.concatenate([scores, np.resize(scores, count)])
            found = find_threshold(more, np.concatenate([is_right, np.resize(scores > 0.5, count)]), precision)
            assert found.score == (0.7 if is_shown else math.inf)
    started = time.process_time()  # without a shortcut, a minute
    assert math.isinf(find_threshold(np.linspace(1, 0, 10_000), np.arange(10_000) % 4 < 2, 0.95).score)
    assert time.process_time() - started < 10
    assert "at least 90 more" in find_threshold(np.empty(0), np.empty(0, bool), 0.95).reason  # .95 ** 45 < .1


def test_a_threshold_is_found_in_most_logs_where_many_suggestions_reach_the_precision():
    """Of 1,000 ratings by a curve; what is chosen at exactly the precision would rarely be shown by the others."""
    generator, found = np.random.default_rng(0), []
    for _ in range(30):
        scores = generator.standard_normal(1000)
        is_right = generator.random(1000) < 1 / (1 + np.exp(-1.5 * (scores + 1)))
        found.append(find_threshold(scores, is_right, 0.8).score)
    assert np.isfinite(found).mean() > 0.4
