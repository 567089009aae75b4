"""The runs of a sweep: the unchanged preset and each varied value alone, or every combination of the values."""

import dataclasses
import hashlib
import itertools
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from data_scripts.files.errors import InputError
from trainer.arguments import Arguments
from trainer.command_line import parse_arguments, suggest_option
from trainer.sweep.planned_runs import PlannedRun, format_options

# A sweep evaluates on dev only, and publishes nothing.
FIXED_SETTINGS = {"final_split": "dev", "push_to_hub": "false", "hub_model_id": "none"}
SWEEP_SETTINGS = (*FIXED_SETTINGS, "output_dir", "resume", "overwrite")
MAX_NAME = 100


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
    if key.split(".")[0] in SWEEP_SETTINGS:
        raise InputError(f"--vary {text}: the sweep sets {key}; vary another option")
    return key, values


def expand_variations(
    preset: str, overrides: Sequence[str], variations: Iterable[tuple[str, list[str]]], folder: Path, grid: bool = False
) -> list[PlannedRun]:
    """The runs of a sweep in `folder`: `base` and each value alone, or with `grid` every combination.

    Of runs with the same settings only the first is in the list. `preset` and `overrides` are those of trainer/run.py.

    Raises:
        InputError: the trainer would refuse a setting, a key is unknown, or an override is one of `SWEEP_SETTINGS`.
    """
    if refused := [name for name in SWEEP_SETTINGS if any(option.split("=")[0] == f"--{name}" for option in overrides)]:
        raise InputError(f"--{refused[0]}: the sweep sets this option; drop it")
    base = parse_arguments([preset, *overrides])
    variations = list(variations)
    for name in (key.split(".")[0] for key, _ in variations):
        if not hasattr(base, name):
            raise InputError(f"--vary {name}: unknown option '{name}'{suggest_option(name, base.model_type)}")
    runs: dict[str, PlannedRun] = {}
    for varied in _combinations(variations, grid):
        name = _name(varied)
        if name in runs:  # "a/b" and "a_b" give the same name
            name += f"-{_digest(str(varied))}"
        run = _plan_run(name, preset, overrides, base, varied, folder)
        if all(
            dataclasses.replace(each.arguments, output_dir=run.arguments.output_dir) != run.arguments
            for each in runs.values()
        ):
            runs[name] = run
    return list(runs.values())


def _combinations(variations: Iterable[tuple[str, list[str]]], grid: bool) -> list[dict[str, str]]:
    """The varied keys of each run: key -> value as typed."""
    values: dict[str, list[tuple[str, str]]] = {}
    for key, texts in variations:
        values.setdefault(key, []).extend((key, text) for text in texts)
    if grid:
        return list(map(dict, itertools.product(*values.values())))
    return [{}, *(dict([pair]) for pair in itertools.chain(*values.values()))]


def _plan_run(
    name: str, preset: str, overrides: Sequence[str], base: Arguments, varied: dict[str, str], folder: Path
) -> PlannedRun:
    try:
        settings = _varied_settings(base, varied) | FIXED_SETTINGS | {"output_dir": str(folder / name)}
        options = [*overrides, *format_options(settings)]
        return PlannedRun(name, varied, options, parse_arguments([preset, *options]))
    except InputError as error:
        raise InputError("".join(f"--vary {key}={text}: " for key, text in varied.items()) + str(error)) from None


def _varied_settings(base: Arguments, varied: Mapping[str, str]) -> dict[str, Any]:
    """The varied values as values for `Arguments`; a mapping keeps its other entries, which it has in `base`."""
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
            value = _with_entry(before, path, value)
        elif name == "model_config" and isinstance(value, dict):
            value = {**base.model_config, **value}
        elif not isinstance(value, (str, list, dict)):
            value = text  # a number, true or null: `parse_arguments` reads them, with messages of its own
        settings[name] = value
    return settings


def _with_entry(mapping: Any, path: Sequence[str], value: Any) -> dict[str, Any]:
    """A copy of a mapping with this value at the end of `path`."""
    key, *rest = path
    mapping = mapping if isinstance(mapping, dict) else {}
    return {**mapping, key: _with_entry(mapping.get(key), rest, value) if rest else value}


def _name(varied: Mapping[str, str]) -> str:
    """The varied settings as a file name: `base`, `token_dropout=0.15`, `batch_size=64,seed=1`."""
    parts = [f"{_slug(key.removeprefix('model_config.'))}={_slug(text)}" for key, text in varied.items()]
    name = ",".join(parts) or "base"
    return name if len(name) <= MAX_NAME else f"{name[: MAX_NAME - 9]}-{_digest(name)}"


def _slug(text: str) -> str:
    return re.sub(r"[^\w.+-]+", "_", text, flags=re.ASCII).strip("_")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]
