"""What is chosen, and the gain of choosing on messages that did not choose."""

import numpy as np
import pytest

from trainer.adapt.context import choose_context
from trainer.adapt.selection import TO_KEEP, Gain, Measured, Point, choose, cross_choose
from trainer.evaluation.ranking import Ranks

POINTS = [Point(0, 0.0, 0.1), Point(10, 0.5, 0.1), Point(10, 1.0, 0.1), Point(20, 0.5, 0.2)]


def ranks(beaten_by) -> Ranks:
    return Ranks(np.asarray(beaten_by), np.full(len(beaten_by), 99))


def part(base, *points) -> Measured:
    return Measured(np.arange(len(base)), ranks(base), dict(zip(POINTS, map(ranks, points), strict=False)))


@pytest.mark.parametrize(
    ("points", "chosen"),
    [
        (([1, 1, 2, 1] * 5, [0, 1, 1, 1] * 5), POINTS[1]),
        (([1, 1, 2, 1] * 5, [1, 1, 3, 1] * 5), None),  # not better than the base
        (([0, 1, 1, 1] * 5, [0, 1, 1, 1] * 5), POINTS[0]),  # the first of equal ones
        (([0] * 3 + [3] * 2, [2] * 5), None),  # too few
    ],
)
def test_the_best_point_is_chosen_if_it_gains_more_than_an_error(points, chosen):
    base = [1, 1, 2, 1] * 5 if len(points[0]) == 20 else [0, 1, 1, 1, 1]
    assert choose([part(base, *points)]) == chosen


def test_each_message_counts_the_same_whatever_the_size_of_its_part():
    """The first point is better in the small part: means of .32 and .48 over all messages."""
    parts = [part([9] * 4, [0] * 4, [3] * 4), part([9] * 40, [3] * 40, [1] * 40)]
    assert choose(parts) == choose_context(parts).weights == POINTS[1]


def test_a_point_with_a_lower_p_at_1_than_the_base_is_not_chosen():
    base, better_below_the_first = [0] * 10 + [50] * 90, [1] * 10 + [1] * 90
    assert choose([part(base, better_below_the_first)]) is None
    assert choose([part([1] * 10 + [50] * 90, better_below_the_first)]) == POINTS[0]


def test_each_part_is_measured_at_the_point_that_the_others_choose():
    best, worst, base = [0] * 30, [9] * 30, [1, 2, 1] * 10
    # The first two parts agree on the second point, the last one alone would choose the first.
    parts = [part(base, worst, best), part(base, worst, best), part(base, best, worst)]
    gain = cross_choose(parts)
    assert gain.adapted.beaten_by[60:].tolist() == worst  # chosen by the others, although it is bad here
    # The first point is as good as the second for parts 2 and 3, and for 1 and 3: of equal ones, the first is chosen.
    assert gain.adapted.beaten_by[:60].tolist() == base * 2 or gain.adapted.beaten_by[:60].tolist() == worst * 2
    assert gain.base.beaten_by.tolist() == base * 3 and len(gain.threads) == 90


def test_points_that_differ_by_chance_are_kept_in_a_twentieth_of_the_runs():
    """The best of many points gains on the messages that choose it, and nothing on others."""
    generator, kept, optimistic = np.random.default_rng(0), 0, 0
    for _ in range(100):
        parts = [
            Measured(
                np.arange(40),
                ranks(generator.integers(100, size=40)),
                {Point(step, 1.0, 0.0): ranks(generator.integers(100, size=40)) for step in range(16)},
            )
            for _ in range(3)
        ]
        kept += cross_choose(parts).exceeds(TO_KEEP)
        optimistic += choose(parts) is not None
    assert kept <= 10 and optimistic > 50  # 5 are expected, with a standard error of 2


def test_the_summary_is_that_of_the_messages():
    gain = Gain(np.repeat(np.arange(10), 2), ranks([0, 1] * 10), ranks([0, 0] * 9 + [0, 1]))
    summary = gain.summarize()
    assert (summary["queries"], summary["p_at_1"], summary["base_p_at_1"]) == (20, pytest.approx(0.95), 0.5)
    assert summary["gain"] == pytest.approx(0.45) and summary["gain_interval"][0] < 0.45 < summary["gain_interval"][1]
    assert summary["mean_reciprocal_rank_gain"] == pytest.approx(9 * 0.5 / 20)
    per_thread = np.array([0.25] * 9 + [0.0])
    assert summary["mean_reciprocal_rank_gain_error"] == pytest.approx(per_thread.std(ddof=1) / np.sqrt(10))
