import math
from pathlib import Path

import pytest

from trainer.command_line import build_arguments, parse_arguments
from trainer.training.schedule import Schedule

ROOT = Path(__file__).resolve().parents[3]


def schedule(**options) -> Schedule:
    return Schedule(build_arguments(pairs=["here"], tasks={"response_prediction": 1}, **options))


def test_paper_preset_has_the_schedule_of_the_paper():
    paper = Schedule(parse_arguments([str(ROOT / "trainer/presets/paper_dan.yaml")]))
    before, after = 30_000_000 - 1, 30_000_000
    assert (paper.batch_size(before), paper.learning_rate(before)) == (128, 0.01)
    assert (paper.batch_size(after), paper.learning_rate(after)) == (256, 0.001)


@pytest.mark.parametrize("late_from", [0.0, 0.3, 0.34, 0.95])
def test_batch_sizes_equal_those_of_the_single_steps(late_from):
    late = schedule(max_steps=10, batch_size=8, late_batch_size=16, late_from=late_from)
    assert late.batch_sizes().tolist() == [late.batch_size(step) for step in range(10)]
    assert late.batch_sizes().tolist() == [16 if step >= late_from * 10 else 8 for step in range(10)]


def test_learning_rate_rises_in_the_warm_up_and_decays_linearly():
    linear = schedule(learning_rate=1.0, warmup=0.1, decay="linear", max_steps=100)
    rates = [linear.learning_rate(step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1) and rates[8] == pytest.approx(0.9)
    assert max(rates) == pytest.approx(1.0)
    assert rates[55] == pytest.approx(0.5) and rates[99] == pytest.approx(1 / 90)


def test_learning_rate_decays_with_the_cosine_of_the_steps_after_the_warm_up():
    cosine = schedule(learning_rate=2.0, warmup=0.2, decay="cosine", max_steps=10)
    rates = [cosine.learning_rate(step) for step in range(10)]
    expected = [1.0] + [1 + math.cos(math.pi * (step - 2) / 8) for step in range(2, 10)]
    assert rates == pytest.approx([*expected[:1], 2.0, *expected[1:]])


@pytest.mark.parametrize("decay", ["linear", "cosine"])
def test_decay_without_warm_up_begins_at_the_learning_rate(decay):
    rates = schedule(learning_rate=2.0, decay=decay, max_steps=4)
    linear = [2.0, 1.5, 1.0, 0.5]
    half = math.sqrt(0.5)
    assert [rates.learning_rate(step) for step in range(4)] == pytest.approx(
        linear if decay == "linear" else [2.0, 1 + half, 1.0, 1 - half]
    )


def test_learning_rate_is_constant_without_decay_up_to_the_late_one():
    late = schedule(learning_rate=2.0, late_learning_rate=0.5, late_from=0.45, max_steps=10)
    assert [late.learning_rate(step) for step in range(10)] == [2.0] * 5 + [0.5] * 5
