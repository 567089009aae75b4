"""SNLI: accuracy of the NLI classifier on top of the encoder (Yang et al. 2018, section 4.2 and table 2)."""

from __future__ import annotations

from typing import Any

import numpy as np

from modeling_convsim.files.errors import InputError
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.bootstrap import mean_interval, with_intervals
from trainer.evaluation.registry import CardEntry, EvaluationInputs, Evaluator


def evaluate_snli(encoder: SentenceEncoder, inputs: EvaluationInputs) -> dict[str, Any]:
    """Accuracy (0 to 1) on pairs (premise, hypothesis, label): "accuracy", number of "pairs", "split".

    Raises:
        InputError: the model has no classifier.
    """
    classify = getattr(encoder, "nli_logits", None)  # of an `Encoder`
    if classify is None:
        raise InputError("task snli: this model has no NLI classifier; only ConvSim multitask models have one")
    split, pairs = inputs.last_split()
    try:
        logits = classify(pairs["premise"][:], pairs["hypothesis"][:])
    except ValueError as error:
        raise InputError(f"task snli: {error}") from error
    correct = logits.argmax(axis=1) == np.asarray(pairs["label"])
    return with_intervals(
        {"accuracy": float(correct.mean()), "pairs": len(pairs), "split": split},
        {"accuracy": mean_interval(correct)} if inputs.intervals else {},
    )


EVALUATOR = Evaluator(
    name="snli",
    dataset="snli",
    data_help="folder or Hub id of SNLI",
    evaluate=evaluate_snli,
    card=CardEntry(
        task_type="text-classification",
        task_name="natural language inference",
        dataset_id="stanfordnlp/snli",
        dataset_name="SNLI",
        metrics={"accuracy": "accuracy"},
        public_sizes={"dev": 9842, "test": 9824},
    ),
)
