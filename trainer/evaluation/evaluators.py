"""All evaluations of one encoder, in the shape of results.json: what the training loop and the command both call."""

from collections.abc import Iterable
from typing import Literal

import numpy as np
from datasets import Dataset, DatasetDict

from data_scripts.errors import InputError
from trainer.data.datasets import Corpora
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation import cqa, response_prediction
from trainer.evaluation.baselines import BASELINES
from trainer.evaluation.snli import evaluate_snli
from trainer.evaluation.sts_sets import evaluate_sts_sets
from trainer.evaluation.sts_tuning import tune_on_stsb
from trainer.evaluation.stsb import Similarity, evaluate_stsb

# Task -> the field of `Corpora` that it is judged on; baselines can do the rankings.
TASKS = {
    "response_prediction": "pairs",
    "snli": "snli",
    "stsb": "stsb",
    "stsb_tuned": "stsb",
    "cqa": "cqa",
    "sts": "sts",
}
RANKINGS = ("response_prediction", "cqa")
Split = Literal["dev", "test", "both"]


def evaluate_encoder(
    encoder: SentenceEncoder,
    data: Corpora,
    split: Split,
    tasks: Iterable[str] | None = None,
    queries: int | None = None,
    similarity: Similarity = "angular",
    intervals: bool = False,
) -> dict[str, dict]:
    """Judge an encoder; the result has a part of results.json for each task.

    Args:
        encoder: the model.
        data: the sets it is judged on.
        split: "dev" or "test"; "both" gives STS-B and CQA on the two, the others, which results.json has once, on test.
            The SemEval sets of `sts` have no dev: they are judged whatever is asked for, and choose nothing.
        tasks: of `TASKS`. By default every one whose data is there; on dev without `stsb_tuned`, which takes a minute.
        queries: the largest number of response prediction queries; by default 10,000.
        similarity: the score of the task stsb.
        intervals: put its 95 % bootstrap interval, [low, high], beside every Pearson's r, P@N, MAP and accuracy, as
            "pearson_interval" and so on.

    Raises:
        InputError: a task's data is not there, it is too small, or the model cannot do the task.
    """
    results: dict[str, dict] = {}
    for task in tasks or [task for task in TASKS if split != "dev" or task != "stsb_tuned"]:
        splits = splits_of(data, task, split)
        if not splits and tasks is None:
            continue
        if not splits:
            raise InputError(f"task {task}: there is no {split} split of {TASKS[task]} to judge it on")
        name, rows = list(splits.items())[-1]
        match task:
            case "response_prediction":
                built = _queries(rows, queries)
                results[task] = response_prediction.evaluate_response_prediction(encoder, built, name, intervals)
            case "snli":
                results[task] = evaluate_snli(encoder, rows, name, intervals)
            case "stsb":
                results[task] = evaluate_stsb(encoder, splits, similarity, intervals)
            case "stsb_tuned":
                train, dev = (_needed(data.stsb, part) for part in ("train", "validation"))
                _, results[task] = tune_on_stsb(encoder, train, dev, splits, intervals)
            case "cqa":
                results[task] = cqa.evaluate_cqa(encoder, splits, intervals)
            case "sts" if data.sts:
                results[task] = evaluate_sts_sets(encoder, data.sts, intervals)
    return results


def evaluate_baseline(
    baseline: str,
    data: Corpora,
    split: Split,
    tasks: Iterable[str],
    queries: int | None = None,
    intervals: bool = False,
) -> dict[str, dict]:
    """Those of `tasks` that are rankings, with a baseline of `BASELINES` instead of an encoder; the same queries."""
    results: dict[str, dict] = {}
    for task in tasks:
        splits = splits_of(data, task, split)
        if task == "response_prediction" and splits:
            name, rows = list(splits.items())[-1]
            built = _queries(rows, queries)
            scores = BASELINES[baseline](built.inputs, built.responses, built.candidates)
            results[task] = response_prediction.summarise(scores, name, intervals)
        elif task == "cqa":
            results[task] = {
                name: cqa.summarise(
                    BASELINES[baseline](rows["query"][:], rows["candidate"][:], np.arange(len(rows))[:, None])[:, 0],
                    rows,
                    intervals,
                )
                for name, rows in splits.items()
            }
    return results


def splits_of(data: Corpora, task: str, split: Split) -> dict[str, Dataset]:
    """Those that are there of the asked splits, under their names in results.json, test last; of `sts` all sets."""
    if task == "sts":
        return {f"{year} {name}": rows for year, names in (data.sts or {}).items() for name, rows in names.items()}
    test = "test2017" if task == "cqa" else "test"
    keys = {"dev": {"dev": "validation"}, "test": {test: test}, "both": {"dev": "validation", test: test}}[split]
    rows: DatasetDict = getattr(data, TASKS[task]) or DatasetDict()
    return {name: rows[key] for name, key in keys.items() if key in rows}


def _needed(stsb: DatasetDict | None, part: str) -> Dataset:
    if stsb is None or part not in stsb:
        raise InputError(f"task stsb_tuned: STS-B has no {part} split, which tuning needs")
    return stsb[part]


def _queries(pairs: Dataset, queries: int | None) -> response_prediction.ResponseQueries:
    return response_prediction.build_queries(
        pairs["input"][:], pairs["response"][:], queries or response_prediction.MAX_QUERIES
    )
