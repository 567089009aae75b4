"""What files of `accelerate config` ask for is honored; Accelerate itself reads the files."""

import os
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_multi_gpu_env, prepare_simple_launcher_cmd_env

from data_scripts.files.errors import InputError
from trainer.processes import start_accelerator
from trainer.settings import Settings

TWO: dict[str, Any] = {"distributed_type": "MULTI_GPU", "num_processes": 2, "main_process_port": 0}


def set_environment(monkeypatch: pytest.MonkeyPatch, folder: Path, config: dict[str, Any], *options: str) -> None:
    """Set the environment that `accelerate launch --config_file` gives to a process, without its rank."""
    file = folder / "accelerate.yaml"
    file.write_text(yaml.safe_dump({"compute_environment": "LOCAL_MACHINE", **config}))
    args = launch_command_parser().parse_args(["--config_file", str(file), *options, "run.py"])
    args, *_ = _validate_launch_command(args)
    environment = prepare_multi_gpu_env(args) if args.multi_gpu else prepare_simple_launcher_cmd_env(args)[1]
    for name, value in environment.items():
        if os.environ.get(name) != value:
            monkeypatch.setenv(name, value)


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


def test_a_precision_that_a_run_does_not_have_is_refused(monkeypatch, tmp_path):
    set_environment(monkeypatch, tmp_path, TWO | {"mixed_precision": "fp16"})
    with pytest.raises(InputError, match="launch` is fp16; expected no or bf16"):
        start_accelerator(Settings(output_dir=str(tmp_path)))


@pytest.mark.parametrize("given", ["auto", "bf16"])
def test_precision_and_device_of_a_configuration_are_honored(monkeypatch, tmp_path, given):
    config = {"distributed_type": "NO", "mixed_precision": "bf16", "use_cpu": True}
    set_environment(monkeypatch, tmp_path, config)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # and yet the CPU is used
    accelerator = start_accelerator(Settings(output_dir=str(tmp_path), mixed_precision=given, trackers=["none"]))
    assert (accelerator.mixed_precision, accelerator.device.type) == ("bf16", "cpu")


def test_the_default_configuration_is_accepted(monkeypatch, tmp_path):
    set_environment(monkeypatch, tmp_path, {"distributed_type": "NO", "use_cpu": True, "num_processes": 1})
    settings = Settings(output_dir=str(tmp_path), mixed_precision="no", trackers=["none"])
    accelerator = start_accelerator(settings)
    assert accelerator.num_processes == 1
    # The main process would send all codes of a lexical channel in every step.
    assert accelerator.ddp_handler is not None and not accelerator.ddp_handler.broadcast_buffers


def test_processes_that_cannot_be_started_are_one_line(monkeypatch, tmp_path):
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=r"could not be started \(.*MASTER_ADDR") as refused:
        start_accelerator(Settings(output_dir=str(tmp_path)))
    assert "\n" not in str(refused.value)
