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
