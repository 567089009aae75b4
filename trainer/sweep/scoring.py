"""Scores a finished run's model on each dev item, so that runs can be compared item by item."""

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any
from zipfile import BadZipFile

import numpy as np

from data_scripts.files.errors import InputError
from data_scripts.files.storage import new_file
from trainer.arguments import Arguments
from trainer.evaluation.run_files import read_run_results
from trainer.sweep.planned_runs import PlannedRun


def dev_scores(run: PlannedRun, threads: int) -> dict[str, np.ndarray]:
    """The scores of a finished run on each dev item; computed once, and kept in its folder.

    Returns:
        `stsb`, `stsb_gold` (pairs,): angular similarity and gold score. `p_at_1` (queries,): 1 where the true response
        ranks first, else 0.

    Raises:
        InputError: the model, a dataset or the file with the scores cannot be read.
    """
    path = run.folder / "dev_scores.npz"
    if not path.is_file():
        scores = score_items(run, threads)
        with new_file(path) as temporary, temporary.open("wb") as file:
            np.savez(file, **scores)  # type: ignore[arg-type]
    try:
        with np.load(path) as file:
            return dict(file)
    except (OSError, ValueError, EOFError, TypeError, AttributeError, BadZipFile) as error:
        raise InputError(f"{path}: not readable; delete it, and the same command scores the run again") from error


def score_items(run: PlannedRun, threads: int) -> dict[str, np.ndarray]:
    """Compute `dev_scores`."""
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
    if "response_prediction" in results and not run.arguments.adapt:  # an adaptation splits its pairs by itself
        scores["p_at_1"] = _score_responses(encoder, run.arguments)
    return scores


def _score_stsb(encoder: Any, source: str) -> dict[str, np.ndarray]:
    from data_scripts.public.stsb import load_stsb
    from trainer.evaluation.stsb import untuned_scores

    pairs = _dev_split(load_stsb, source)
    gold = np.array(pairs["score"], dtype=np.float64)
    return {"stsb": untuned_scores(encoder, pairs, "angular"), "stsb_gold": gold}


def _score_responses(encoder: Any, arguments: Arguments) -> np.ndarray:
    from trainer.evaluation.response_prediction import build_queries, response_hits

    pairs = _dev_pairs(arguments)
    return response_hits(encoder, build_queries(pairs["input"][:], pairs["response"][:])).astype(np.float64)


def _dev_pairs(arguments: Arguments) -> Any:
    """The pairs of the dev split, which a run completes from its training split if they are too few."""
    from data_scripts.files.datasets import load_pairs
    from trainer.data.datasets import load_run_data
    from trainer.data.dev_split import FEWEST, complete_dev_split

    sources = vars(arguments)["pairs"]
    if len(sources) == 1:
        pairs = _dev_split(load_pairs, sources[0])
        if pairs is not None and len(pairs) >= FEWEST:
            return pairs
    logging.getLogger("trainer.data").setLevel(logging.ERROR)  # the run has logged the same messages
    data = load_run_data(arguments)
    if data.of_kind("pairs"):
        complete_dev_split(data)
    return data.evaluation["pairs"]["validation"]


@functools.lru_cache(maxsize=2)
def _dev_split(load: Callable[[str], Mapping[str, Any]], source: str) -> Any:
    """The dev split of a source, loaded once for all runs; None without one."""
    return load(source).get("validation")
