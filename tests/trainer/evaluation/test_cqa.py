"""Subtask B with a model: MAP of the cosines, by hand."""

import numpy as np
import pytest
from datasets import Dataset

from tests.trainer.evaluation.fake_encoder import FakeEncoder
from trainer.evaluation.cqa import evaluate_cqa, summarize

ROWS = Dataset.from_dict(
    {
        "query_id": ["a", "a", "a", "b", "b"],
        "query": ["Where can I swim?"] * 3 + ["Who sells lamps?"] * 2,
        "candidate": ["Any good barber?", "Is there a pool?", "A beach near here?", "I need a lamp", "Bus times?"],
        "relevant": [False, True, True, True, False],
    }
)


def test_map_of_given_scores_by_hand() -> None:
    # a: no, yes, yes -> (1/2 + 2/3) / 2; b: yes, no -> 1.
    assert summarize(np.array([0.9, 0.5, 0.1, 0.3, 0.2]), ROWS) == {"map": pytest.approx((7 / 12 + 1) / 2)}


def test_a_model_that_finds_the_relevant_questions_scores_one() -> None:
    encoder = FakeEncoder(
        {
            "Is there a pool?": "Where can I swim?",
            "A beach near here?": "Where can I swim?",
            "I need a lamp": "Who sells lamps?",
        }
    )
    assert evaluate_cqa(encoder, {"dev": ROWS, "test2017": ROWS}) == {"dev": {"map": 1}, "test2017": {"map": 1}}
