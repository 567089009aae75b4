"""The checkpoints of a run, which store its progress; a checkpoint gets its final name once it is complete."""

import json
import shutil
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from accelerate import Accelerator

from modeling_convsim.files.errors import InputError
from modeling_convsim.files.folders import replace_folder
from modeling_convsim.files.json_files import read_object
from modeling_convsim.files.storage import new_file, report_write_errors
from trainer.processes import wait_for_all
from trainer.runs import METRICS, Run, RunContext
from trainer.training.inputs import find_changes
from trainer.training.trainable_model import TrainableModel

PROGRESS = "progress.json"


@dataclass
class Progress:
    """The progress of a run; each checkpoint stores it as `progress.json`."""

    step: int = 0
    """Number of steps taken."""
    pairs: int = 0
    """Number of pairs trained on, over all processes."""
    seconds: float = 0.0
    """Seconds spent in the training loop, including dev evaluations."""
    best: float | None = None
    """Highest dev score so far, and the step that reached it; both on the main process only."""
    best_step: int | None = None
    threads: int | None = None
    """Number of threads that training uses; None on a GPU."""
    mixed_precision: str | None = None
    """Precision of the computations; never `auto`."""
    fingerprints: dict[str, str] = field(default_factory=dict)
    """Fingerprints of the datasets and the tokenizer, on the main process only."""

    @classmethod
    def at_start(cls, accelerator: Accelerator, fingerprints: Mapping[str, str] | None = None) -> "Progress":
        """Return the progress of a run that has not taken a step."""
        return cls(
            mixed_precision=accelerator.mixed_precision,
            threads=torch.get_num_threads() if accelerator.device.type == "cpu" else None,
            fingerprints=dict(fingerprints or {}),
        )


def recorded_precision(folder: Path) -> str | None:
    """Return the precision of the run in a folder, which is the same in all checkpoints; None without a checkpoint."""
    checkpoints = Run(folder).checkpoints
    return read_object(checkpoints[-1] / PROGRESS)["mixed_precision"] if checkpoints else None


def save_checkpoint(context: RunContext, model: TrainableModel, progress: Progress) -> None:
    """Write a checkpoint of the current step, and delete those that are not needed. Every process must call this."""
    checkpoint = Run(context.folder).checkpoint(progress.step)
    temporary = context.folder / f".{checkpoint.name}"
    wait_for_all()  # the main process may be evaluating
    with report_write_errors(checkpoint, temporary):
        model.save(temporary)
    wait_for_all()
    if context.accelerator.is_main_process:
        with report_write_errors(checkpoint, temporary):
            log = context.folder / METRICS
            log.touch()  # before the first row
            shutil.copyfile(log, temporary / METRICS)
            complete_checkpoint(temporary, progress)


def complete_checkpoint(written: Path, progress: Progress) -> None:
    """Add progress to the files of a model, rename their folder, and delete what is not needed.

    The last and the best checkpoint are kept.
    """
    run = Run(written.parent)
    (written / PROGRESS).write_text(json.dumps(asdict(progress)), encoding="utf-8")
    checkpoint = run.checkpoint(progress.step)
    replaced = run.folder / f".{checkpoint.name}-replaced"
    replace_folder(written, checkpoint, replaced)
    kept = {checkpoint, run.checkpoint(progress.best_step)}
    for old in {written, replaced, *run.checkpoints} - kept:
        shutil.rmtree(old, ignore_errors=True)


def load_checkpoint(context: RunContext, model: TrainableModel, progress: Progress) -> None:
    """Load weights, optimizers, progress and log of the last checkpoint. Every process must call this.

    Raises:
        InputError: the data, the tokenizer or the precision are not those of the run.
    """
    checkpoint = Run(context.folder).checkpoints[-1]
    recorded = read_object(checkpoint / PROGRESS)
    if context.accelerator.is_main_process:
        if changed := find_changes(recorded["fingerprints"], progress.fingerprints):
            raise InputError(
                f"resume: {', '.join(changed)} changed since the run in {context.folder} was started: restore the "
                "data, or start again with --overwrite true or another --output_dir"
            )
        if (precision := recorded["mixed_precision"]) != progress.mixed_precision:
            raise InputError(
                f"resume: the run used mixed_precision {precision}, not {progress.mixed_precision}: use "
                f"--mixed_precision {precision}"
            )
        with new_file(context.folder / METRICS) as new:
            shutil.copyfile(checkpoint / METRICS, new)
    wait_for_all()
    model.load(checkpoint)
    vars(progress).update(recorded)
