"""Adds the test scores of runs that differ only in the seed to the results and the card of one of them."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from modeling_convsim.files.errors import InputError
from trainer.evaluation.results import update_results
from trainer.publish.model_card import read_scores
from trainer.runs import MAY_CHANGE, RESULTS, Run

SCORES = ("pearson", "p_at_1", "map", "accuracy")  # one of each evaluation
# Settings without effect on a model, and those of the tokenizer, which a run may take from another run.
IGNORED = {*MAY_CHANGE, "seed", "output_dir", "tokenizer", "tokenizer_kind", "vocab_size"}


def add_seeds(runs: Sequence[Path]) -> None:
    """Add the test scores that all runs have to the results of the first: "part.split.subset.metric" -> values by run.

    Raises:
        InputError: a run is not finished, two have the same seed, or they differ in another setting.
    """
    settings = [Run(run).settings for run in runs]
    for run, other in zip(runs, settings, strict=True):
        keys = settings[0].keys() | other.keys()
        differing = sorted(key for key in keys - IGNORED if settings[0].get(key) != other.get(key))
        if _tokenizer(run) != _tokenizer(runs[0]):
            differing.append("tokenizer")
        if differing:
            raise InputError(f"{run}: differs from {runs[0]} in {', '.join(differing)}; only the seed may differ")
    if len({each.get("seed", 0) for each in settings}) < len(runs):
        raise InputError("two of the runs have the same seed; expected a different seed for each run")
    values = [_test_scores(run, each) for run, each in zip(runs, settings, strict=True)]
    shared = [name for name in values[0] if all(name in each for each in values)]
    update_results(runs[0] / RESULTS, {"seeds": {name: [each[name] for each in values] for name in shared}})


def _tokenizer(run: Path) -> bytes:
    file = run / "model" / "tokenizer.json"
    return file.read_bytes() if file.is_file() else b""


def _test_scores(run: Path, settings: dict[str, Any]) -> dict[str, float]:
    results = Run(run).results
    values = {}
    for score in read_scores(results, settings):
        if score.split.startswith("test") and score.metric in SCORES:
            # A part with one split has its scores directly under its name.
            split = "" if "split" in results[score.part] else score.split
            subset = score.subset or ("all" if score.part.startswith("stsb") else "")
            values[".".join(filter(None, [score.part, split, subset, score.metric]))] = score.value
    return values
