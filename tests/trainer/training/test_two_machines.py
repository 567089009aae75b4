"""Runs on several machines that do not share a disk: each machine has folders of its own."""

import signal
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from tests.forking import free_port, run_machines, run_python
from tests.trainer.training.tiny_runs import ROOT, RUN, losses, read_losses

INTERRUPTED = Path(__file__).with_name("interrupted_run.py")


def arguments_of(machine: Path, preset: Path, *options: str | Path) -> list[str | Path]:
    """The arguments of `trainer/run.py` on one of two machines."""
    folders: list[str | Path] = ["--output_dir", machine / "run", "--cache_dir", machine / "cache"]
    return [preset, *folders, "--num_processes", "2", *options]


@pytest.fixture
def two(tmp_path: Path) -> list[Path]:
    """The disks of two machines."""
    return [tmp_path / "first", tmp_path / "second"]


def test_two_machines_reproduce_one_process_and_resume_after_one_of_them_is_lost(two_process_preset, two, tmp_path):
    # Skip-gram vectors and a tokenizer of the run, which the second machine gets from the first.
    options = ["--word_vectors", "skip_gram", "--eval_every", "3", "--log_every", "1"]
    expected = losses(two_process_preset, tmp_path / "one", *options)
    started = [arguments_of(machine, two_process_preset, *options) for machine in two]
    survivor, killed = run_machines(INTERRUPTED, [["--killed", "1", *each] for each in started])
    assert killed.returncode == -signal.SIGKILL and survivor.returncode == 2
    (line,) = (line for line in survivor.stdout.splitlines() if line.startswith("error: "))
    assert "another process of the run has ended" in line
    assert f"{two[0] / 'run' / 'checkpoint-3'} is saved: continue with --resume true" in line
    for done in run_machines(RUN, [[*each, "--resume", "true"] for each in started]):
        assert done.returncode == 0, done.stdout
    assert read_losses(two[0] / "run") == pytest.approx(expected, rel=1e-6)
    weights, one = (load_file(folder / "model" / "model.safetensors") for folder in (two[0] / "run", tmp_path / "one"))
    # The loss does not depend on the bias of the responses: its gradient is rounding noise, which Adam scales up.
    one.pop("response_head.layers.1.bias")
    for name, value in one.items():
        torch.testing.assert_close(weights[name], value, rtol=0, atol=1e-3)
    # The second machine has its own cache, without word vectors, and no other files.
    entries = {path.name for path in (two[0] / "cache").iterdir() if path.is_dir()}
    assert {path.name for path in (two[1] / "cache").iterdir()} == entries
    assert not any(path.is_file() for path in (two[1] / "run").rglob("*"))


def test_accelerate_launch_on_two_machines_reproduces_the_losses_of_one_process(two_process_preset, two, tmp_path):
    launch = (
        "accelerate.commands.launch --quiet --multi_gpu --num_machines 2 --num_processes 2 --mixed_precision no "
        f"--dynamo_backend no --main_process_ip 127.0.0.1 --main_process_port {free_port()}"
    )
    commands = [
        ["-m", *launch.split(), "--machine_rank", str(number), RUN, *arguments_of(machine, two_process_preset)]
        for number, machine in enumerate(two)
    ]
    environment = {"CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": str(ROOT)}
    for done in run_python(commands, environments=[environment] * 2, seconds=240):
        assert done.returncode == 0, done.stdout
    expected = losses(two_process_preset, tmp_path / "one")
    assert read_losses(two[0] / "run") == pytest.approx(expected, rel=1e-6)
    assert (two[0] / "run" / "model" / "modules.json").is_file() and not (two[1] / "run").exists()


def test_processes_wait_for_one_that_works_alone_longer_than_for_other_collectives():
    code = """
import time
from datetime import timedelta
import torch.distributed as dist
from trainer.distributed import is_first_on_machine, rank, share, wait_for_all
dist.init_process_group("gloo", timeout=timedelta(seconds=1))
wait_for_all()
if rank() == 0:
    time.sleep(1.5)
wait_for_all()
print(share(rank()), is_first_on_machine())
dist.destroy_process_group()
"""
    for done in run_machines("-c", [[code], [code]]):
        assert (done.returncode, done.stdout) == (0, "0 True\n")
