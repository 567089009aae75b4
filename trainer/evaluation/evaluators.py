"""All evaluations of one encoder, in the shape of results.json; the training loop and the command call it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from modeling_convsim.files.errors import InputError
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation import cqa, response_prediction, snli, sts_sets, sts_tuning, stsb
from trainer.evaluation.baselines import BASELINES
from trainer.evaluation.registry import EvaluationInputs, Split

if TYPE_CHECKING:
    from trainer.data.datasets import EvaluationData

# Name -> evaluator, in the order of results.json. A new evaluator is one new file and a name here; a file
# outside of this package adds its own.
EVALUATORS = {
    module.EVALUATOR.name: module.EVALUATOR for module in (response_prediction, snli, stsb, sts_tuning, cqa, sts_sets)
}


def evaluate_encoder(
    encoder: SentenceEncoder,
    data: EvaluationData,
    split: Split,
    evaluators: Iterable[str] | None = None,
    queries: int | None = None,
    intervals: bool = False,
) -> dict[str, dict]:
    """Evaluate an encoder; the result has one part of results.json for each evaluator.

    Args:
        encoder: the model.
        data: the evaluation datasets.
        split: "dev" or "test"; "both" evaluates STS-B and CQA on both splits, and evaluators with one split on test.
            The SemEval datasets of `sts` have no dev split: they are evaluated for any split, and must not be used to
            select hyperparameters.
        evaluators: names in `EVALUATORS`. By default all that have data; on dev without the slow `stsb_tuned`.
        queries: the largest number of response prediction queries; by default 10,000.
        intervals: add the 95% bootstrap interval, [low, high], to every Pearson's r, P@N, MAP and accuracy, as
            "pearson_interval" and so on.

    Raises:
        InputError: data of a named evaluator is missing or too small, or the model lacks a head.
    """
    names = evaluators or [name for name, one in EVALUATORS.items() if split != "dev" or one.runs_on_dev]
    results: dict[str, dict] = {}
    for name in names:
        evaluator = EVALUATORS[name]
        if splits := evaluator.splits_in(data, split):
            inputs = EvaluationInputs(data[evaluator.dataset], splits, queries, intervals)
            results[name] = evaluator.evaluate(encoder, inputs)
        elif evaluators is not None:
            missing = "dev or test" if split == "both" else split
            raise InputError(f"task {name}: {evaluator.dataset} has no {missing} split to evaluate on")
    return results


def evaluate_baseline(
    baseline: str,
    data: EvaluationData,
    split: Split,
    evaluators: Iterable[str],
    intervals: bool = False,
) -> dict[str, dict]:
    """Evaluate a baseline of `BASELINES` on the encoder's queries, with the `evaluators` that rank."""
    results: dict[str, dict] = {}
    for name in evaluators:
        evaluator = EVALUATORS[name]
        splits = evaluator.splits_in(data, split)
        if evaluator.evaluate_baseline and splits:
            inputs = EvaluationInputs(data[evaluator.dataset], splits, intervals=intervals)
            results[name] = evaluator.evaluate_baseline(BASELINES[baseline], inputs)
    return results
