"""Kinds of invented STS pairs, their errors against NumPy and SciPy; texts are printed but not returned."""

import json

import numpy as np
import pytest
from datasets import Dataset
from scipy import stats

from tests.trainer.evaluation.fake_encoder import FakeEncoder
from trainer.evaluation.sts_errors import (
    errors_by_kind,
    evaluate_sts_errors,
    has_negation,
    kinds,
    names,
    numbers,
)

EXAMPLES = [
    ("A man is not singing.", "A man is singing.", 1.0, ["negation", "high_overlap_low_gold"]),
    ("He doesn’t sing.", "She never sings.", 3.0, ["rest"]),  # both negate
    ("Two cats sleep here.", "Three cats sleep here.", 3.0, ["numbers"]),
    ("Two cats sleep here.", "2 cats sleep here.", 4.5, ["rest"]),
    ("The mayor met Ann today.", "The mayor met Ben today.", 3.0, ["names"]),
    ("The mayor met Ann today.", "Ann met the mayor today.", 4.5, ["word_order"]),
    ("A cat sleeps.", "A cat sleeps in the warm sun of June again.", 3.0, ["names", "length"]),
    ("A dog bites a man.", "A man bites a dog.", 1.5, ["word_order", "high_overlap_low_gold"]),
    ("A dog runs fast.", "A dog runs quickly.", 2.0, ["high_overlap_low_gold"]),
    ("A dog runs fast.", "A dog runs quickly.", 2.1, ["rest"]),
    ("A dog barks.", "A dog sleeps.", 2.0, ["high_overlap_low_gold"]),  # an overlap of exactly 1/2
    ("A car.", "A bus.", 4.0, ["low_overlap_high_gold"]),  # an overlap of exactly 1/3
    ("They purchased a vehicle.", "A car was bought.", 4.0, ["low_overlap_high_gold"]),
    ("They purchased a vehicle.", "A car was bought.", 3.9, ["rest"]),
]


@pytest.mark.parametrize(("first", "second", "gold", "expected"), EXAMPLES)
def test_kinds_of_invented_pairs(first: str, second: str, gold: float, expected: list[str]) -> None:
    assert kinds(first, second, gold) == expected
    assert kinds(second, first, gold) == expected


@pytest.mark.parametrize(
    ("read", "text", "expected"),
    [
        (has_negation, "It isn't so", True),
        (has_negation, "do n't", True),
        (has_negation, "a knot, noted", False),
        (numbers, "1,000 of 4.20 and 14/32", {1000, 4.2, 14, 32}),
        (numbers, "Eleven, the 5th", {11, 5}),
        (numbers, "M31 and nobody, one of them", set()),
        (numbers, "6-3 4-6, 2003.", {6, 3, 4, 2003}),
        (names, 'The man saw Rome. Then "Ann\'s" dog came', {"rome", "ann"}),
        (names, "Yes! I think I'm late, said Ben", {"ben"}),
        (names, '"No," she said.', set()),
        (names, "The U.S. and NASA", {"u", "nasa"}),  # a letter after a full stop begins a sentence
    ],
)
def test_negation_numbers_and_names_of_a_text(read, text, expected) -> None:
    assert read(text) == expected


def test_errors_of_a_kind_are_those_of_its_pairs() -> None:
    random = np.random.default_rng(0)
    gold, predicted = random.uniform(0, 5, (2, 60))
    found = [["negation", "names"]] * 20 + [["names"]] * 20 + [["rest"]] * 20
    result = errors_by_kind(predicted, gold, found)
    assert list(result) == ["negation", "names", "rest"]
    for kind, rows in (("negation", slice(20)), ("names", slice(40)), ("rest", slice(40, 60))):
        assert result[kind] == {
            "pairs": len(gold[rows]),
            "pearson": pytest.approx(stats.pearsonr(predicted[rows], gold[rows])[0]),
            "error": pytest.approx(np.mean(predicted[rows] - gold[rows])),
            "absolute_error": pytest.approx(np.mean(abs(predicted[rows] - gold[rows]))),
        }


def test_a_kind_whose_gold_does_not_vary_has_no_correlation() -> None:
    result = errors_by_kind(np.array([1.0, 2.0]), np.array([5.0, 5.0]), [["numbers"]] * 2)
    assert result["numbers"] == {"pairs": 2, "pearson": None, "error": -3.5, "absolute_error": 3.5}
    result = errors_by_kind(np.array([1.0, 1.0]), np.array([4.0, 5.0]), [["numbers"]] * 2)
    assert result["numbers"] == {"pairs": 2, "pearson": None, "error": -3.5, "absolute_error": 3.5}
    result = errors_by_kind(np.array([1.0, 1.2]), np.array([5.0, 4.8]), [["numbers"]] * 2)
    assert result["numbers"]["pearson"] == pytest.approx(-1)


@pytest.fixture
def pairs() -> Dataset:
    first, second, gold, _ = zip(*EXAMPLES, strict=True)
    return Dataset.from_dict(
        {"sentence1": first, "sentence2": second, "score": gold, "genre": ["news"] * len(EXAMPLES)}
    )


def test_no_text_of_the_test_split_is_shown_and_none_is_returned(pairs, capsys):
    results = evaluate_sts_errors(FakeEncoder(), {"test": pairs})
    shown = capsys.readouterr().out + json.dumps(results)
    assert not any(text in shown for text in {*pairs["sentence1"], *pairs["sentence2"]})
