"""Runs on several machines: all of them must read the same, and the main process's checkpoints reach every one."""

import os
import shutil
import socket
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import torch
import torch.distributed as dist

from data_scripts.errors import InputError
from data_scripts.write.files import report_write_errors
from trainer.arguments import Arguments
from trainer.distributed import gather, is_first_on_machine, patient_group, rank, share, wait_for_all, world_size
from trainer.training.fingerprints import find_changes
from trainer.training.manifest import MANIFEST, find_damage
from trainer.training.run_folder import NEW

# Options that may differ between the machines of a run: folders, and what the main process does alone.
MAY_DIFFER = {"output_dir", "cache_dir", "trackers", "hub_model_id", "push_to_hub"}
CHUNK_BYTES = 2**26


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
    name = share(f"{NEW}/seen-by-all-{uuid.uuid4().hex}")
    if rank() == 0:
        (folder / name).parent.mkdir(exist_ok=True)
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
    manifest = share((folder / MANIFEST).read_bytes() if rank() == 0 else b"")
    is_seen = rank() == 0 or (_read(own / MANIFEST) == manifest and find_damage(own) is None)
    if all(gather(is_seen)):
        yield own
        return
    copy, is_writer = own.with_name(f".{own.name}"), not is_seen and is_first_on_machine()
    if is_writer:
        shutil.rmtree(copy, ignore_errors=True)  # what a killed run left
    try:
        with report_write_errors(copy, copy):
            _send_files(folder, copy if is_writer else None)
        wait_for_all()
        yield own if is_seen else copy
        wait_for_all()
    finally:
        if is_writer:
            shutil.rmtree(copy, ignore_errors=True)


def _read(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError:
        return b""


def _send_files(folder: Path, copy: Path | None) -> None:
    """Send the files of the main process's folder to all processes, which write them to `copy`, unless it is None."""
    files = sorted(path for path in folder.rglob("*") if path.is_file()) if rank() == 0 else []
    for name, size in share([(path.relative_to(folder).as_posix(), path.stat().st_size) for path in files]):
        if copy:
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
        source = folder / name if rank() == 0 else Path(os.devnull)
        with source.open("rb") as file, (copy / name if copy else Path(os.devnull)).open("wb") as target:
            for start in range(0, size, CHUNK_BYTES):
                length = min(CHUNK_BYTES, size - start)
                chunk = bytearray(file.read(length) if rank() == 0 else length)
                dist.broadcast(torch.frombuffer(chunk, dtype=torch.uint8), src=0, group=patient_group())
                target.write(chunk)
