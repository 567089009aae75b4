"""What machines compare and send to one another; threads stand for the processes of a run."""

import errno
import os
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from data_scripts.errors import InputError
from tests.trainer.thread_group import ThreadGroup
from trainer import distributed
from trainer.arguments import Arguments
from trainer.training import machines, train
from trainer.training.context import RunContext
from trainer.training.interruption import Interruption
from trainer.training.manifest import MANIFEST, write_manifest


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


CHECKPOINT = {"model.safetensors": b"weights!", "optimizer/state": b"abc", "empty": b""}


@pytest.fixture
def four(monkeypatch, tmp_path) -> tuple[ThreadGroup, list[Path]]:
    """Two processes on each of two machines, and each process's folder; the first machine has a checkpoint."""
    group = ThreadGroup(4)
    monkeypatch.setattr(distributed, "dist", group)
    monkeypatch.setattr(distributed, "patient_group", lambda: None)
    monkeypatch.setattr(machines, "dist", group)
    monkeypatch.setattr(machines, "patient_group", lambda: None)
    monkeypatch.setattr(machines, "is_first_on_machine", lambda: group.get_rank() % 2 == 0)
    monkeypatch.setattr(machines, "CHUNK_BYTES", 3)
    folders = [tmp_path / name for name in ("first", "first", "second", "second")]
    for folder in folders:
        folder.mkdir(exist_ok=True)
    save_checkpoint(folders[0])
    return group, folders


def save_checkpoint(folder: Path) -> None:
    for name, content in CHECKPOINT.items():
        file = folder / "checkpoint-4" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    write_manifest(folder / "checkpoint-4")


def read_everywhere(group: ThreadGroup, folders: list[Path]) -> list[tuple[str, dict[str, bytes]]]:
    """The name of the folder that each process opens, and its files."""

    def read(rank: int) -> tuple[str, dict[str, bytes]]:
        # The second machine does not have the main process's folder.
        of_main = folders[0] if rank < 2 else Path("nowhere")
        with machines.on_this_machine(of_main / "checkpoint-4", folders[rank]) as folder:
            files = [path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST]
            return folder.name, {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}

    return group.run(read)


def test_a_single_process_reads_the_checkpoint_where_it_is(tmp_path):
    with machines.on_this_machine(tmp_path / "a" / "checkpoint-4", tmp_path / "b") as folder:
        assert folder == tmp_path / "a" / "checkpoint-4"


def test_a_machine_without_the_checkpoint_gets_a_copy_while_it_is_read(four):
    group, folders = four
    own, copy = ("checkpoint-4", CHECKPOINT), (".checkpoint-4", CHECKPOINT)
    assert read_everywhere(group, folders) == [own, own, copy, copy]
    assert not any(folders[2].iterdir())


def test_a_machine_with_the_same_checkpoint_reads_its_own(four):
    group, folders = four
    save_checkpoint(folders[2])
    assert read_everywhere(group, folders) == 4 * [("checkpoint-4", CHECKPOINT)]


@pytest.mark.parametrize("name", [*CHECKPOINT, MANIFEST])
def test_a_machine_with_another_checkpoint_gets_a_copy(four, name):
    group, folders = four
    save_checkpoint(folders[2])
    file = folders[2] / "checkpoint-4" / name
    file.write_bytes(file.read_bytes() + b" ")
    own, copy = ("checkpoint-4", CHECKPOINT), (".checkpoint-4", CHECKPOINT)
    assert read_everywhere(group, folders) == [own, own, copy, copy]
    assert [path.name for path in folders[2].iterdir()] == ["checkpoint-4"]


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
    assert compared == [{"read": "('data', 'tokenizer', {})"} if is_first else {}]


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
