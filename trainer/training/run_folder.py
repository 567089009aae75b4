"""A run's folder: made, or checked to be one to continue or to overwrite; its checkpoints and its log of metrics."""

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

import yaml

from data_scripts.errors import InputError
from trainer.arguments import Arguments

# Options that may differ between a run and its continuation: they change nothing of what is learned.
MAY_CHANGE = {
    "license",
    "language",
    "resume",
    "overwrite",
    "trackers",
    "log_every",
    "push_to_hub",
    "hub_model_id",
    "hub_private",
    "cache_dir",
}


def prepare_folder(folder: Path, arguments: Arguments) -> None:
    """Make the folder and its `config.yaml`, or check that it is one to continue or to overwrite.

    Raises:
        InputError: the folder does not fit what the arguments ask for.
    """
    config = folder / "config.yaml"
    occupied = folder.is_dir() and any(folder.iterdir())
    if arguments.resume:
        if not (config.is_file() and any(folder.glob("checkpoint-*"))):
            raise InputError(f"resume: no config.yaml and checkpoint-N in {folder}; start the run without --resume")
        # What the run began with knew fewer options, perhaps: those had their defaults.
        before = asdict(Arguments()) | yaml.safe_load(config.read_text(encoding="utf-8"))
        now = asdict(arguments)
        changed = [key for key in now if key not in MAY_CHANGE and before[key] != now[key]]
        if changed:
            listed = "; ".join(f"{key} was {before[key]}, is {now[key]}" for key in changed)
            raise InputError(f"resume: settings differ from those the run began with ({listed}): give the same ones")
        return
    # A run that stopped before its first checkpoint left nothing that anyone would miss.
    began = config.is_file() and not any(folder.glob("checkpoint-*"))
    if occupied and (arguments.overwrite or began):
        if not config.is_file():
            raise InputError(
                f"overwrite: {folder} does not look like a run's folder (no config.yaml); delete it yourself"
            )
        shutil.rmtree(folder)
    elif occupied:
        raise InputError(
            f"output_dir {folder} is not empty: continue with --resume true, start anew with --overwrite true, "
            "or name another with --output_dir"
        )
    folder.mkdir(parents=True, exist_ok=True)
    settings = {key: value for key, value in asdict(arguments).items() if key not in ("resume", "overwrite")}
    config.write_text(yaml.safe_dump(settings, sort_keys=False, allow_unicode=True), encoding="utf-8")


def last_checkpoint(folder: Path) -> Path:
    """The checkpoint of the highest step in a run's folder."""
    return max(folder.glob("checkpoint-*"), key=lambda path: int(path.name.split("-")[1]))


def recorded_precision(folder: Path) -> str | None:
    """The precision that the run in a folder computes in, by its last checkpoint; None where there is none."""
    if not any(folder.glob("checkpoint-*")):
        return None
    progress = json.loads((last_checkpoint(folder) / "progress.json").read_text(encoding="utf-8"))
    return progress.get("mixed_precision")


def place_checkpoint(written: Path, checkpoint: Path, best: Path) -> None:
    """Give a checkpoint that is whole its name, and remove all others of its folder but the best."""
    shutil.rmtree(checkpoint, ignore_errors=True)
    os.replace(written, checkpoint)
    for older in checkpoint.parent.glob("checkpoint-*"):
        if older not in (checkpoint, best):
            shutil.rmtree(older)


def drop_metrics_after(folder: Path, step: int) -> None:
    """Take what was logged after a step out of metrics.jsonl."""
    metrics = folder / "metrics.jsonl"
    rows = [line for line in metrics.read_text(encoding="utf-8").splitlines() if json.loads(line)["step"] <= step]
    metrics.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
