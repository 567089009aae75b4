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
STS_VALUES = {"pearson", "spearman", "pairs"}  # of every dataset
MAPPINGS = ("run", "licenses", "seeds", "full_precision", *NESTED, *EVALUATORS)


def read_run_results(path: Path) -> dict[str, Any]:
    """The contents of a run's results.json.

    Raises:
        InputError: the file is missing or damaged, or a part has another form than an evaluation writes.
    """
    results = read_results(path)
    for name in MAPPINGS:
        if name in results and not _has_form(name, results[name]):
            raise InputError(
                f"{path}: {name} has another form than the trainer writes; restore the file, or evaluate the model "
                f"again with: python -m trainer.evaluation {path.parent / 'model'} --output FILE"
            )
    return results


def _has_form(name: str, part: Any) -> bool:
    """Whether a part of results.json has the form that the trainer writes."""
    if not isinstance(part, Mapping):
        return False
    if name not in EVALUATORS:
        return name not in NESTED or all(isinstance(value, Mapping) for value in part.values())
    splits = [part] if "split" in part else list(part.values())
    if not isinstance(part.get("split", ""), str) or not all(isinstance(scores, Mapping) for scores in splits):
        return False
    datasets = [each for scores in splits for each in scores.values()] if name == "sts" else []
    if not all(isinstance(each, Mapping) and each.keys() >= STS_VALUES for each in datasets) or {} in splits:
        return False
    subsets = [each for scores in splits for each in (scores, *scores.values()) if isinstance(each, Mapping)]
    metrics = EVALUATORS[name].card.metrics
    return all(isinstance(values.get(metric, 0.0), (int, float)) for values in subsets for metric in metrics)


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
