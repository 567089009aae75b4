"""Evaluation of a run's model, and the score that selects the best checkpoint."""

from collections.abc import Iterable
from statistics import fmean
from typing import Any, Literal

import numpy as np
from transformers import PreTrainedTokenizerFast

from modeling_convsim.encoding import Encoder
from modeling_convsim.encoding.batch_tokenizer import BatchTokenizer, token_limit
from modeling_convsim.files.command_line import suggest
from modeling_convsim.files.errors import InputError
from modeling_convsim.modeling_heads import ConvSimForMultitask
from trainer.data.datasets import EvaluationData
from trainer.evaluation.evaluators import EVALUATORS, evaluate_encoder
from trainer.evaluation.ranking import RANKS
from trainer.evaluation.results import flatten
from trainer.tasks import TASKS

DEV_QUERIES = 2000  # maximum number of response prediction queries in an evaluation during training


def evaluators_to_skip(tasks: Iterable[str], final_split: str) -> set[str]:
    """Return the evaluators of heads that none of these tasks trains; and of test sets, if `final_split` is dev."""
    trained = {name.partition("/")[0] for name in tasks}
    untrained = {task.evaluator for name, task in TASKS.items() if task.evaluator and name not in trained}
    test_only = {name for name, evaluator in EVALUATORS.items() if evaluator.is_test_only}
    return untrained | (test_only if final_split == "dev" else set())


class ModelEvaluator:
    """Evaluates the complete model on the main process."""

    def __init__(
        self,
        model: ConvSimForMultitask,
        tokenizer: PreTrainedTokenizerFast,
        data: EvaluationData,
        skip: Iterable[str],
    ) -> None:
        """Prepare the evaluation of a model.

        Args:
            model: the complete model, which may change between evaluations.
            tokenizer: the model's tokenizer.
            data: the evaluation data of the run.
            skip: evaluators to skip, because their heads are not trained.
        """
        self.model, self.tokenizer = model, tokenizer
        # Copying a tokenizer of 30,000 tokens takes 45 ms, a third of an evaluation of a few hundred queries.
        self._batch_tokenizer = BatchTokenizer.from_transformers(tokenizer, token_limit(tokenizer.model_max_length))
        skipped = {EVALUATORS[name].dataset for name in skip if name in EVALUATORS}
        self._data = {name: splits for name, splits in data.items() if name not in skipped}

    def evaluate(
        self, split: Literal["dev", "both"], queries: int | None = None, intervals: bool = False
    ) -> dict[str, Any]:
        """Evaluate the model, with the arguments of `evaluate_encoder`; the result has the shape of results.json."""
        was_training = self.model.training
        encoder = Encoder(self.model, self._batch_tokenizer)  # sets what computes in torch to evaluation mode
        results = evaluate_encoder(encoder, self._data, split, queries=queries, intervals=intervals)
        self.model.train(was_training)
        return results


def select_score(results: dict[str, Any], metric: str, step: int) -> float:
    """Return the dev score that selects the best checkpoint; `last` scores each checkpoint by its step.

    Raises:
        InputError: the results lack this metric.
    """
    scores = flatten(results) | {"last": float(step)}
    if ranking := results.get("response_prediction"):
        # It varies less with the sample of queries than P@1.
        precisions = [ranking[f"p_at_{n}"] for n in RANKS if f"p_at_{n}" in ranking]
        scores["response_prediction.p_at_n"] = fmean(precisions)
    if metric not in scores:
        available = ", ".join(key for key, value in scores.items() if isinstance(value, float))
        if not results:
            raise InputError(
                f"best_metric '{metric}' cannot be computed: this run has no dev data (no validation split, and too "
                "few threads of pairs to create one); prepare more data, or keep the last checkpoint with "
                "--best_metric last"
            )
        raise InputError(
            f"best_metric '{metric}' is not among the dev results of this run{suggest(metric, scores)}; "
            f"set best_metric to one of {available}"
        )
    # A correlation is NaN if all embeddings are equal.
    return -np.inf if np.isnan(scores[metric]) else scores[metric]
