"""What machines compare and send to one another; threads stand for the processes of a run."""

from pathlib import Path
from tempfile import gettempdir

import pytest

from data_scripts.files.folders import CHECKSUMS, write_checksums
from tests.trainer.thread_group import ThreadGroup
from trainer import distributed
from trainer.training import checkpoints

CHECKPOINT = {"model.safetensors": b"weights!", "optimizer/state": b"abc", "empty": b""}


@pytest.fixture
def four(monkeypatch, tmp_path) -> tuple[ThreadGroup, list[Path]]:
    """Two processes on each of two machines, and each process's folder; the first machine has a checkpoint."""
    group = ThreadGroup(4)
    monkeypatch.setattr(distributed, "dist", group)
    monkeypatch.setattr(distributed, "patient_group", lambda: None)
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
    write_checksums(folder / "checkpoint-4", CHECKPOINT)


def read_everywhere(group: ThreadGroup, folders: list[Path]) -> list[tuple[Path, dict[str, bytes]]]:
    """The folder that each process opens, and its files."""

    def read(rank: int) -> tuple[Path, dict[str, bytes]]:
        # The second machine does not have the main process's folder.
        of_main = folders[0] if rank < 2 else Path("nowhere")
        with checkpoints.on_this_machine(of_main / "checkpoint-4", folders[rank]) as folder:
            files = [path for path in folder.rglob("*") if path.is_file() and path.name != CHECKSUMS]
            return folder, {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}

    return group.run(read)


@pytest.mark.parametrize("damaged", ["nothing", None, *CHECKPOINT, CHECKSUMS])
def test_a_machine_without_the_same_checkpoint_reads_a_copy(four, damaged):
    group, folders = four
    if damaged != "nothing":
        save_checkpoint(folders[2])
    if damaged in (*CHECKPOINT, CHECKSUMS):
        file = folders[2] / "checkpoint-4" / damaged
        file.write_bytes(file.read_bytes() + b" ")
    opened = read_everywhere(group, folders)
    assert [files for _, files in opened] == 4 * [CHECKPOINT]
    own = [folder / "checkpoint-4" for folder in folders]
    assert [folder for folder, _ in opened[:2]] == own[:2]
    for folder, _ in opened[2:]:
        assert folder == own[2] if damaged is None else folder.parent == Path(gettempdir()) and not folder.exists()
