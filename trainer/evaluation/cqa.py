"""Community question answering, subtask B: rank related questions by their similarity (Yang et al. 2018, 4.4)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.bootstrap import mean_interval, with_intervals
from trainer.evaluation.registry import Baseline, CardEntry, EvaluationInputs, Evaluator, dev_and_test
from trainer.evaluation.similarity import cosine, encode_pairs

if TYPE_CHECKING:
    from datasets import Dataset


def evaluate_cqa(encoder: SentenceEncoder, inputs: EvaluationInputs) -> dict[str, dict[str, Any]]:
    """MAP of the cosine between question and related question: split -> {"map": 0 to 1}."""
    return {
        name: summarize(cosine(*encode_pairs(encoder, rows["query"][:], rows["candidate"][:])), rows, inputs.intervals)
        for name, rows in inputs.splits.items()
    }


def summarize(scores: np.ndarray, rows: Dataset, intervals: bool = False) -> dict[str, Any]:
    """The part of results.json for `scores` (rows,) of the related questions in `rows`.

    `intervals` adds "map_interval", over resamples of the questions, each with all its related questions.
    """
    from trainer.evaluation.metrics.mean_average_precision.mean_average_precision import average_precisions

    precisions = average_precisions(scores, np.asarray(rows["relevant"]), rows["query_id"][:])
    return with_intervals({"map": float(precisions.mean())}, {"map": mean_interval(precisions)} if intervals else {})


def evaluate_baseline(baseline: Baseline, inputs: EvaluationInputs) -> dict[str, dict[str, Any]]:
    """The same for a baseline, with term statistics of all related questions."""

    def scores(rows: Dataset) -> np.ndarray:
        return baseline(rows["candidate"][:])(rows["query"][:]).diagonal()  # of each row's own candidate

    return {name: summarize(scores(rows), rows, inputs.intervals) for name, rows in inputs.splits.items()}


EVALUATOR = Evaluator(
    name="cqa",
    dataset="cqa",
    data_help="folder of SemEval CQA, subtask B",
    select_splits=partial(dev_and_test, test="test2017"),
    evaluate=evaluate_cqa,
    evaluate_baseline=evaluate_baseline,
    card=CardEntry(
        task_type="text-ranking",
        task_name="question similarity",
        dataset_id="semeval-2017-task3-b",
        dataset_name="SemEval CQA, subtask B",
        metrics={"map": "MAP"},
    ),
)
