"""Preset files: their list, their options, and the extensions that they name."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import yaml

from data_scripts.files.command_line import suggest
from data_scripts.files.errors import InputError
from trainer.shipped import base_model

PRESETS = Path(__file__).parent / "presets"
BASE = "model_cards/base"  # in our presets: of the clone, or, in another folder, the one that ships with convsim
# PyYAML raises its own errors for the syntax and others for values, such as ValueError for the date 2020-99-99.
YAML_ERRORS = (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError)


def list_presets() -> str:
    """Return a table of the presets with their descriptions, the comments of their first lines, and how to run one."""
    files = sorted(PRESETS.glob("*.yaml"))
    width = max(len(file.stem) for file in files)
    descriptions = {file.stem: file.read_text(encoding="utf-8").partition("\n")[0].strip("# ") for file in files}
    rows = [f"  {name:{width}}  {description}" for name, description in descriptions.items()]
    how = "`convsim train quickstart`, or on several processes with `accelerate launch -m trainer.run quickstart`"
    return "\n".join(["presets:", *rows, "", f"Run one with {how}."])


def preset_path(name: str) -> Path:
    """The file of a preset: one that ships with convsim, if `name` is its name and no file; else the path `name`."""
    shipped = PRESETS / f"{name}.yaml"
    return shipped if name == Path(name).name and shipped.is_file() and not Path(name).is_file() else Path(name)


def read_preset(path: Path, extended_by: tuple[Path, ...] = ()) -> dict[str, Any]:
    """Read the options of a preset; its key `extends` names a preset in the same folder whose options it changes.

    Args:
        path: the file.
        extended_by: the presets that extend it.

    Raises:
        InputError: a file is missing or is not a YAML mapping, or presets extend each other.
    """
    if not path.is_file():
        names = sorted(preset.stem for preset in PRESETS.glob("*.yaml"))
        raise InputError(f"file not found{suggest(path.stem, names)}; the presets: {', '.join(names)}")
    try:
        values = yaml.safe_load(path.read_text(encoding="utf-8")) or {}
    except YAML_ERRORS as error:
        raise InputError(f"not readable as YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise InputError(f"expected a mapping of options, found {type(values).__name__}")
    if values.get("initialize_from") == BASE and path.parent == PRESETS and not Path(BASE).is_dir():
        values["initialize_from"] = base_model()
    base = values.pop("extends", None)
    if base is None:
        return values
    names = sorted(preset.stem for preset in path.parent.glob("*.yaml") if preset != path)
    if base not in names:
        raise InputError(
            f"extends is '{base}'{suggest(str(base), names)}; expected the name of another preset in {path.parent}"
        )
    file, chain = path.with_name(f"{base}.yaml"), (*extended_by, path)
    if file in chain:
        names = [preset.stem for preset in (*chain, file)]
        raise InputError(f"extends is '{base}', but these presets extend each other: {' -> '.join(names)}")
    return {**read_preset(file, chain), **values}


def load_extensions(files: Any) -> None:
    """Import Python files that register the user's tasks and encoders; each file is imported once.

    Args:
        files: the option `extensions`: a list of files, or a single one.

    Raises:
        InputError: a file does not exist, or its import raises an error.
    """
    for file in files if isinstance(files, list) else [files] if files else []:
        path = Path(str(file)).resolve()
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
