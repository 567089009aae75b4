"""What the environment of `accelerate launch` asks for is honored."""

import pytest
import torch

from modeling_convsim.files.errors import InputError
from trainer.processes import start_accelerator
from trainer.settings import Settings


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_a_precision_that_a_run_does_not_have_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "fp16")
    with pytest.raises(InputError, match="launch` is fp16; expected no or bf16"):
        start_accelerator(Settings(output_dir=str(tmp_path)))


def test_a_run_on_a_cpu_is_asked_for_by_the_launcher(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setenv("ACCELERATE_USE_CPU", "true")
    accelerator = start_accelerator(Settings(output_dir=str(tmp_path), mixed_precision="bf16", trackers=["none"]))
    assert (accelerator.mixed_precision, accelerator.device.type) == ("bf16", "cpu")
    # The main process would send all codes of a lexical channel in every step.
    assert accelerator.ddp_handler is not None and not accelerator.ddp_handler.broadcast_buffers


def test_processes_that_cannot_be_started_are_one_line(monkeypatch, tmp_path):
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=r"could not be started \(.*MASTER_ADDR") as refused:
        start_accelerator(Settings(output_dir=str(tmp_path)))
    assert "\n" not in str(refused.value)
