"""Runs on several machines that do not share a disk: each machine has folders of its own."""

import errno
import os
import signal
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from data_scripts.errors import InputError
from tests.forking import free_port, run_machines, run_python
from tests.trainer.training.tiny_runs import ROOT, RUN, losses, read_losses
from trainer.arguments import Arguments
from trainer.training import machines, train
from trainer.training.context import RunContext
from trainer.training.interruption import Interruption

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


@pytest.fixture
def second_machine(monkeypatch, tmp_path) -> Path:
    """The run's folder on a machine that does not see that of the main process, with a copy that a killed run left."""
    (tmp_path / ".checkpoint-3").mkdir()
    (tmp_path / ".checkpoint-3" / "metrics_7.json").touch()
    functions = {"world_size": lambda: 2, "rank": lambda: 1, "share": lambda own: b"{}", "wait_for_all": lambda: None}
    for name, function in (functions | {"gather": lambda own: [True, own]}).items():
        monkeypatch.setattr(machines, name, function)
    return tmp_path


def test_a_checkpoint_is_copied_without_what_a_killed_run_left(second_machine, monkeypatch):
    monkeypatch.setattr(machines, "_send_files", lambda folder, copy: copy.mkdir(exist_ok=True))
    with machines.on_this_machine(Path("elsewhere", "checkpoint-3"), second_machine) as copy:
        assert copy.parent == second_machine and not any(copy.iterdir())
    assert not any(second_machine.iterdir())


def test_a_disk_that_is_too_small_for_the_copy_of_a_checkpoint_is_reported(second_machine, monkeypatch):
    def send_files(folder: Path, copy: Path) -> None:
        copy.mkdir()
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(machines, "_send_files", send_files)
    context = machines.on_this_machine(Path("elsewhere", "checkpoint-3"), second_machine)
    with pytest.raises(InputError, match=r"checkpoint-3: cannot be written \(No space left .*free some disk"), context:
        pass
    assert not any(second_machine.iterdir())


def test_files_are_sent_in_chunks(monkeypatch, tmp_path):
    files = {"empty": b"", "even": b"123456", "shards/odd": b"1234567"}
    for name, content in files.items():
        (tmp_path / "from" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "from" / name).write_bytes(content)
    sent: list[int] = []
    monkeypatch.setattr(machines, "CHUNK_BYTES", 3)
    monkeypatch.setattr(machines, "patient_group", lambda: None)
    monkeypatch.setattr(machines.dist, "broadcast", lambda chunk, src, group: sent.append(len(chunk)))
    machines._send_files(tmp_path / "from", tmp_path / "to")
    assert {name: (tmp_path / "to" / name).read_bytes() for name in files} == files
    assert sent == [3, 3, 3, 3, 1]


def test_settings_are_compared_before_processes_exchange_what_depends_on_them(monkeypatch, tmp_path):
    def refuse(arguments: Arguments) -> None:
        raise InputError("other settings")

    started: list[Arguments] = []
    monkeypatch.setattr(train, "start_processes", started.append)
    monkeypatch.setattr(train, "check_same_settings", refuse)
    monkeypatch.setattr(train, "start_accelerator", None)  # with mixed_precision: auto, it waits for the main process
    arguments = Arguments(output_dir=str(tmp_path))
    with pytest.raises(InputError, match="other settings"), ExitStack() as stack:
        train._start(arguments, Interruption(), stack)
    assert started == [arguments]


@pytest.mark.parametrize("is_first", [True, False])
def test_the_first_process_of_each_machine_gives_the_fingerprints_of_its_data(monkeypatch, tmp_path, is_first):
    compared: list[Mapping[str, str]] = []

    def refuse(fingerprints: Mapping[str, str]) -> None:
        compared.append(fingerprints)
        raise InputError("other data")

    monkeypatch.setattr(train, "_load_data", lambda context: ("data", "tokenizer", {}))
    monkeypatch.setattr(train, "is_first_on_machine", lambda: is_first)
    monkeypatch.setattr(train, "fingerprint_inputs", lambda *inputs: {"read": f"{inputs}"})
    monkeypatch.setattr(train, "check_same_data", refuse)
    with pytest.raises(InputError, match="other data"):
        train._train(RunContext(Arguments(), SimpleNamespace(), tmp_path))
    assert compared == [{"read": "('data', 'tokenizer', None)"} if is_first else {}]


@pytest.mark.parametrize("sharded", [True, False])
def test_only_sharded_runs_need_a_shared_folder(monkeypatch, tmp_path, sharded):
    checked: list[Path] = []
    for name in ("start_processes", "check_same_settings"):
        monkeypatch.setattr(train, name, lambda arguments: None)
    monkeypatch.setattr(train, "start_accelerator", lambda *arguments: SimpleNamespace(is_main_process=False))
    monkeypatch.setattr(train, "check_shared_folder", checked.append)
    with ExitStack() as stack:
        train._start(Arguments(output_dir=str(tmp_path), sharded=sharded), Interruption(), stack)
    assert checked == [tmp_path] * sharded


@pytest.fixture
def gathered(monkeypatch) -> list[Any]:
    """What `gather` returns: the values of all processes."""
    values: list[Any] = []
    monkeypatch.setattr(machines, "gather", lambda own: values)
    return values


def test_other_settings_on_a_machine_are_refused_except_its_folders(gathered):
    settings = {"batch_size": 8, "max_steps": 4}
    gathered += [("a", settings), ("b", settings), ("c", {"batch_size": 8, "max_steps": 6})]
    message = r"process 2 \(machine c\) has other settings than the main process \(max_steps is 6, not 4\)"
    with pytest.raises(InputError, match=message):
        machines.check_same_settings(Arguments())


def test_folders_may_differ_between_machines(monkeypatch):
    compared: list[dict[str, Any]] = []
    monkeypatch.setattr(machines, "gather", lambda own: [compared.append(own[1]) or own])
    for folder in ("a", "b"):
        machines.check_same_settings(Arguments(output_dir=folder, cache_dir=folder, hub_model_id=f"{folder}/model"))
    machines.check_same_settings(Arguments(seed=5))
    assert compared[0] == compared[1] != compared[2]


def test_a_machine_with_other_data_is_refused(gathered):
    gathered += [("a", {"training data of pairs": "1"}), ("a", {}), ("b", {"training data of pairs": "1"})]
    machines.check_same_data({})
    gathered[2] = ("b", {"training data of pairs": "2"})
    message = r"machine b reads other data than the main process \(training data of pairs\): copy"
    with pytest.raises(InputError, match=message):
        machines.check_same_data({})


def test_shards_need_a_disk_that_all_machines_share(monkeypatch, tmp_path):
    machines.check_shared_folder(tmp_path)
    assert not any(path.is_file() for path in tmp_path.rglob("*"))
    monkeypatch.setattr(machines, "gather", lambda own: [own, ("b", False)])
    with pytest.raises(InputError, match=f"sharded: .* but {tmp_path} on b is not the folder of the main process"):
        machines.check_shared_folder(tmp_path)


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
