"""A run's folder: its settings, results and checkpoints; starting, resuming and replacing a run."""

import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from transformers import PreTrainedTokenizerFast

from data_scripts.presets import YAML_ERRORS
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.folders import RECORD, has_record, write_record
from modeling_convsim.files.json_files import read_object
from modeling_convsim.files.storage import (
    LOCK,
    locked,
    make_folder,
    remove_temporary_files,
    report_write_errors,
    write_text,
)
from trainer.settings import Settings

if TYPE_CHECKING:
    from accelerate import Accelerator

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
KIND = "run"
CONFIG, RESULTS, METRICS = "config.yaml", "results.json", "metrics.jsonl"
CARD = "README.md"
RESUME_OR_REPLACE = "resume the run with --resume true, delete and replace it with --overwrite true"
# What a run writes; nothing else in its folder is ever deleted. The record is last: it proves that the rest is ours.
RUN_ENTRIES = re.compile(
    r"results\.json|metrics\.jsonl|model|\.?checkpoint-\d+(-replaced)?|\.?tokenizer|tensorboard|config\.yaml"
)


@dataclass(frozen=True)
class RunContext:
    """The constant context of a run."""

    settings: Settings
    accelerator: "Accelerator"
    folder: Path
    started: float = field(default_factory=time.monotonic)
    """`time.monotonic()` at the start of this process's part of the run."""


class Run:
    """The folder of a run.

    Attributes:
        folder: the folder.
        model: the folder of its model, which `convsim publish` uploads.
        tokenizer: the folder of its tokenizer, if the run trained one.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.model, self.tokenizer = folder / "model", folder / "tokenizer"

    @property
    def settings(self) -> dict[str, Any]:
        """The settings in config.yaml.

        Raises:
            InputError: the file is missing or damaged, or is not a mapping of settings.
        """
        path = self.folder / CONFIG
        try:
            settings = yaml.safe_load(path.read_text(encoding="utf-8"))
        except (OSError, *YAML_ERRORS) as error:
            raise InputError(f"{path}: not readable as YAML ({error}); restore it") from error
        if not isinstance(settings, dict) or not isinstance(settings.get("tasks") or {}, dict):
            raise InputError(f"{path}: expected the settings of a run, with a mapping of tasks; restore the file")
        return settings

    @property
    def results(self) -> dict[str, Any]:
        """The contents of results.json.

        Raises:
            InputError: the file is missing or damaged, or a part has another form than an evaluation writes.
        """
        path = self.folder / RESULTS
        results = read_object(path)
        if damaged := [name for name, part in results.items() if not isinstance(part, (Mapping, list))]:
            raise InputError(
                f"{path}: {damaged[0]} is not in the format that the trainer writes; restore the file, or evaluate "
                f"the model again with: convsim evaluate {self.model} --output FILE"
            )
        return results

    @property
    def checkpoints(self) -> list[Path]:
        """The checkpoints, in the order of their steps."""
        paths = (path for path in self.folder.glob("checkpoint-*") if RUN_ENTRIES.fullmatch(path.name))
        return sorted((path for path in paths if path.is_dir()), key=lambda path: int(path.name.split("-")[1]))

    def checkpoint(self, step: int | None) -> Path:
        """Return the folder of the checkpoint of a step."""
        return self.folder / f"checkpoint-{step}"

    @property
    def is_finished(self) -> bool:
        """Whether the run has ended, and has a model."""
        return self._missing() is None

    def check_finished(self) -> None:
        """Check that the run has ended.

        Raises:
            InputError: a file of a finished run is missing.
        """
        if missing := self._missing():
            raise InputError(f"{self.folder} is not the folder of a finished run: {missing} is missing")

    def _missing(self) -> str | None:
        return next((name for name in (CONFIG, RESULTS, "model") if not (self.folder / name).exists()), None)

    @contextmanager
    def opened(self, settings: Settings) -> Iterator[None]:
        """Check that the folder is new, or can be resumed or overwritten, and lock it; nothing is deleted yet.

        Raises:
            InputError: the folder does not fit the settings, or another run is writing to it.
        """
        self._check(settings)
        is_new = not self.folder.exists()
        make_folder(self.folder)
        try:
            with locked(self.folder, self.folder / LOCK):
                self._check(settings)
                remove_temporary_files(self.folder)
                for path in self.folder.glob(".checkpoint-*"):  # which a killed run was writing
                    if RUN_ENTRIES.fullmatch(path.name):
                        shutil.rmtree(path)
                yield
        finally:
            if is_new:
                with suppress(OSError):  # only if it is empty: the run has failed before it wrote anything
                    self.folder.rmdir()

    def begin(self, settings: Settings, tokenizer: PreTrainedTokenizerFast | None = None) -> None:
        """Delete the files of an earlier run (but no other files), and write `config.yaml` and a new tokenizer.

        Call it in `opened`, after data and settings were checked.

        Raises:
            InputError: the folder has changed and does not fit the settings, or cannot be written.
        """
        self._check(settings)  # it may have changed meanwhile
        self.delete()
        with report_write_errors(self.folder, self.folder):
            write_record(self.folder, KIND)
        written = {key: value for key, value in asdict(settings).items() if key not in ("resume", "overwrite")}
        write_text(self.folder / CONFIG, yaml.safe_dump(written, sort_keys=False, allow_unicode=True))
        if tokenizer:
            with report_write_errors(self.tokenizer, self.tokenizer):
                tokenizer.save_pretrained(self.tokenizer)

    def _check(self, settings: Settings) -> None:
        folder = self.folder
        if not settings.resume:
            self.check_replaceable(settings.overwrite)
            return
        if not ((folder / CONFIG).is_file() and self.checkpoints):
            raise InputError(f"resume: {folder} has no config.yaml with a checkpoint-N; start the run without --resume")
        # A config.yaml that is older than an option lacks it: the run used the default.
        before, now = asdict(type(settings)()) | self.settings, asdict(settings)
        changed = [key for key in now if key not in MAY_CHANGE and before[key] != now[key]]
        if changed:
            differences = "; ".join(f"{key} was {before[key]}, is {now[key]}" for key in changed)
            raise InputError(f"resume: settings differ from those of the interrupted run ({differences}): use the same")

    def check_replaceable(self, overwrite: bool, option: str = "output_dir", remedy: str = RESUME_OR_REPLACE) -> None:
        """Check that the folder is new or empty, or has a run without results, or, with `overwrite`, any run.

        Args:
            overwrite: whether the files of an earlier run may be deleted.
            option: the option that names the folder, for the messages.
            remedy: what to do about an earlier run, for the messages.

        Raises:
            InputError: the folder contains something else.
        """
        folder = self.folder
        if not folder.is_dir() or all(path.name == LOCK for path in folder.iterdir()):
            return
        # A run that failed before its first checkpoint has nothing worth keeping.
        is_unfinished = has_record(folder, KIND) and not (
            self.checkpoints or self.model.exists() or (folder / RESULTS).exists()
        )
        if not overwrite and not is_unfinished:
            raise InputError(f"{option} {folder} is not empty: {remedy}, or name another folder with --{option}")
        if not has_record(folder, KIND):
            raise InputError(
                f"overwrite: {folder} does not look like a run's folder (no {RECORD} of a run); name another folder "
                f"with --{option}, or delete this one yourself"
            )

    def delete(self) -> None:
        """Delete the files of an earlier run, if the folder has the record of a run."""
        if not has_record(self.folder, KIND):
            return
        for path in self.folder.iterdir():
            if not RUN_ENTRIES.fullmatch(path.name):
                continue
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
