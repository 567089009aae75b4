"""The log of a run that was killed while it wrote a line, and the first step that is not finite."""

import pytest
import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState

from trainer.arguments import Arguments
from trainer.training.context import RunContext
from trainer.training.metrics_log import MetricsLog


@pytest.fixture
def log(tmp_path) -> MetricsLog:
    AcceleratorState._reset_state(reset_partial_state=True)
    return MetricsLog(RunContext(Arguments(trackers=["none"]), Accelerator(cpu=True), tmp_path))


@pytest.mark.parametrize(
    "torn", [b'{"step": 4, "lo', b'{"step', b'{"loss": 1}', b'{"step": null}', b"7", b"\xff\xfe\x00", b"[" * 9999]
)
def test_a_torn_last_line_is_dropped_with_a_notice(log, tmp_path, caplog, torn):
    file = tmp_path / "metrics.jsonl"
    file.write_bytes(b'{"step": 2}\n{"step": 4}\n{"step": 6}\n' + torn)
    log.drop_rows_after(4)
    assert file.read_text() == '{"step": 2}\n{"step": 4}\n'
    assert "metrics.jsonl, line 4: removed, because it is damaged" in caplog.text and len(caplog.records) == 1
    log.write({"step": 5})
    assert file.read_text() == '{"step": 2}\n{"step": 4}\n{"step": 5}\n'


def test_a_lost_log_does_not_stop_a_resumed_run(log, tmp_path, caplog):
    log.drop_rows_after(4)
    assert "metrics.jsonl is missing" in caplog.text
    log.write({"step": 5})
    assert (tmp_path / "metrics.jsonl").read_text() == '{"step": 5}\n'


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
