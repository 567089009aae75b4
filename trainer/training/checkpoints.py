"""The last and the best checkpoint of a run; each is renamed to its final name after it is complete."""

import json
import shutil
from pathlib import Path

from data_scripts.write.files import report_write_errors
from data_scripts.write.replacement import replace_folder
from trainer.training.context import Progress, RunContext
from trainer.training.run_folder import list_checkpoints
from trainer.training.trainable_model import TrainableModel


def last_checkpoint(folder: Path) -> Path:
    """Return the checkpoint with the highest step in a run's folder."""
    return list_checkpoints(folder)[-1]


def checkpoint_of(folder: Path, step: int | None) -> Path:
    """Return the folder of the checkpoint of a step."""
    return folder / f"checkpoint-{step}"


def recorded_precision(folder: Path) -> str | None:
    """Return the precision of the run in a folder, according to its last checkpoint; None without a checkpoint."""
    if not list_checkpoints(folder):
        return None
    progress = json.loads((last_checkpoint(folder) / "progress.json").read_text(encoding="utf-8"))
    return progress.get("mixed_precision")


def save_checkpoint(context: RunContext, model: TrainableModel, progress: Progress) -> None:
    """Write a checkpoint of the current step, and delete all others but the best. Every process must call this."""
    accelerator, folder = context.accelerator, context.folder
    checkpoint = checkpoint_of(folder, progress.step)
    temporary = folder / f".{checkpoint.name}"
    with report_write_errors(checkpoint, temporary):
        model.save(temporary)
    accelerator.wait_for_everyone()
    if accelerator.is_main_process:
        with report_write_errors(checkpoint, temporary):
            (temporary / "progress.json").write_text(json.dumps(progress.as_dict()), encoding="utf-8")
            place_checkpoint(temporary, checkpoint, best=checkpoint_of(folder, progress.best_step))
    accelerator.wait_for_everyone()


def load_checkpoint(context: RunContext, model: TrainableModel, progress: Progress) -> None:
    """Load weights, optimizers and progress of the last checkpoint. Every process must call this."""
    checkpoint = last_checkpoint(context.folder)
    model.load(checkpoint)
    progress.update(json.loads((checkpoint / "progress.json").read_text(encoding="utf-8")))


def place_checkpoint(written: Path, checkpoint: Path, best: Path) -> None:
    """Rename a complete checkpoint to its final name, and delete all others in its folder except the best."""
    replaced = checkpoint.with_name(f".{checkpoint.name}-replaced")
    replace_folder(written, checkpoint, replaced)
    for old in (written, replaced, *list_checkpoints(checkpoint.parent)):
        if old not in (checkpoint, best):
            shutil.rmtree(old, ignore_errors=True)
