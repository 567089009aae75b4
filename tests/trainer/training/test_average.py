"""`average_from`: the weights of every tenth step, here of every second one, are averaged."""

import pytest
import torch
from safetensors.torch import load_file

from tests.trainer.training.tiny_runs import read_metrics
from trainer.command_line import build_arguments
from trainer.training import schedule
from trainer.training.loop import TrainingLoop
from trainer.training.schedule import Schedule

CHANGES = {"stsb": None, "best_metric": "last", "max_steps": 12, "eval_every": 4}


@pytest.fixture(autouse=True)
def every_second_step(monkeypatch) -> None:
    monkeypatch.setattr(schedule, "AVERAGED", 2)


@pytest.fixture
def recorded(monkeypatch) -> list[dict[str, torch.Tensor]]:
    """The trained weights after each step, in float64."""
    weights: list[dict[str, torch.Tensor]] = []
    take_step = TrainingLoop.step

    def step(self: TrainingLoop, index: int) -> None:
        take_step(self, index)
        weights.append({name: value.double() for name, value in self._model.wrapped.state_dict().items()})

    monkeypatch.setattr(TrainingLoop, "step", step)
    return weights


@pytest.mark.parametrize(("average_from", "averaged"), [(0.0, [1, 3, 5, 7, 9, 11]), (0.3, [5, 7, 9, 11])])
def test_the_result_is_the_mean_of_the_weights_of_some_steps(
    run_trainer, preset, recorded, tmp_path, average_from, averaged
):
    assert run_trainer(preset(output_dir=str(tmp_path / "run"), average_from=average_from, **CHANGES)) == 0
    assert len(recorded) == 12
    model = load_file(tmp_path / "run" / "model" / "model.safetensors")
    last = load_file(tmp_path / "run" / "checkpoint-12" / "model.safetensors")
    assert len(model) > 5
    for name, value in model.items():
        mean = torch.stack([recorded[step][name] for step in averaged]).mean(0)
        torch.testing.assert_close(value.double(), mean, atol=1e-6, rtol=0)
    assert any((value - last[name]).abs().max() > 1e-4 for name, value in model.items())


def test_dev_is_evaluated_with_the_average_and_before_it_with_the_weights(run_trainer, preset, tmp_path):
    """The average of a single step, the last one, is that step's weights; before it, dev does not depend on it."""
    plain, averaged = tmp_path / "plain", tmp_path / "averaged"
    assert run_trainer(preset(output_dir=str(plain), **CHANGES)) == 0
    assert run_trainer(preset(output_dir=str(averaged), average_from=0.9, **CHANGES)) == 0
    assert (plain / "metrics.jsonl").read_text() == (averaged / "metrics.jsonl").read_text()

    mean = tmp_path / "mean"
    assert run_trainer(preset(output_dir=str(mean), average_from=0.6, **CHANGES)) == 0
    of_plain, of_mean = ([row["dev"] for row in read_metrics(each) if "dev" in row] for each in (plain, mean))
    assert of_plain[:2] == of_mean[:2] and of_plain[2:] != of_mean[2:]


def test_a_resumed_run_has_the_same_average_bit_for_bit(run_trainer, interrupted_at, preset, tmp_path):
    uninterrupted, resumed = tmp_path / "uninterrupted", tmp_path / "resumed"
    assert run_trainer(preset(output_dir=str(uninterrupted), average_from=0.2, **CHANGES)) == 0
    with interrupted_at(10):
        run_trainer(preset(output_dir=str(resumed), average_from=0.2, **CHANGES))
    assert (resumed / "checkpoint-8").is_dir()
    assert run_trainer(preset(output_dir=str(resumed), average_from=0.2, **CHANGES), "--resume", "true") == 0
    weights, expected = (load_file(each / "model" / "model.safetensors") for each in (resumed, uninterrupted))
    assert weights.keys() == expected.keys() and all(torch.equal(weights[name], expected[name]) for name in expected)
    assert (uninterrupted / "metrics.jsonl").read_text() == (resumed / "metrics.jsonl").read_text()


@pytest.mark.parametrize("average_from", [0.0, 0.35, 0.49, 0.97, 1.0])
@pytest.mark.parametrize("steps", [100, 104])
def test_averaged_steps_are_those_after_the_share_of_the_run_and_the_last(average_from, steps, monkeypatch):
    monkeypatch.setattr(schedule, "AVERAGED", 10)
    arguments = build_arguments(
        pairs=["here"], tasks={"response_prediction": 1}, max_steps=steps, average_from=average_from
    )
    averaged = [step for step in range(steps) if Schedule(arguments).is_averaged(step)]
    every_tenth = range(steps - 1, -1, -10)
    assert averaged == sorted(step for step in every_tenth if step >= steps * average_from)
    assert (steps - 1 in averaged) == (average_from < 1)
