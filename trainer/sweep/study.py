"""The runs of a study: planned from what is varied, with their settings checked and their place on disk."""

import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from data_scripts.errors import InputError
from trainer.arguments import Arguments
from trainer.command_line import parse_arguments
from trainer.training.run_folder import MAY_CHANGE

# A study never looks at test data, and publishes nothing.
FIXED = {"final_split": "dev", "push_to_hub": "false"}
OWN = (*FIXED, "output_dir", "resume", "overwrite")


@dataclass(frozen=True, eq=False)
class Run:
    """One run of a study: its name, what is varied (key -> value as typed), its command line and its settings."""

    name: str
    varied: dict[str, str]
    options: list[str]
    arguments: Arguments

    @property
    def folder(self) -> Path:
        """Where the trainer leaves it."""
        return Path(self.arguments.output_dir)

    @property
    def log(self) -> Path:
        """What the trainer printed."""
        return self.folder.with_name(f"{self.name}.log")

    @property
    def is_finished(self) -> bool:
        """Whether it has results, and its model or the scores that are made of it."""
        made = (self.folder / "model" / "config.json", self.folder / "dev_scores.npz")
        return (self.folder / "results.json").is_file() and any(path.is_file() for path in made)

    @property
    def can_resume(self) -> bool:
        """Whether it has a checkpoint to go on from."""
        return (self.folder / "config.yaml").is_file() and any(self.folder.glob("checkpoint-*"))


def parse_variation(text: str) -> tuple[str, list[str]]:
    """Key and values, as typed, of `KEY=V1,V2,…`; commas inside brackets and quotes do not separate.

    Raises:
        InputError: it has another form, or the key is the sweep's own.
    """
    key, _, listed = text.partition("=")
    flow = f"[{listed}]"
    try:  # YAML's reader knows brackets and quotes, and tells where in the text a value stood
        nodes: Any = yaml.compose(flow)
        values = [flow[node.start_mark.index : node.end_mark.index] for node in nodes.value]
    except yaml.YAMLError:
        raise InputError(f"--vary {text}: brackets or quotes do not match, or a value is empty") from None
    if not key or not values:
        raise InputError(f"--vary {text}: expected KEY=VALUE,VALUE,… with one value or more")
    if key.split(".")[0] in OWN:
        raise InputError(f"--vary {text}: the sweep sets {key} itself")
    return key, values


def plan(
    preset: str, overrides: Sequence[str], variations: Iterable[tuple[str, list[str]]], folder: Path, grid: bool = False
) -> list[Run]:
    """The runs of a study in `folder`: `base` and each value alone, or with `grid` every combination.

    `preset` and `overrides`, which are for all runs, are as for trainer/run.py; of runs that are the same the first is
    kept.

    Raises:
        InputError: for settings that the trainer would refuse, or that the sweep sets itself.
    """
    if taken := [name for name in OWN if any(option.split("=")[0] == f"--{name}" for option in overrides)]:
        raise InputError(f"--{taken[0]}: the sweep sets this itself; drop it")
    base = parse_arguments([preset, *overrides])
    values: dict[str, list[tuple[str, str]]] = {}
    for key, texts in variations:
        values.setdefault(key, []).extend((key, text) for text in texts)
    alone = [(), *((pair,) for pair in itertools.chain(*values.values()))]
    runs: dict[str, Run] = {}
    for varied in map(dict, itertools.product(*values.values()) if grid else alone):
        name = _name(varied)
        if name in runs:  # "a/b" and "a_b" are written alike
            name += f"-{_digest(str(varied))}"
        try:
            options = [*overrides, *as_options(_settings(base, varied) | FIXED | {"output_dir": str(folder / name)})]
            arguments = parse_arguments([preset, *options])
        except InputError as error:
            raise InputError("".join(f"--vary {key}={text}: " for key, text in varied.items()) + str(error)) from None
        if all(replace(run.arguments, output_dir=arguments.output_dir) != arguments for run in runs.values()):
            runs[name] = Run(name, varied, options, arguments)
    return list(runs.values())


def _settings(base: Arguments, varied: Mapping[str, str]) -> dict[str, Any]:
    """What is varied as values for `Arguments`; a mapping is whole, with what `base` has in it."""
    settings: dict[str, Any] = {}
    for key, text in varied.items():
        name, *path = key.split(".")
        before = settings.get(name, getattr(base, name, None))
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        if path and not isinstance(before, dict):
            raise InputError(f"{name} is not a mapping of the settings, so it has no '{'.'.join(path)}'")
        if path:
            value = _with(before, path, value)
        elif name == "model_config" and isinstance(value, dict):
            value = {**base.model_config, **value}
        elif not isinstance(value, (str, list, dict)):
            value = text  # a number, true or null: `parse_arguments` reads them, with messages of its own
        settings[name] = value
    return settings


def _with(mapping: Any, path: Sequence[str], value: Any) -> dict[str, Any]:
    """A copy of a mapping with this value at the end of `path`."""
    key, *rest = path
    mapping = mapping if isinstance(mapping, dict) else {}
    return {**mapping, key: _with(mapping.get(key), rest, value) if rest else value}


def as_options(settings: Mapping[str, Any]) -> list[str]:
    """Settings in the form of the command line."""
    options: list[str] = []
    for name, value in settings.items():
        items = value if isinstance(value, list) else [json.dumps(value) if isinstance(value, dict) else value]
        options += [f"--{name}", *map(str, items)]
    return options


def _name(varied: Mapping[str, str]) -> str:
    """What differs, as a file name: `base`, `token_dropout=0.15`, `batch_size=64,seed=1`."""
    parts = [f"{_safe(key.removeprefix('model_config.'))}={_safe(text)}" for key, text in varied.items()]
    name = ",".join(parts) or "base"
    return name if len(name) <= 150 else f"{name[:140]}-{_digest(name)}"


def _safe(text: str) -> str:
    slug = re.sub(r"[^\w.+-]+", "_", text, flags=re.ASCII).strip("_")
    return slug if 0 < len(slug) <= 32 else f"{slug[:16]}-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def check_agreement(run: Run) -> None:
    """Check that what the run's folder holds, if it is to be kept, was made with the run's settings.

    Raises:
        InputError: it was made with others.
    """
    config = run.folder / "config.yaml"
    if not (run.can_resume or (run.is_finished and config.is_file())):
        return
    # A setting that is newer than the run had its default; the folder may have been copied from another machine.
    before = {**asdict(Arguments()), **(yaml.safe_load(config.read_text(encoding="utf-8")) or {})}
    now = {key: value for key, value in asdict(run.arguments).items() if key not in (*MAY_CHANGE, "output_dir")}
    if changed := [f"{key} was {before[key]}, is {value}" for key, value in now.items() if before[key] != value]:
        raise InputError(
            f"{run.folder} holds a run with other settings ({'; '.join(changed)}): delete it, or name another with -o"
        )
