"""Scores a finished run's model on each dev item, so that runs can be compared item by item."""

import functools
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from data_scripts.errors import InputError
from data_scripts.write.files import new_file
from trainer.arguments import Arguments
from trainer.evaluation.run_files import read_run_results
from trainer.sweep.planned_runs import PlannedRun


def dev_scores_path(run: PlannedRun) -> Path:
    """The file of a run's dev scores."""
    return run.folder / "dev_scores.npz"


def save_dev_scores(run: PlannedRun, threads: int) -> str:
    """Compute and save the run's dev scores unless they are there; returns an error message, or ""."""
    path = dev_scores_path(run)
    try:
        if not path.is_file():
            scores = score_items(run, threads)
            with new_file(path) as temporary, temporary.open("wb") as file:
                np.savez(file, **scores)  # type: ignore[arg-type]
        load_dev_scores(run)
    except InputError as error:
        return f"not scored: {error}"
    except OSError as error:
        return f"not scored: {path} cannot be written ({error})"
    return ""


def load_dev_scores(run: PlannedRun) -> dict[str, np.ndarray]:
    """What `save_dev_scores` saved.

    Raises:
        InputError: the file is damaged.
    """
    path = dev_scores_path(run)
    try:
        with np.load(path) as file:
            return dict(file)
    except (OSError, ValueError, EOFError, TypeError, AttributeError, BadZipFile) as error:
        raise InputError(f"{path}: not readable; delete it, and the same command scores the run again") from error


def score_items(run: PlannedRun, threads: int) -> dict[str, np.ndarray]:
    """Score each item of the dev sets that a finished run was evaluated on.

    Returns:
        `stsb`, `stsb_gold` (pairs,): angular similarity and gold score. `p_at_1` (queries,): 1 where the true response
        ranks first, else 0.

    Raises:
        InputError: the model or a dataset cannot be read.
    """
    # Imported here because it takes seconds, and a mistake on the command line should show before.
    import torch
    from transformers.utils.logging import disable_progress_bar

    from modeling_convsim.encoding import Encoder

    torch.set_num_threads(threads)
    disable_progress_bar()
    try:
        encoder = Encoder.from_pretrained(run.folder / "model")
    except ValueError as error:
        raise InputError(str(error)) from error
    results = read_run_results(run.folder / "results.json")
    scores: dict[str, np.ndarray] = {}
    if "stsb" in results:
        scores |= _score_stsb(encoder, str(run.arguments.stsb))
    if "response_prediction" in results:
        scores |= _score_responses(encoder, run.arguments)
    return scores


def _score_stsb(encoder: Any, source: str) -> dict[str, np.ndarray]:
    from data_scripts.sources.stsb import load_stsb
    from trainer.evaluation.similarity import angular, cosine, encode_pairs

    pairs = _dev_columns(load_stsb, source)
    vectors = encode_pairs(encoder, pairs["sentence1"], pairs["sentence2"])
    return {"stsb": np.asarray(angular(cosine(*vectors))), "stsb_gold": np.array(pairs["score"], dtype=np.float64)}


def _score_responses(encoder: Any, arguments: Arguments) -> dict[str, np.ndarray]:
    from trainer.evaluation.response_prediction import build_queries, score_candidates

    pairs = _dev_pairs(arguments)
    scores = score_candidates(encoder, build_queries(pairs["input"], pairs["response"]))  # (queries, candidates)
    # As in `precision_at_n`, a tie and a score that is not a number count against the model.
    is_first = (scores[:, 1:] < scores[:, :1]).all(axis=1)
    return {"p_at_1": np.asarray(is_first, dtype=np.float64)}


def _dev_pairs(arguments: Arguments) -> Mapping[str, list]:
    """The pairs of the dev split, which a run completes from its training split if they are too few."""
    from data_scripts.read.hub_datasets import load_pairs
    from trainer.data.datasets import load_run_data
    from trainer.data.dev_split import FEWEST, complete_dev_split
    from trainer.training.adaptation import silent, split_pairs

    sources = vars(arguments)["pairs"]
    if len(sources) == 1 and not arguments.adapt:
        pairs = _dev_columns(load_pairs, *sources)
        if pairs and len(pairs["input"]) >= FEWEST:
            return pairs
    with silent("trainer.data"):  # the run has logged the same messages
        data = load_run_data(arguments)
        if arguments.adapt:
            split_pairs(data)
        elif data.of_kind("pairs"):
            complete_dev_split(data)
    return dict(data.evaluation["pairs"]["validation"][:])


@functools.lru_cache(maxsize=2)
def _dev_columns(load: Callable[[str], Mapping[str, Any]], *sources: str) -> dict[str, list]:
    """The columns of the sources' dev splits, concatenated; loaded once for all runs."""
    parts = [splits["validation"] for splits in map(load, sources) if "validation" in splits]
    names = parts[0].column_names if parts else []
    return {name: list(itertools.chain(*(part[name] for part in parts))) for name in names}
