"""Runs on several machines: all of them must read the same, and the main process's checkpoints reach every one."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from data_scripts.files.errors import InputError
from data_scripts.files.folders import CHECKSUMS, find_damage, list_files
from data_scripts.files.storage import report_write_errors, temporary_path
from trainer.arguments import Arguments
from trainer.distributed import gather, rank, share, wait_for_all, world_size
from trainer.training.fingerprints import find_changes

# Options that may differ between the machines of a run: folders, and what the main process does alone.
MAY_DIFFER = {"output_dir", "cache_dir", "trackers", "hub_model_id", "push_to_hub"}


def check_same_settings(arguments: Arguments) -> None:
    """Compare the settings of all processes. Every process must call this.

    Raises:
        InputError: a process has other settings than the main process; all processes raise it.
    """
    settings = {key: value for key, value in asdict(arguments).items() if key not in MAY_DIFFER}
    for number, (name, other) in enumerate(gather((socket.gethostname(), settings))):
        if number == 0:
            expected = other
        elif changed := [key for key in expected if other.get(key) != expected[key]]:
            differences = "; ".join(f"{key} is {other.get(key)}, not {expected[key]}" for key in changed)
            raise InputError(
                f"process {number} (machine {name}) has other settings than the main process ({differences}): start "
                "the run on every machine with the same preset and options"
            )


def check_same_data(fingerprints: Mapping[str, str]) -> None:
    """Compare the fingerprints of what each machine reads. Every process must call this.

    Args:
        fingerprints: those of this process's machine; empty if another process of the machine gives them.

    Raises:
        InputError: a machine reads other data than the main process; all processes raise it.
    """
    (_, expected), *others = gather((socket.gethostname(), dict(fingerprints)))
    for name, other in others:
        if other and (changed := find_changes(expected, other)):
            raise InputError(
                f"machine {name} reads other data than the main process ({', '.join(changed)}): copy the main "
                "process's data to it"
            )


def check_shared_folder(folder: Path) -> None:
    """Check that all processes see the run's folder, where each of them saves its shards. Every process must call it.

    Raises:
        InputError: a machine has a folder of its own; all processes raise it.
    """
    name = share(temporary_path(folder / "seen-by-all").name)
    if rank() == 0:
        (folder / name).touch()
    wait_for_all()
    seen = gather((socket.gethostname(), (folder / name).exists()))
    if rank() == 0:
        (folder / name).unlink()
    if lacking := sorted({machine for machine, is_seen in seen if not is_seen}):
        raise InputError(
            f"sharded: every process saves its part of a checkpoint to output_dir, but {folder} on {lacking[0]} is not "
            "the folder of the main process: name a folder on a disk that all machines share"
        )


@contextmanager
def on_this_machine(folder: Path, own_folder: Path) -> Iterator[Path]:
    """Yield a checkpoint of the main process: where this process sees it, or a copy until the context is left.

    Every process must enter the context.

    Args:
        folder: the checkpoint, on the main process's machine.
        own_folder: the run's folder on this machine.
    """
    if world_size() == 1:
        yield folder
        return
    own = own_folder / folder.name
    checksums = share((folder / CHECKSUMS).read_bytes() if rank() == 0 else b"")
    is_seen = rank() == 0 or (
        (own / CHECKSUMS).is_file() and (own / CHECKSUMS).read_bytes() == checksums and find_damage(own) is None
    )
    if all(gather(is_seen)):
        yield own
        return
    with TemporaryDirectory(prefix="convsim-") as copy, report_write_errors(Path(copy), Path(copy)):
        _send_files(folder, None if is_seen else Path(copy))
        yield own if is_seen else Path(copy)


def _send_files(folder: Path, copy: Path | None) -> None:
    """Send the files of the main process's folder to all processes, which write them to `copy`, unless it is None."""
    for name in share(list_files(folder) if rank() == 0 else []):
        content = share((folder / name).read_bytes() if rank() == 0 else b"")
        if copy:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            (copy / name).write_bytes(content)
