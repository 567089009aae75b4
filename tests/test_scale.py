"""The estimates of model_cards/scale.md."""

from itertools import product
from pathlib import Path

import pytest

from tests.benchmarks import scale

DOCUMENT = Path(__file__).parents[1] / "model_cards/scale.md"


def test_the_document_is_what_the_command_prints() -> None:
    assert DOCUMENT.read_text(encoding="utf-8") == scale.report() + "\n", (
        "measurements have changed: python -m tests.benchmarks.scale > model_cards/scale.md"
    )


def test_the_months_have_all_comments() -> None:
    months = scale.monthly_comments(1000, 100)
    assert sum(months) == pytest.approx(1000, rel=1e-3)
    assert months[0] == 100
    assert months[1] / months[0] == pytest.approx(months[9] / months[8])


@pytest.mark.parametrize(("workers", "tasks"), product([1, 2, 3], [[5, 3, 3, 2, 2], [9, 1, 1], [1], [4, 4, 4, 4]]))
def test_tasks_end_as_in_a_simulation_second_by_second(workers: int, tasks: list[int]) -> None:
    waiting, running, seconds = list(tasks), [0] * workers, 0
    while True:
        for worker in range(workers):
            if not running[worker] and waiting:
                running[worker] = waiting.pop(0)
        if not any(running):
            break
        running = [max(left - 1, 0) for left in running]
        seconds += 1
    assert scale.makespan(tasks, workers) == seconds


def test_the_slowest_resource_limits_a_stage() -> None:
    stage = scale.Stage("join", {"disk": 3, "cores": 5, "network": 4})
    assert (stage.duration, stage.bottleneck) == (5, "cores")
    large = scale.reading(cores=10**6, machines=10**6)
    assert large.bottleneck == "the largest month, on one core"
    assert large.duration == pytest.approx(70e6 * 4.7e-6)
