"""SNLI: accuracy of a classifier whose answers are known."""

from collections.abc import Iterable

import numpy as np
import pytest
from datasets import Dataset

from data_scripts.errors import InputError
from tests.trainer.evaluation.fake_encoder import FakeEncoder
from trainer.evaluation.snli import evaluate_snli

PAIRS = Dataset.from_dict({"premise": ["p"] * 4, "hypothesis": ["0", "1", "2", "1"], "label": [0, 1, 2, 0]})


class Classifier(FakeEncoder):
    """Reads the label from the hypothesis, which is its number."""

    def nli_logits(self, premises: Iterable[str], hypotheses: Iterable[str]) -> np.ndarray:
        return np.eye(3)[[int(text) for text in hypotheses]]


def test_accuracy_is_the_proportion_of_correct_labels() -> None:
    assert evaluate_snli(Classifier(), PAIRS, "test") == {"accuracy": 0.75, "pairs": 4, "split": "test"}


def test_labels_of_all_three_classes_are_distinguished() -> None:
    swapped = Dataset.from_dict({"premise": ["p"] * 3, "hypothesis": ["2", "1", "2"], "label": [1, 2, 2]})
    assert evaluate_snli(Classifier(), swapped, "test")["accuracy"] == 1 / 3


def test_a_model_without_classifier_is_refused() -> None:
    with pytest.raises(InputError, match="task snli: this model has no NLI classifier"):
        evaluate_snli(FakeEncoder(), PAIRS, "test")


def test_a_convsim_encoder_without_its_head_is_refused() -> None:
    class Bare(FakeEncoder):
        def nli_logits(self, premises: Iterable[str], hypotheses: Iterable[str]) -> np.ndarray:
            raise ValueError("a bare encoder")

    with pytest.raises(InputError, match="task snli: a bare encoder"):
        evaluate_snli(Bare(), PAIRS, "test")
