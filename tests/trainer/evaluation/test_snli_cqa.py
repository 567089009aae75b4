"""SNLI without a classifier, and MAP of community questions by hand."""

from collections.abc import Iterable, Sequence

import numpy as np
import pytest
from datasets import Dataset

from modeling_convsim.files.errors import InputError
from tests.trainer.evaluation.fake_encoder import FakeEncoder
from tests.trainer.evaluation.invented_data import snli
from trainer.evaluation.baselines import ScoreTexts
from trainer.evaluation.cqa import evaluate_baseline, evaluate_cqa, summarize
from trainer.evaluation.registry import EvaluationInputs
from trainer.evaluation.snli import evaluate_snli


def test_a_convsim_encoder_without_its_head_is_refused() -> None:
    class Bare(FakeEncoder):
        def nli_logits(self, premises: Iterable[str], hypotheses: Iterable[str]) -> np.ndarray:
            raise ValueError("a bare encoder")

    with pytest.raises(InputError, match="task snli: a bare encoder"):
        evaluate_snli(Bare(), EvaluationInputs(None, {"test": snli("test")}))


ROWS = Dataset.from_dict(
    {
        "query_id": ["a", "a", "a", "b", "b"],
        "query": ["Where can I swim?"] * 3 + ["Who sells lamps?"] * 2,
        "candidate": ["Any good barber?", "Is there a pool?", "A beach near here?", "I need a lamp", "Bus times?"],
        "relevant": [False, True, True, True, False],
    }
)


def test_two_questions_with_the_same_text_are_two_queries() -> None:
    rows = Dataset.from_dict({"query_id": ["a", "a", "b"], "query": ["Why?"] * 3, "relevant": [False, True, True]})
    # a: no, yes -> 1/2; b: yes -> 1. As one query: no, yes, yes -> (1/2 + 2/3) / 2.
    assert summarize(np.array([0.9, 0.5, 0.1]), rows)["map"] == 0.75


def test_a_baseline_scores_each_row_against_its_own_candidate() -> None:
    def baseline(documents: Sequence[str]) -> ScoreTexts:
        good = {("Where can I swim?", "Is there a pool?"), ("Who sells lamps?", "I need a lamp")}
        return lambda texts: np.array([[(text, document) in good for document in documents] for text in texts], float)

    inputs = EvaluationInputs(None, {"dev": ROWS})
    # a: the pool first, then the barber, then the beach: (1 + 2/3) / 2.
    assert evaluate_baseline(baseline, inputs) == {"dev": {"map": pytest.approx((5 / 6 + 1) / 2)}}


def test_a_model_that_finds_the_relevant_questions_scores_one() -> None:
    encoder = FakeEncoder(
        {
            "Is there a pool?": "Where can I swim?",
            "A beach near here?": "Where can I swim?",
            "I need a lamp": "Who sells lamps?",
        }
    )
    inputs = EvaluationInputs(None, {"dev": ROWS, "test2017": ROWS})
    assert evaluate_cqa(encoder, inputs) == {"dev": {"map": 1}, "test2017": {"map": 1}}
