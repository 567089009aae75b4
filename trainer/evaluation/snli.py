"""SNLI: accuracy of the inference classifier on top of the encoder (Yang et al. 2018, section 4.2 and table 2)."""

from collections.abc import Iterable
from typing import Protocol, runtime_checkable

import numpy as np
from datasets import Dataset

from data_scripts.errors import InputError
from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.bootstrap import mean_interval, with_intervals


@runtime_checkable
class NliEncoder(Protocol):
    """An encoder that also classifies, as `modeling_convsim.encoding.__main__.Encoder` of a multitask model does."""

    def nli_logits(self, premises: Iterable[str], hypotheses: Iterable[str]) -> np.ndarray:
        """Logits (pairs, 3): entailment, neutral, contradiction."""
        ...


def evaluate_snli(encoder: SentenceEncoder, pairs: Dataset, split: str, intervals: bool = False) -> dict:
    """{"accuracy": 0 to 1, "pairs": their number, "split": `split`} over `pairs` (premise, hypothesis, label).

    With `intervals` also "accuracy_interval".

    Raises:
        InputError: the model has no classifier.
    """
    if not isinstance(encoder, NliEncoder):
        raise InputError("task snli: this model has no inference classifier; only ConvSim multitask models do")
    try:
        logits = encoder.nli_logits(pairs["premise"][:], pairs["hypothesis"][:])
    except ValueError as error:
        raise InputError(f"task snli: {error}") from error
    right = logits.argmax(axis=1) == np.asarray(pairs["label"])
    return with_intervals(
        {"accuracy": float(right.mean()), "pairs": len(pairs), "split": split},
        {"accuracy": mean_interval(right)} if intervals else {},
    )
