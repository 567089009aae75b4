"""The folder of a run: created, or checked before the run is resumed or overwritten."""

import shutil
from dataclasses import asdict
from pathlib import Path

import yaml

from data_scripts.errors import InputError
from trainer.arguments import Arguments

# Options that a resumed run may change, because they do not affect training.
MAY_CHANGE = {
    "license",
    "language",
    "resume",
    "overwrite",
    "trackers",
    "log_every",
    "push_to_hub",
    "hub_model_id",
    "cache_dir",
}


def prepare_folder(folder: Path, arguments: Arguments) -> None:
    """Create the folder with its `config.yaml`, or check that its run can be resumed; an overwritten run is deleted.

    Raises:
        InputError: the folder has no run to resume, or a run that may not be overwritten.
    """
    if arguments.resume:
        _check_resumable(folder, arguments)
        return
    if folder.is_dir() and any(folder.iterdir()):
        _delete_earlier_run(folder, arguments.overwrite)
    folder.mkdir(parents=True, exist_ok=True)
    settings = {key: value for key, value in asdict(arguments).items() if key not in ("resume", "overwrite")}
    _config(folder).write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), encoding="utf-8")


def _check_resumable(folder: Path, arguments: Arguments) -> None:
    if not (_config(folder).is_file() and any(folder.glob("checkpoint-*"))):
        raise InputError(f"resume: {folder} has no config.yaml with a checkpoint-N; start the run without --resume")
    # A config.yaml that is older than an option lacks it: the run used the default.
    before = asdict(type(arguments)()) | yaml.safe_load(_config(folder).read_text(encoding="utf-8"))
    now = asdict(arguments)
    changed = [key for key in now if key not in MAY_CHANGE and before[key] != now[key]]
    if changed:
        differences = "; ".join(f"{key} was {before[key]}, is {now[key]}" for key in changed)
        raise InputError(f"resume: settings differ from those of the interrupted run ({differences}): use the same")


def _delete_earlier_run(folder: Path, overwrite: bool) -> None:
    is_run = _config(folder).is_file()
    # A run that failed before its first checkpoint has no results.
    is_unfinished = is_run and not any(folder.glob("checkpoint-*"))
    if not overwrite and not is_unfinished:
        raise InputError(
            f"output_dir {folder} is not empty: resume the run with --resume true, delete and replace it with "
            "--overwrite true, or name another folder with --output_dir"
        )
    if not is_run:
        raise InputError(f"overwrite: {folder} is not the folder of a run (no config.yaml); delete it yourself")
    shutil.rmtree(folder)


def _config(folder: Path) -> Path:
    return folder / "config.yaml"
