"""The runs of a sweep: the unchanged preset and each varied value alone, or every combination of the values."""

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import yaml

from data_scripts.files.errors import InputError
from trainer.arguments import Arguments
from trainer.command_line import parse_arguments
from trainer.evaluation.results import read_settings
from trainer.training.run_folder import MAY_CHANGE, list_checkpoints

# A sweep evaluates on dev only, and publishes nothing.
FIXED_SETTINGS = {"final_split": "dev", "push_to_hub": "false", "hub_model_id": "none"}
SWEEP_SETTINGS = (*FIXED_SETTINGS, "output_dir", "resume", "overwrite")
MAX_NAME = 100


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

    def check_settings(self) -> None:
        """Check that an existing run in the folder has the same settings as this one.

        Raises:
            InputError: it has other settings.
        """
        config = self.folder / "config.yaml"
        if not (self.can_resume or (self.is_finished and config.is_file())):
            return
        from trainer.training.model import max_tokens  # imports torch, which takes seconds

        # A setting that is newer than the existing run had its default there. The folder may have been moved.
        before = {**asdict(type(self.arguments)()), **read_settings(config)}
        now = {key: value for key, value in asdict(self.arguments).items() if key not in (*MAY_CHANGE, "output_dir")}
        if now["max_tokens"] is None:  # a run records what its encoder reads
            now["max_tokens"] = before["max_tokens"] if self.arguments.initialize_from else max_tokens(self.arguments)
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


def expand_variations(
    preset: str, overrides: Sequence[str], variations: Iterable[str], folder: Path, grid: bool = False
) -> list[PlannedRun]:
    """The runs of a sweep in `folder`: `base` and each value alone, or with `grid` every combination.

    Of runs with the same settings only the first is in the list.

    Args:
        preset: as for trainer/run.py.
        overrides: options of all runs.
        variations: `KEY=V1,V2,…` each.
        folder: the sweep's folder.
        grid: combine the values.

    Raises:
        InputError: the trainer would refuse a setting, or an option is one of `SWEEP_SETTINGS`.
    """
    if refused := [name for name in SWEEP_SETTINGS if any(option.split("=")[0] == f"--{name}" for option in overrides)]:
        raise InputError(f"--{refused[0]}: the sweep sets this option; drop it")
    parse_arguments([preset, *overrides])  # a mistake in these is not one of a variation
    runs: list[PlannedRun] = []
    for varied in _combinations([parse_variation(text) for text in variations], grid):
        name = _name(varied)
        if any(run.name == name for run in runs):  # "a/b" and "a_b" give the same name
            name += f"-{_digest(str(varied))}"
        options = [
            *overrides,
            *format_options({**_settings(varied), **FIXED_SETTINGS, "output_dir": str(folder / name)}),
        ]
        try:
            run = PlannedRun(name, varied, options, parse_arguments([preset, *options]))
        except InputError as error:
            raise InputError("".join(f"--vary {key}={text}: " for key, text in varied.items()) + str(error)) from None
        if all(asdict(run.arguments) | {"output_dir": each.arguments.output_dir} != asdict(each.arguments)
               for each in runs):  # fmt: skip
            runs.append(run)
    return runs


def parse_variation(text: str) -> tuple[str, list[str]]:
    """Split `KEY=V1,V2,…` into the key and the values as typed, at the commas outside brackets and quotes.

    Raises:
        InputError: it has another form, or the sweep sets the key.
    """
    key, _, listed = text.partition("=")
    flow = f"[{listed}]"
    try:  # YAML's parser knows brackets and quotes, and says where in the text each value is
        nodes: Any = yaml.compose(flow)
        values = [flow[node.start_mark.index : node.end_mark.index] for node in nodes.value]
    except yaml.YAMLError:
        raise InputError(f"--vary {text}: brackets or quotes do not match, or a value is empty") from None
    if not key or not values:
        raise InputError(f"--vary {text}: expected KEY=VALUE,VALUE,… with at least one value")
    if key in SWEEP_SETTINGS:
        raise InputError(f"--vary {text}: the sweep sets {key}; vary another option")
    return key, values


def _combinations(variations: Sequence[tuple[str, list[str]]], grid: bool) -> list[dict[str, str]]:
    """The varied keys of each run: key -> value as typed."""
    values: dict[str, list[tuple[str, str]]] = {}
    for key, texts in variations:
        values.setdefault(key, []).extend((key, text) for text in texts)
    if grid:
        return list(map(dict, itertools.product(*values.values())))
    return [{}, *(dict([pair]) for pair in itertools.chain(*values.values()))]


def _settings(varied: Mapping[str, str]) -> dict[str, Any]:
    """The varied values for `format_options`: a list in JSON is several words, `model_config` keeps other entries."""
    settings: dict[str, Any] = {}
    for key, text in varied.items():
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        if key == "model_config" and isinstance(value, dict):
            settings |= {f"{key}.{name}": json.dumps(entry) for name, entry in value.items()}
        else:
            settings[key] = value if isinstance(value, list) and "." not in key else text
    return settings


def _name(varied: Mapping[str, str]) -> str:
    """The varied settings as a file name: `base`, `token_dropout=0.15`, `batch_size=64,seed=1`."""
    parts = [f"{_slug(key.removeprefix('model_config.'))}={_slug(text)}" for key, text in varied.items()]
    name = ",".join(parts) or "base"
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 9]}-{_digest(name)}"


def _slug(text: str) -> str:
    return re.sub(r"[^\w.+-]+", "_", text, flags=re.ASCII).strip("_")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
