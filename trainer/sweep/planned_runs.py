"""A planned run of the trainer: its settings, its options, and the state of its folder."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from data_scripts.files.errors import InputError
from data_scripts.files.folders import has_record
from trainer.arguments import Arguments
from trainer.evaluation.run_files import read_settings
from trainer.training.run_folder import KIND, MAY_CHANGE, list_checkpoints


@dataclass(frozen=True, eq=False)
class PlannedRun:
    """A run of a sweep or of a report.

    Attributes:
        name: the name of its folder.
        varied: the settings in which it differs from the sweep's preset: key -> value as typed.
        options: its command line after the preset.
        arguments: all its settings.
    """

    name: str
    varied: dict[str, str]
    options: list[str]
    arguments: Arguments

    @property
    def folder(self) -> Path:
        """The run's folder."""
        return Path(self.arguments.output_dir)

    @property
    def log(self) -> Path:
        """The file that holds what the trainer printed."""
        return self.folder.with_name(f"{self.name}.log")

    @property
    def is_finished(self) -> bool:
        """Whether it has results, and either its model or the dev scores computed with it."""
        outputs = (self.folder / "model" / "config.json", self.folder / "dev_scores.npz")
        return (self.folder / "results.json").is_file() and any(path.is_file() for path in outputs)

    @property
    def can_resume(self) -> bool:
        """Whether it has a checkpoint."""
        return (self.folder / "config.yaml").is_file() and bool(list_checkpoints(self.folder))

    def command(self, trainer: Path, preset: str) -> list[str]:
        """Python's arguments that resume the run from its checkpoint, or start it over where there is none."""
        how = {"resume": str(self.can_resume).lower(), "overwrite": str(not self.can_resume).lower()}
        return [str(trainer), preset, *self.options, *format_options(how)]

    def remove_earlier_log(self) -> None:
        """Delete the log of a run that starts over; without that run, the file is the user's, and stays."""
        if not self.can_resume and has_record(self.folder, KIND):
            self.log.unlink(missing_ok=True)

    def check_settings(self) -> None:
        """Check that an existing run in the folder has the same settings as this one.

        Raises:
            InputError: it has other settings.
        """
        config = self.folder / "config.yaml"
        if not (self.can_resume or (self.is_finished and config.is_file())):
            return
        # A setting that is newer than the existing run had its default there. The folder may have been moved.
        before = {**asdict(Arguments()), **read_settings(config)}
        now = {key: value for key, value in asdict(self.arguments).items() if key not in (*MAY_CHANGE, "output_dir")}
        if changed := describe_changes(before, now):
            raise InputError(
                f"{self.folder} holds a run with other settings ({changed}): delete it, or name another folder with -o"
            )


def describe_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """The settings of `now` that differ, as "batch_size was 64, is 128; seed was 0, is 1"; "" without a difference."""
    return "; ".join(f"{key} was {before[key]}, is {value}" for key, value in now.items() if before[key] != value)


def format_options(settings: Mapping[str, Any]) -> list[str]:
    """Settings as command-line options of the trainer."""
    options: list[str] = []
    for name, value in settings.items():
        items = value if isinstance(value, list) else [json.dumps(value) if isinstance(value, dict) else value]
        options += [f"--{name}", *map(str, items)]
    return options
