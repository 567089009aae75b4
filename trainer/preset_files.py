"""Preset files: their list, their options, and the extensions that they name."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import yaml

from data_scripts.command_line import suggest
from data_scripts.errors import InputError

PRESETS = Path(__file__).parent / "presets"
# PyYAML raises its own errors for the syntax and others for values, such as ValueError for the date 2020-99-99.
YAML_ERRORS = (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError)


def list_presets() -> str:
    """Return a table of the presets with their descriptions, and how to run one."""
    files = sorted(PRESETS.glob("*.yaml"))
    width = max(len(file.stem) for file in files)
    rows = [f"  {file.stem:{width}}  {_description(file)}" for file in files]
    example = Path("trainer", "presets", "quickstart.yaml")
    return "\n".join(
        [
            "presets (trainer/presets/NAME.yaml):",
            *rows,
            "",
            f"Run one with `python trainer/run.py {example}`, or on several processes with `accelerate launch`.",
        ]
    )


def _description(preset: Path) -> str:
    """Return the first line of a preset, which is a comment."""
    with preset.open(encoding="utf-8") as file:
        return file.readline().removeprefix("#").strip()


def read_preset(path: Path, extended_by: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Read the options of a preset; its key `extends` names a preset in the same folder whose options it changes.

    Args:
        path: the preset.
        extended_by: the presets that extend it.

    Raises:
        InputError: a file is missing or is not a YAML mapping.
    """
    if not path.is_file():
        names = sorted(preset.stem for preset in PRESETS.glob("*.yaml"))
        raise InputError(
            f"file not found{suggest(path.stem, names)}; the presets of trainer/presets: {', '.join(names)}"
        )
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except YAML_ERRORS as error:
        raise InputError(f"not readable as YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise InputError(f"expected a mapping of options, found {type(values).__name__}")
    base = values.pop("extends", None)
    if base is None:
        return values
    is_name = isinstance(base, str) and Path(base).name == base
    base_path = path.with_name(f"{base}.yaml") if is_name else path
    if not base_path.is_file() or base_path == path:
        names = sorted(preset.stem for preset in path.parent.glob("*.yaml") if preset != path)
        raise InputError(
            f"extends is '{base}'{suggest(str(base), names)}; expected the name of another preset in {path.parent}"
        )
    if base_path in extended_by:
        raise InputError(f"extends: {base_path.name} and the presets it extends extend each other")
    return {**read_preset(base_path, (*extended_by, path)), **values}


def load_extensions(files: list[str]) -> None:
    """Import Python files that register the user's tasks and encoders; each file is imported once.

    Raises:
        InputError: a file does not exist, or its import raises an error.
    """
    for file in files:
        path = Path(file).resolve()
        name = f"convsim_extension_{path.stem}"
        if getattr(sys.modules.get(name), "__file__", None) == str(path):
            continue
        if path.suffix != ".py" or not path.is_file():
            raise InputError(f"extensions: {file} is not a Python file")
        specification = importlib.util.spec_from_file_location(name, path)
        assert specification is not None and specification.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(specification)
        try:
            specification.loader.exec_module(module)
        except Exception as error:
            del sys.modules[name]
            raise InputError(f"extensions: {file} cannot be imported: {type(error).__name__}: {error}") from error
