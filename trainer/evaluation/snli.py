"""SNLI: accuracy of the NLI classifier on top of the encoder (Yang et al. 2018, section 4.2 and table 2)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from data_scripts.files.errors import InputError
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.bootstrap import mean_interval, with_intervals
from trainer.evaluation.registry import CardEntry, EvaluationInputs, Evaluator

if TYPE_CHECKING:
    from datasets import Dataset


@runtime_checkable
class NliEncoder(Protocol):
    """An encoder that also classifies pairs, as `modeling_convsim.encoding.Encoder` of a multitask model does."""

    def nli_logits(self, premises: Iterable[str], hypotheses: Iterable[str]) -> np.ndarray:
        """Logits (pairs, 3): entailment, neutral, contradiction."""
        ...


def evaluate_snli(encoder: SentenceEncoder, pairs: Dataset, split: str, intervals: bool = False) -> dict:
    """Accuracy (0 to 1) on `pairs` (premise, hypothesis, label): "accuracy", number of "pairs", "split".

    `intervals` adds "accuracy_interval".

    Raises:
        InputError: the model has no classifier.
    """
    if not isinstance(encoder, NliEncoder):
        raise InputError("task snli: this model has no NLI classifier; only ConvSim multitask models have one")
    try:
        logits = encoder.nli_logits(pairs["premise"][:], pairs["hypothesis"][:])
    except ValueError as error:
        raise InputError(f"task snli: {error}") from error
    correct = logits.argmax(axis=1) == np.asarray(pairs["label"])
    return with_intervals(
        {"accuracy": float(correct.mean()), "pairs": len(pairs), "split": split},
        {"accuracy": mean_interval(correct)} if intervals else {},
    )


def _evaluate(encoder: SentenceEncoder, inputs: EvaluationInputs) -> dict[str, Any]:
    split, pairs = inputs.last_split()
    return evaluate_snli(encoder, pairs, split, inputs.intervals)


EVALUATOR = Evaluator(
    name="snli",
    dataset="snli",
    data_help="folder or Hub id of SNLI",
    evaluate=_evaluate,
    card=CardEntry(
        task_type="text-classification",
        task_name="natural language inference",
        dataset_id="stanfordnlp/snli",
        dataset_name="SNLI",
        metrics={"accuracy": "accuracy"},
        public_sizes={"dev": 9842, "test": 9824},
    ),
)
