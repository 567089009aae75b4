"""Batches and learning rates of every step."""

import math
from pathlib import Path

import numpy as np
import pytest

from modeling_convsim.files.errors import InputError
from trainer.settings import build_settings, parse_settings
from trainer.training.schedule import BatchPlan, Schedule


def plan(steps=400, seed=5, weights=None, rows=None, size=8):
    sizes = np.full(steps, size)
    return BatchPlan(seed, rows or {"a": 100, "b": 50}, weights or {"a": 0.75, "b": 0.25}, sizes)


def test_batch_depends_on_seed_and_step_alone():
    forwards, backwards = plan(), plan()
    expected = [forwards.batch(step) for step in range(400)]
    for step in reversed(range(400)):
        task, rows = backwards.batch(step)
        assert task == expected[step][0]
        np.testing.assert_array_equal(rows, expected[step][1])


def test_rows_are_shuffled_differently_in_every_epoch_and_task():
    rows = {"a": 100, "b": 100}
    batches = BatchPlan(5, rows, {"a": 0.5, "b": 0.5}, np.full(40, 100))
    orders = [tuple(batches.batch(step)[1]) for step in range(40)]  # a batch is an epoch
    assert len(set(orders)) == 40 and tuple(range(100)) not in orders


def test_a_run_can_be_repeated_with_another_version():
    # Batches of an earlier version: a change would make published runs irreproducible.
    batches = plan(steps=6, rows={"a": 10, "b": 5}, size=4)
    assert [(task, rows.tolist()) for task, rows in map(batches.batch, range(6))] == [
        ("b", [1, 3, 0, 4]),
        ("b", [2, 3, 0, 4]),
        ("a", [6, 7, 4, 2]),
        ("a", [5, 0, 9, 8]),
        ("a", [3, 1, 9, 4]),
        ("a", [1, 3, 7, 2]),
    ]


def test_tasks_are_sampled_by_their_weights():
    batches = plan(steps=20_000, weights={"a": 0.95, "b": 0.05})
    share = np.mean([batches.batch(step)[0] == "b" for step in range(20_000)])
    assert share == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 20_000))


def test_the_batch_size_may_change_during_the_run():
    sizes = np.array([4] * 10 + [8] * 10)
    batches = BatchPlan(0, {"a": 30}, {"a": 1}, sizes)
    read = np.concatenate([batches.batch(step)[1] for step in range(20)])
    assert [len(batches.batch(step)[1]) for step in range(20)] == sizes.tolist()
    assert all(sorted(read[30 * epoch : 30 * epoch + 30]) == list(range(30)) for epoch in range(4))


def test_a_task_with_fewer_pairs_than_a_batch_has_batches_of_all():
    small = BatchPlan(0, {"a": 7, "b": 50}, {"a": 1, "b": 1}, np.full(40, 8))
    for step in range(40):
        task, rows = small.batch(step)
        assert len(rows) == small.batch_sizes[step] == (7 if task == "a" else 8)
        if task == "a":
            assert sorted(rows) == list(range(7))
    assert BatchPlan(0, {"a": 7}, {"a": 1}, np.array([4, 8])).batch_sizes.tolist() == [4, 7]
    assert BatchPlan(0, {"a": 7}, {"a": 1}, np.array([4, 8]), divisor=2).batch_sizes.tolist() == [4, 6]


def test_a_single_pair_has_no_negatives_and_is_refused():
    with pytest.raises(InputError, match="a has 1 training pairs, expected 2 or more"):
        BatchPlan(0, {"a": 1}, {"a": 1}, np.array([4]))
    with pytest.raises(InputError, match="a has 3 training pairs, expected 4 or more"):
        BatchPlan(0, {"a": 3}, {"a": 1}, np.array([8]), divisor=4)


ROOT = Path(__file__).resolve().parents[3]


def schedule(**options) -> Schedule:
    return Schedule(build_settings(pairs=["here"], tasks={"response_prediction": 1}, **options))


def test_paper_preset_has_the_schedule_of_the_paper():
    paper = Schedule(parse_settings([str(ROOT / "trainer/presets/paper_dan.yaml")]))
    before, after = 30_000_000 - 1, 30_000_000
    sizes = paper.batch_sizes()
    assert (sizes[before], paper.learning_rate(before)) == (128, 0.01)
    assert (sizes[after], paper.learning_rate(after)) == (256, 0.001)


@pytest.mark.parametrize("late_from", [0.0, 0.3, 0.34, 0.95])
def test_batch_sizes_change_where_the_late_part_begins(late_from):
    late = schedule(max_steps=10, batch_size=8, late_batch_size=16, late_from=late_from)
    assert late.batch_sizes().tolist() == [16 if step >= late_from * 10 else 8 for step in range(10)]


HALF = math.sqrt(0.5)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"decay": "linear"}, [2.0, 1.5, 1.0, 0.5]),
        ({"decay": "cosine"}, [2.0, 1 + HALF, 1.0, 1 - HALF]),
        ({"decay": "linear", "warmup": 0.5}, [1.0, 2.0, 2.0, 1.0]),
        ({"decay": "cosine", "warmup": 0.5}, [1.0, 2.0, 2.0, 1.0]),
        ({"late_learning_rate": 0.5, "late_from": 0.4}, [2.0, 2.0, 0.5, 0.5]),
    ],
)
def test_the_learning_rate_rises_in_the_warm_up_and_decays_after_it(options, expected):
    rates = schedule(learning_rate=2.0, max_steps=4, **options)
    assert [rates.learning_rate(step) for step in range(4)] == pytest.approx(expected)
