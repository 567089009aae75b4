"""The SemEval STS datasets that evaluate Siamese CBOW (Kenter et al. 2016, section 3.3, table 1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from modeling_convsim.files.errors import InputError
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.bootstrap import pearson_interval, with_intervals
from trainer.evaluation.registry import CardEntry, EvaluationInputs, Evaluator
from trainer.evaluation.similarity import cosine, encode_pairs

if TYPE_CHECKING:
    from datasets import Dataset


def sts_set_scores(encoder: SentenceEncoder, sets: Mapping[str, Dataset]) -> dict[str, np.ndarray]:
    """The cosine (pairs,), float64, of the sentences of each pair: "YEAR NAME" of a dataset -> scores.

    All datasets are encoded in one call, each distinct sentence once. A sentence without a known word is a zero vector,
    and the cosine of its pair is 0.
    """
    first, second = ([text for rows in sets.values() for text in rows[column]] for column in ("sentence1", "sentence2"))
    scores = cosine(*encode_pairs(encoder, first, second))
    ends = np.cumsum([len(rows) for rows in sets.values()])
    return dict(zip(sets, np.split(scores, ends[:-1]), strict=True))


def evaluate_sts_sets(encoder: SentenceEncoder, inputs: EvaluationInputs) -> dict[str, dict[str, dict[str, Any]]]:
    """Pearson and Spearman of the cosine with gold: year -> name -> "pearson", "spearman", "pairs".

    NaN where all scores of a dataset are equal.

    Raises:
        InputError: a dataset has a single pair.
    """
    from trainer.evaluation.metrics.sts_correlation.sts_correlation import sts_correlation

    results: dict[str, dict[str, dict[str, Any]]] = {}
    for key, scores in sts_set_scores(encoder, inputs.splits).items():
        if len(scores) < 2:
            raise InputError(f"STS {key} has only one pair; a correlation needs two: add pairs, or leave it out")
        gold = np.asarray(inputs.splits[key]["score"])
        part = {**sts_correlation(scores, gold), "pairs": len(scores)}
        if inputs.intervals:
            part = with_intervals(part, {"pearson": pearson_interval(scores, gold)})
        year, name = key.split(" ", 1)
        results.setdefault(year, {})[name] = part
    return results


EVALUATOR = Evaluator(
    name="sts",
    dataset="sts",
    data_help="folder of SemEval STS 2012 to 2016",
    # All datasets, whatever the split: they are test sets.
    select_splits=lambda sets, split: {
        f"{year} {name}": rows for year, names in sets.items() for name, rows in names.items()
    },
    evaluate=evaluate_sts_sets,
    card=CardEntry(
        task_type="sentence-similarity",
        task_name="textual similarity, cosine",
        dataset_id="semeval-sts",
        dataset_name="SemEval STS",
        metrics={"pearson": "Pearson", "spearman": "Spearman"},
    ),
    is_test_only=True,
)
