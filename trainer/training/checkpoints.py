"""The checkpoints of a run: complete under their final name, verified before a run is resumed, on every machine."""

import json
import logging
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from data_scripts.files.errors import InputError
from data_scripts.files.folders import CHECKSUMS, find_damage, list_files, replace_folder, write_checksums
from data_scripts.files.json_files import read_object
from data_scripts.files.storage import report_write_errors
from trainer.distributed import gather, rank, share, wait_for_all, world_size
from trainer.training.context import Progress, RunContext
from trainer.training.inputs import find_changes
from trainer.training.metrics_log import MetricsLog
from trainer.training.run_folder import list_checkpoints
from trainer.training.trainable_model import TrainableModel

logger = logging.getLogger(__name__)


def checkpoint_of(folder: Path, step: int | None) -> Path:
    """Return the folder of the checkpoint of a step."""
    return folder / f"checkpoint-{step}"


def recorded_precision(folder: Path) -> str | None:
    """Return the precision of the run in a folder, which is the same in all checkpoints; None without a checkpoint."""
    for checkpoint in reversed(list_checkpoints(folder)):
        if precision := _read_progress(checkpoint).get("mixed_precision"):
            return precision
    return None


def save_checkpoint(context: RunContext, model: TrainableModel, metrics: MetricsLog, progress: Progress) -> None:
    """Write a checkpoint of the current step, and delete those that are not needed. Every process must call this."""
    checkpoint = checkpoint_of(context.folder, progress.step)
    temporary = context.folder / f".{checkpoint.name}"
    wait_for_all()  # the main process may be evaluating
    with report_write_errors(checkpoint, temporary):
        model.save(temporary)
        metrics.save(temporary)
    wait_for_all()
    if context.accelerator.is_main_process:
        with report_write_errors(checkpoint, temporary):
            complete_checkpoint(temporary, progress, is_last=progress.step == context.arguments.max_steps)
    context.interruption.saved = share(checkpoint)


def complete_checkpoint(written: Path, progress: Progress, is_last: bool) -> None:
    """Add progress and checksums to the files of a model, rename their folder, and delete what is not needed.

    The last and the best checkpoint stay. Until the run ends, so do the one before the last, in case the last one gets
    damaged, and the best one at that time.
    """
    folder = written.parent
    (written / "progress.json").write_text(json.dumps(asdict(progress)), encoding="utf-8")
    write_checksums(written, list_files(written), flush=True)
    checkpoint = checkpoint_of(folder, progress.step)
    kept = {checkpoint, checkpoint_of(folder, progress.best_step)}
    earlier = [path for path in list_checkpoints(folder) if int(path.name.split("-")[1]) < progress.step]
    if earlier and not is_last:
        kept |= {earlier[-1], checkpoint_of(folder, _read_progress(earlier[-1]).get("best_step"))}
    replaced = folder / f".{checkpoint.name}-replaced"
    replace_folder(written, checkpoint, replaced)
    for old in {written, replaced, *list_checkpoints(folder)} - kept:
        shutil.rmtree(old, ignore_errors=True)


@contextmanager
def load_checkpoint(context: RunContext, model: TrainableModel, progress: Progress) -> Iterator[Path]:
    """Load weights, optimizers and progress of the newest whole checkpoint. Every process must call this.

    Yields:
        The checkpoint; on a machine that does not see the main process's folder, a copy.

    Raises:
        InputError: no checkpoint is whole, or the data or the precision are not those of the run.
    """
    is_main = context.accelerator.is_main_process
    checkpoint = share(newest_whole_checkpoint(context.folder) if is_main else context.folder)
    recorded = share(_read_progress(checkpoint) if is_main else {})
    if is_main:
        _check_unchanged(context.folder, recorded, progress)
    with on_this_machine(checkpoint, context.folder) as folder:
        model.load(folder)
        vars(progress).update(recorded | {"device": progress.device, "processes": progress.processes})
        yield folder
    context.interruption.saved = checkpoint


def newest_whole_checkpoint(folder: Path) -> Path:
    """Return the newest checkpoint without damage whose best checkpoint has none either; log what is wrong with others.

    Raises:
        InputError: there is none.
    """
    damages = {checkpoint: _find_damage(checkpoint) for checkpoint in list_checkpoints(folder)}
    for checkpoint in reversed(damages):
        damage = damages[checkpoint]
        if damage is None:
            best_step = _read_progress(checkpoint)["best_step"]  # None before the first evaluation
            best = checkpoint_of(folder, best_step)
            if best_step is None or damages.get(best, "it is missing") is None:
                return checkpoint
            damages[checkpoint] = damage = f"its best checkpoint {best.name} cannot be used"
        logger.warning("%s cannot be used: %s", checkpoint, damage)
    reasons = "; ".join(f"{checkpoint.name}: {damage}" for checkpoint, damage in damages.items() if damage)
    raise InputError(f"resume: {folder} has no whole checkpoint ({reasons}): start again with --overwrite true")


def _find_damage(checkpoint: Path) -> str | None:
    return find_damage(checkpoint) if (checkpoint / CHECKSUMS).is_file() else f"{CHECKSUMS} is missing"


def _check_unchanged(folder: Path, recorded: Mapping[str, Any], now: Progress) -> None:
    """Compare the progress that a checkpoint recorded with what the resumed run starts with.

    Another device or another number of processes is logged: both may be necessary, but change the results.

    Raises:
        InputError: the data, the tokenizer or the precision differ.
    """
    if changed := find_changes(recorded["fingerprints"], now.fingerprints):
        raise InputError(
            f"resume: {', '.join(changed)} changed since {folder} was started: restore the data, or start again with "
            "--overwrite true or another --output_dir"
        )
    if recorded["mixed_precision"] != now.mixed_precision:
        raise InputError(
            f"resume: the run computed in mixed_precision {recorded['mixed_precision']}, not {now.mixed_precision}: "
            f"use --mixed_precision {recorded['mixed_precision']}"
        )
    for name in ("device", "processes"):
        before, value = recorded[name], getattr(now, name)
        if before != value:
            logger.warning(
                "the run had %s %s and now has %s: its results will differ from those of an uninterrupted run",
                name, before, value,
            )  # fmt: skip


def _read_progress(checkpoint: Path) -> dict[str, Any]:
    """Return the progress that a checkpoint stores; nothing if it is damaged."""
    with suppress(InputError):
        return read_object(checkpoint / "progress.json")
    return {}


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
