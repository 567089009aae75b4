"""Presets: YAML files of options of a training run, which ship with convsim or are a user's own, and extend each other.

The trainer knows the options; here they are names and values.
"""

from pathlib import Path
from typing import Any

import yaml

from modeling_convsim.files.command_line import suggest
from modeling_convsim.files.errors import InputError

PRESETS = Path(__file__).resolve().parents[1] / "trainer" / "presets"  # in the clone, and where a wheel is installed
# PyYAML raises its own errors for the syntax and others for values, such as ValueError for the date 2020-99-99.
YAML_ERRORS = (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError)


def find_preset(name: str, extended_by: Path | None = None) -> Path:
    """Find the file of a preset by its path, with or without the suffix, or by the name of one that ships with convsim.

    Args:
        name: the path, from the working directory, or from the folder of the preset that extends this one; or the name.
        extended_by: that preset.

    Raises:
        InputError: there is no such file.
    """
    folder = extended_by.parent if extended_by else Path()
    path = folder / Path(name).expanduser()
    shipped = [PRESETS / f"{name}.yaml"] if Path(name).name == name else []
    for file in (path, path.with_name(f"{path.name}.yaml"), *shipped):
        if file.is_file() and not (extended_by and file.samefile(extended_by)):
            return file
    known = {file.stem for presets in (folder, PRESETS) for file in presets.glob("*.yaml") if file != extended_by}
    names = sorted(known)
    raise InputError(
        f"there is no preset '{name}'{suggest(path.stem, names)}; expected a YAML file, or one of {', '.join(names)}"
    )


def read_presets(file: Path, extended_by: tuple[Path, ...] = ()) -> list[tuple[Path, dict[str, Any]]]:
    """Read a preset and those that it extends; each has the options that it changes, and the last one is its own.

    Its key `extends` has the name of a preset, or a path.

    Raises:
        InputError: a file is missing, cannot be read or is not a YAML mapping, or presets extend each other.
    """
    if any(file.samefile(other) for other in extended_by):
        names = [preset.stem for preset in (*extended_by, file)]
        raise InputError(f"{file}: these presets extend each other: {' -> '.join(names)}")
    try:
        values = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
    except (OSError, *YAML_ERRORS) as error:
        raise InputError(f"{file}: not readable as YAML: {' '.join(str(error).split())}") from None
    if not isinstance(values, dict):
        raise InputError(f"{file}: expected a mapping of options, found {type(values).__name__}")
    if (base := values.pop("extends", None)) is None:
        return [(file, values)]
    try:
        extended = find_preset(str(base), file)
    except InputError as error:
        raise InputError(f"{file}: extends: {error}") from None
    return [*read_presets(extended, (*extended_by, file)), (file, values)]
