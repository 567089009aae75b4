"""A run's folder: check that it can be used, lock it, and replace an earlier run by the new one."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from data_scripts.files.errors import InputError
from data_scripts.files.folders import RECORD, has_record, write_checksums, write_record
from data_scripts.files.storage import (
    LOCK,
    lock_inside,
    locked,
    make_folder,
    remove_temporary_files,
    report_write_errors,
    write_text,
)
from trainer.arguments import HUB_OPTIONS, Arguments
from trainer.evaluation.results import read_settings
from trainer.publish.model_files import find_other_files, record_model_files

if TYPE_CHECKING:  # --help of a sweep does not wait for it
    from transformers import PreTrainedTokenizerFast

# Options that a resumed run may change, because they do not affect training.
MAY_CHANGE = {
    "license",
    "language",
    "resume",
    "overwrite",
    "trackers",
    "log_every",
    "push_to_hub",
    *HUB_OPTIONS,
    "cache_dir",
}
KIND = "run"
CONFIG = "config.yaml"
TOKENIZER = "tokenizer"
# What a run writes; nothing else in its folder is ever deleted. The record is last: it proves that the rest is ours.
RUN_ENTRIES = re.compile(
    r"results\.json|SHA256SUMS|dev_scores\.npz|metrics\.jsonl|model|\.?checkpoint-\d+(-replaced)?|\.?tokenizer|tensorboard|config\.yaml"
)


@contextmanager
def open_folder(folder: Path, arguments: Arguments) -> Iterator[None]:
    """Check that the folder is a new one, one to resume or one to overwrite, and lock it; nothing is deleted yet.

    Raises:
        InputError: the folder does not fit what the arguments ask for, or another run writes to it.
    """
    _check_folder(folder, arguments)
    is_new = not folder.exists()
    make_folder(folder)
    try:
        with locked(folder, lock_inside(folder)):
            _check_folder(folder, arguments)
            _remove_unfinished(folder)
            yield
    finally:
        if is_new:
            with suppress(OSError):  # only if it is empty: the run has failed before it wrote anything
                folder.rmdir()


def begin_run(folder: Path, arguments: Arguments, tokenizer: PreTrainedTokenizerFast | None = None) -> None:
    """Delete what an earlier run left in the folder, write `config.yaml` and a new tokenizer; what no run wrote stays.

    Call it in `open_folder`, when data and settings are known to be right.

    Raises:
        InputError: the folder has changed and does not fit any more, or cannot be written.
    """
    _check_folder(folder, arguments)  # it may have changed meanwhile
    _delete_earlier_run(folder)
    with report_write_errors(folder, folder):
        write_record(folder, KIND)
    settings = {key: value for key, value in asdict(arguments).items() if key not in ("resume", "overwrite")}
    write_text(folder / CONFIG, yaml.safe_dump(settings, sort_keys=False, allow_unicode=True))
    write_checksums(folder, [CONFIG])
    if tokenizer:
        with report_write_errors(folder / TOKENIZER, folder / TOKENIZER):
            tokenizer.save_pretrained(folder / TOKENIZER)
            record_model_files(folder / TOKENIZER)


def list_checkpoints(folder: Path) -> list[Path]:
    """The checkpoints in a run's folder, the last one last."""
    paths = (path for path in folder.glob("checkpoint-*") if RUN_ENTRIES.fullmatch(path.name) and path.is_dir())
    return sorted(paths, key=lambda path: int(path.name.split("-")[1]))


def _check_folder(folder: Path, arguments: Arguments) -> None:
    if arguments.resume:
        _check_resumable(folder, arguments)
    elif folder.is_dir() and any(path.name != LOCK for path in folder.iterdir()):
        _check_replaceable(folder, arguments.overwrite)


def _check_resumable(folder: Path, arguments: Arguments) -> None:
    if not ((folder / CONFIG).is_file() and list_checkpoints(folder)):
        raise InputError(f"resume: {folder} has no config.yaml with a checkpoint-N; start the run without --resume")
    # A config.yaml that is older than an option lacks it: the run used the default.
    before = asdict(type(arguments)()) | read_settings(folder / CONFIG)
    now = asdict(arguments)
    changed = [key for key in now if key not in MAY_CHANGE and before[key] != now[key]]
    if changed:
        differences = "; ".join(f"{key} was {before[key]}, is {now[key]}" for key in changed)
        raise InputError(f"resume: settings differ from those of the interrupted run ({differences}): use the same")


def _check_replaceable(folder: Path, overwrite: bool) -> None:
    # A run that failed before its first checkpoint holds nothing worth keeping.
    kept = [*list_checkpoints(folder), *(name for name in ("model", "results.json") if (folder / name).exists())]
    is_unfinished = has_record(folder, KIND) and not kept
    if not overwrite and not is_unfinished:
        raise InputError(
            f"output_dir {folder} is not empty: resume the run with --resume true, delete and replace it with "
            "--overwrite true, or name another folder with --output_dir"
        )
    if not has_record(folder, KIND):
        raise InputError(
            f"overwrite: {folder} does not look like a run's folder (no {RECORD} of a run); name another folder with "
            "--output_dir, or delete this one yourself"
        )
    for name in ("model", TOKENIZER):
        if others := find_other_files(folder / name):
            raise InputError(
                f"overwrite: {folder / name / others[0]} is not a file that a run writes, and would be deleted with "
                f"{name}/; move it away"
            )


def _remove_unfinished(folder: Path) -> None:
    """Remove what a killed run was writing."""
    remove_temporary_files(folder)
    for path in folder.glob(".checkpoint-*"):
        if RUN_ENTRIES.fullmatch(path.name):
            shutil.rmtree(path)


def remove_earlier_run(folder: Path) -> None:
    """Delete what an earlier run wrote to a folder that has the record of one.

    Raises:
        InputError: something else would be deleted with it.
    """
    _check_replaceable(folder, overwrite=True)
    _delete_earlier_run(folder)


def _delete_earlier_run(folder: Path) -> None:
    if not has_record(folder, KIND):
        return
    for path in folder.iterdir():
        if not RUN_ENTRIES.fullmatch(path.name):
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
