import numpy as np
import pytest

from data_scripts.errors import InputError
from trainer.training.batching import BatchPlan


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


def test_another_seed_gives_different_batches():
    assert any((plan(seed=1).batch(s)[1] != plan(seed=2).batch(s)[1]).any() for s in range(5))


def test_every_epoch_reads_each_row_once():
    batches = plan(weights={"a": 1.0}, steps=50)
    read = np.concatenate([batches.batch(step)[1] for step in range(50)])
    for epoch in range(4):
        assert sorted(read[100 * epoch : 100 * (epoch + 1)]) == list(range(100))


def test_a_task_reads_all_its_rows_when_tasks_alternate():
    batches = plan()
    read = {"a": [], "b": []}
    for step in range(400):
        task, rows = batches.batch(step)
        read[task] += list(rows)
    assert sorted(read["a"][:100]) == list(range(100))
    assert sorted(read["b"][:50]) == list(range(50))


def test_tasks_are_sampled_by_their_weights():
    batches = plan(steps=20_000, weights={"a": 0.95, "b": 0.05})
    share = np.mean([batches.batch(step)[0] == "b" for step in range(20_000)])
    assert share == pytest.approx(0.05, abs=4 * np.sqrt(0.05 * 0.95 / 20_000))


def test_a_longer_run_begins_with_the_same_batches():
    short, long = plan(steps=10), plan(steps=400)
    assert all((short.batch(step)[1] == long.batch(step)[1]).all() for step in range(10))


def test_the_batch_size_may_change_during_the_run():
    sizes = np.array([4] * 10 + [8] * 10)
    batches = BatchPlan(0, {"a": 30}, {"a": 1}, sizes)
    read = np.concatenate([batches.batch(step)[1] for step in range(20)])
    assert [len(batches.batch(step)[1]) for step in range(20)] == sizes.tolist()
    assert all(sorted(read[30 * epoch : 30 * epoch + 30]) == list(range(30)) for epoch in range(4))


def test_fewer_pairs_than_a_batch_is_refused():
    with pytest.raises(InputError, match="a has 7 training pairs, fewer than a batch of 8"):
        plan(rows={"a": 7, "b": 50})


def test_a_task_of_weight_zero_is_never_sampled_and_needs_no_rows():
    batches = plan(rows={"a": 100, "b": 0}, weights={"a": 1, "b": 0})
    assert batches.tasks == ["a"] and {batches.batch(step)[0] for step in range(400)} == {"a"}
