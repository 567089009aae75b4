"""The log of a resumed run, and the first step that is not finite."""

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from data_scripts.errors import InputError
from trainer.arguments import Arguments
from trainer.training.context import RunContext
from trainer.training.metrics_log import MetricsLog


@pytest.fixture
def log(tmp_path) -> MetricsLog:
    AcceleratorState._reset_state(reset_partial_state=True)
    return MetricsLog(RunContext(Arguments(trackers=["none"]), Accelerator(cpu=True), tmp_path))


def test_a_resumed_run_goes_back_to_the_log_of_its_checkpoint(log, tmp_path):
    checkpoint, file = tmp_path / "checkpoint-4", tmp_path / "metrics.jsonl"
    checkpoint.mkdir()
    log.write({"step": 2})
    losses = {3: 0.1, 4: 1 / 3}
    for step, loss in losses.items():
        log.add(step, "snli", {"loss": torch.tensor(loss)})
    log.save(checkpoint)
    log.clear()
    log.write({"step": 6})
    file.write_bytes(file.read_bytes().replace(b"2", b"3") + b'{"step": 8, "lo')
    log.load(checkpoint)
    assert file.read_text() == '{"step": 2}\n'
    log.add(5, "snli", {"loss": torch.tensor(torch.inf)})
    assert log.first_step_not_finite() == 5
    log.clear()
    log.load(checkpoint)
    log.add(5, "snli", {"loss": torch.tensor(2.0)})
    assert log.take_means() == {"snli/loss": float(torch.tensor([*losses.values(), 2.0]).mean())}


def test_a_run_of_fewer_processes_is_resumed_by_more(log, tmp_path):
    (tmp_path / "metrics.jsonl").write_text("{}\n")
    (tmp_path / "checkpoint-4").mkdir()
    log.save(tmp_path / "checkpoint-4")
    (tmp_path / "checkpoint-4" / "metrics_0.json").unlink()
    log.load(tmp_path / "checkpoint-4")
    assert log.take_means() == {}


def test_a_checkpoint_before_the_first_row_has_an_empty_log(log, tmp_path):
    (tmp_path / "checkpoint-1").mkdir()
    log.save(tmp_path / "checkpoint-1")
    log.write({"step": 2})
    log.load(tmp_path / "checkpoint-1")
    assert (tmp_path / "metrics.jsonl").read_text() == ""


def test_a_checkpoint_without_a_log_is_refused(log, tmp_path):
    (tmp_path / "checkpoint-4").mkdir()
    with pytest.raises(InputError, match=r"resume: .*checkpoint-4 has no metrics\.jsonl: .* --overwrite true"):
        log.load(tmp_path / "checkpoint-4")


def test_a_log_that_cannot_be_written_is_named_in_one_line(log, tmp_path):
    (tmp_path / "metrics.jsonl").mkdir()
    with pytest.raises(InputError, match=r"metrics\.jsonl: cannot be written \(Is a directory\)"):
        log.write({"step": 2})


@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_the_first_step_that_is_not_finite_is_found_among_all_tasks(log, value):
    losses = {"snli": {3: 1.0, 5: value, 6: value}, "captions": {1: 2.0, 2: 3e38, 4: value}}
    for task, steps in losses.items():
        for step, loss in steps.items():
            log.add(step, task, {"loss": torch.tensor(loss)})
            if step == 2:
                assert log.first_step_not_finite() == 5
    assert log.first_step_not_finite() == 4
    log.clear()
    log.add(7, "snli", {"loss": torch.tensor(1.0)})
    assert log.first_step_not_finite() is None
