"""Reads the files of a finished run, results.json and config.yaml."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from data_scripts.files.errors import InputError
from data_scripts.files.folders import check_files
from trainer.evaluation.evaluators import EVALUATORS
from trainer.evaluation.results import read_results
from trainer.preset_files import YAML_ERRORS


def read_run_results(path: Path) -> dict[str, Any]:
    """The contents of a run's results.json.

    Raises:
        InputError: the file is missing or damaged, or a part has another form than an evaluation writes.
    """
    results = read_results(path)
    if damaged := [name for name in ("run", *EVALUATORS) if not isinstance(results.get(name, {}), Mapping)]:
        raise InputError(
            f"{path}: {damaged[0]} has another form than the trainer writes; restore the file, or evaluate the model "
            f"again with: python -m trainer.evaluation {path.parent / 'model'} --output FILE"
        )
    return results


def read_settings(path: Path) -> dict[str, Any]:
    """The settings in a run's config.yaml.

    Raises:
        InputError: the file is missing or damaged, or is not a mapping of settings.
    """
    check_files(path.parent, [path.name])
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, *YAML_ERRORS) as error:
        raise InputError(f"{path}: not readable as YAML ({error}); restore it") from error
    if not isinstance(settings, dict) or not isinstance(settings.get("tasks") or {}, dict):
        raise InputError(f"{path}: expected the settings of a run, with a mapping of tasks; restore the file")
    return settings
