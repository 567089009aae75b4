"""What files of `accelerate config` ask for is honored or refused by name; Accelerate itself reads the files."""

import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from accelerate.commands.launch import _validate_launch_command, launch_command_parser
from accelerate.utils.launch import prepare_multi_gpu_env, prepare_simple_launcher_cmd_env

from data_scripts.files.errors import InputError
from trainer.arguments import Arguments
from trainer.hardware import start_accelerator

TWO: dict[str, Any] = {"distributed_type": "MULTI_GPU", "num_processes": 2, "main_process_port": 0}


def set_environment(monkeypatch: pytest.MonkeyPatch, folder: Path, config: dict[str, Any], *options: str) -> None:
    """Set the environment that `accelerate launch --config_file` gives to a process, without its rank."""
    file = folder / "accelerate.yaml"
    file.write_text(yaml.safe_dump({"compute_environment": "LOCAL_MACHINE", **config}))
    args = launch_command_parser().parse_args(["--config_file", str(file), *options, "run.py"])
    args, *_ = _validate_launch_command(args)
    several = args.multi_gpu or args.use_fsdp or args.use_megatron_lm
    environment = prepare_multi_gpu_env(args) if several else prepare_simple_launcher_cmd_env(args)[1]
    for name, value in environment.items():
        if os.environ.get(name) != value:
            monkeypatch.setenv(name, value)


@pytest.fixture(autouse=True)
def _no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.parametrize(
    ("config", "arguments", "message"),
    [
        (TWO | {"distributed_type": "FSDP", "fsdp_config": {"fsdp_version": 2}}, {}, r"for FSDP \(.* --sharded true"),
        (TWO | {"distributed_type": "MEGATRON_LM"}, {}, r"for Megatron-LM \(.* --sharded true"),
        (
            TWO | {"dynamo_config": {"dynamo_backend": "INDUCTOR"}},
            {},
            r"torch.compile \(.*_BACKEND is INDUCTOR\)",
        ),
        (TWO | {"mixed_precision": "fp16"}, {}, "launch` is fp16; expected no or bf16"),
        (TWO | {"mixed_precision": "bf16"}, {"mixed_precision": "no"}, "is no, but Accelerate is configured for bf16"),
        (
            TWO | {"distributed_type": "MULTI_CPU", "use_cpu": True},
            {},
            "several processes on CPUs .* of which it starts",
        ),
    ],
)
def test_what_a_run_would_ignore_is_refused_in_one_line(monkeypatch, tmp_path, config, arguments, message):
    set_environment(monkeypatch, tmp_path, config)
    with pytest.raises(InputError) as refused:
        start_accelerator(Arguments(output_dir=str(tmp_path), **arguments))
    assert re.search(message, str(refused.value)) and "\n" not in str(refused.value)


@pytest.mark.parametrize("given", ["auto", "bf16"])
def test_precision_and_device_of_a_configuration_are_honored(monkeypatch, tmp_path, given):
    config = {"distributed_type": "NO", "mixed_precision": "bf16", "use_cpu": True}
    set_environment(monkeypatch, tmp_path, config)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)  # and yet the CPU is used
    accelerator = start_accelerator(Arguments(output_dir=str(tmp_path), mixed_precision=given, trackers=["none"]))
    assert (accelerator.mixed_precision, accelerator.device.type) == ("bf16", "cpu")
    with pytest.raises(InputError, match="device is cuda, but Accelerate is configured for the CPU"):
        start_accelerator(Arguments(output_dir=str(tmp_path), device="cuda"))


def test_the_default_configuration_is_accepted(monkeypatch, tmp_path):
    set_environment(monkeypatch, tmp_path, {"distributed_type": "NO", "use_cpu": True, "num_processes": 1})
    arguments = Arguments(output_dir=str(tmp_path), mixed_precision="no", trackers=["none"])
    accelerator = start_accelerator(arguments)
    assert accelerator.num_processes == 1
    # The main process would send all codes of a lexical channel in every step.
    assert accelerator.ddp_handler is not None and not accelerator.ddp_handler.broadcast_buffers


RANK_0 = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"RANK": "x"}, "environment variable RANK: x: expected a whole number from -1 to "),
        ({"LOCAL_RANK": "1.5"}, "environment variable LOCAL_RANK: 1.5: expected a whole number"),
        ({"WORLD_SIZE": "0"}, "environment variable WORLD_SIZE: 0: expected a whole number from 1 to "),
        ({"OMPI_COMM_WORLD_SIZE": "two"}, "environment variable OMPI_COMM_WORLD_SIZE: two: expected"),
        (RANK_0 | {"MASTER_PORT": "65536"}, "environment variable MASTER_PORT: 65536: expected a whole number from 0"),
        (RANK_0 | {"RANK": "5"}, "environment variable RANK: 5, but WORLD_SIZE is 2, and ranks count from 0"),
        ({"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "2"}, "could not be started (.*MASTER_ADDR"),
    ],
)
def test_variables_that_no_launcher_sets_are_named(monkeypatch, tmp_path, environment, message):
    for name in ("MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InputError, match=message.replace("(", r"\(")):
        start_accelerator(Arguments(output_dir=str(tmp_path)))


def test_a_port_in_use_is_named(monkeypatch, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        for name, value in (RANK_0 | {"MASTER_PORT": str(port)}).items():
            monkeypatch.setenv(name, value)
        with pytest.raises(InputError, match=f"MASTER_PORT {port}: another process listens there already; end it, or"):
            start_accelerator(Arguments(output_dir=str(tmp_path)))
