"""Reads the files of a finished run, results.json and config.yaml, and checks their form."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from data_scripts.errors import InputError
from trainer.evaluation.checksums import check_file
from trainer.evaluation.evaluators import EVALUATORS
from trainer.evaluation.results import read_results
from trainer.preset_files import YAML_ERRORS

# Parts of results.json whose values are mappings too.
NESTED = ("leakage", "export", "baselines", "stsb_errors")
MAPPINGS = ("run", "licenses", "seeds", "full_precision", *NESTED, *EVALUATORS)


def read_run_results(path: Path) -> dict[str, Any]:
    """The contents of a run's results.json.

    Raises:
        InputError: the file is missing or damaged, or a part has another form than an evaluation writes.
    """
    results = read_results(path)
    for name, part in ((name, results[name]) for name in MAPPINGS if name in results):
        is_nested = name in NESTED or (name in EVALUATORS and isinstance(part, Mapping) and "split" not in part)
        values = part.values() if is_nested and isinstance(part, Mapping) else []
        if not isinstance(part, Mapping) or not all(isinstance(value, Mapping) for value in values):
            raise InputError(
                f"{path}: {name} has another form than the trainer writes; restore the file, or evaluate the model "
                f"again with: python -m trainer.evaluation {path.parent / 'model'} --output FILE"
            )
    return results


def read_settings(path: Path) -> dict[str, Any]:
    """The settings in a run's config.yaml.

    Raises:
        InputError: the file is missing or damaged, or is not a mapping of settings.
    """
    check_file(path)
    try:
        settings = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, *YAML_ERRORS) as error:
        raise InputError(f"{path}: not readable as YAML ({' '.join(str(error).split())}); restore it") from error
    if not isinstance(settings, dict) or not isinstance(settings.get("tasks") or {}, dict):
        raise InputError(f"{path}: expected the settings of a run, with a mapping of tasks; restore the file")
    return settings
