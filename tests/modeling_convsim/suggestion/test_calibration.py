"""Thresholds from held-out pairs."""

import re

import numpy as np
import pytest
from scipy.stats import beta, binomtest

from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.calibration import (
    MIN_SUGGESTIONS,
    choose_examples,
    choose_threshold,
    tabulate_thresholds,
)
from tests.modeling_convsim.suggestion.texts import make_texts


def lower_bound(right: int, suggestions: int, confidence: float = 0.9) -> float:
    """The lower bound of a proportion by SciPy's exact test."""
    return binomtest(right, suggestions, alternative="greater").proportion_ci(confidence, "exact").low


@pytest.mark.parametrize("required", [0.5, 0.6, 0.75, 0.8])
def test_thresholds_are_tested_from_high_to_low_until_the_lower_bound_is_below_the_required_precision(required):
    generator = np.random.default_rng(0)
    scores = np.round(generator.standard_normal(900), 2).astype(np.float32)
    right = generator.random(900) < 1 / (1 + np.exp(-3 * scores))
    calibration = choose_threshold(scores, right, required)
    suggested = scores >= calibration.threshold
    assert calibration.precision == pytest.approx(right[suggested].mean())
    assert calibration.coverage == pytest.approx(suggested.mean())
    assert (calibration.min_precision, calibration.pairs) == (required, 900)
    # From 12 suggestions for a precision of .5 to 38 for .8, and each time four times as many, for 900 pairs.
    sequences = {0.5: 4, 0.6: 3, 0.75: 3, 0.8: 3}[required]
    confidence = 1 - 0.1 / sequences
    assert lower_bound(int(right[suggested].sum()), int(suggested.sum()), confidence) >= required
    # a tenth more suggestions do not pass
    ranked = np.sort(scores)[::-1]
    more = scores >= ranked[int(suggested.sum() * 1.1) + 1]
    assert lower_bound(int(right[more].sum()), int(more.sum()), confidence) < required


def test_the_highest_scores_may_be_less_precise():
    scores = np.linspace(1, 0, 1000)
    right = np.arange(1000) % 10 > 0
    right[:40:3] = False  # 60% of the best 40
    calibration = choose_threshold(scores, right, 0.8)
    assert calibration.coverage > 0.9 and calibration.precision > 0.85
    with pytest.raises(ValueError, match="no threshold has a precision of 80% with 90% confidence on 100 pairs"):
        choose_threshold(scores[:100], right[:100], 0.8)


def test_a_promised_precision_is_kept_in_nine_of_ten_samples():
    """The precision of scores at a threshold is known: P(right | score) = score."""
    generator, broken, chosen = np.random.default_rng(1), 0, 0
    for _ in range(300):
        scores = generator.beta(2, 2, size=600)
        right = generator.random(600) < scores
        try:
            threshold = choose_threshold(scores, right, 0.8).threshold
        except ValueError:
            continue
        precision = beta(2, 2).expect(lambda score: score, lb=threshold, conditional=True)
        chosen, broken = chosen + 1, broken + (precision < 0.8)
    assert chosen > 100 and broken <= 45  # 10% of 300, and three standard errors


def test_without_a_threshold_the_pairs_that_would_be_enough_are_named():
    scores = np.linspace(1, 0, 100)
    right = np.arange(100) % 6 > 0  # 83% at every threshold
    with pytest.raises(
        ValueError, match=r"80% with 90% confidence on 100 pairs: .* 83%; about (\d+) more pairs"
    ) as error:
        choose_threshold(scores, right, 0.8)
    more = int(re.search(r"about (\d+) more", str(error.value))[1])
    assert lower_bound(round(0.83 * (100 + more)), 100 + more) == pytest.approx(0.8, abs=0.01)
    with pytest.raises(ValueError, match="the highest, of 20 suggestions or more, is 83%; ask for less"):
        choose_threshold(scores, right, 0.9)
    with pytest.raises(ValueError, match="19 held-out pairs, expected 20 or more"):
        choose_threshold(scores[:19], right[:19], 0.5)


def test_a_row_of_the_table_is_the_last_threshold_within_a_coverage():
    generator = np.random.default_rng(0)
    scores = np.round(generator.standard_normal(2500), 2).astype(np.float32)
    right = generator.random(2500) < 1 / (1 + np.exp(-2 * scores))
    rows = []
    for coverage in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1):
        reached = [scores >= score for score in np.unique(scores)]
        within = [part for part in reached if MIN_SUGGESTIONS <= part.sum() <= coverage * 2500]
        if within:
            rows.append(max(within, key=np.sum))
    table = tabulate_thresholds(scores, right)
    assert len(table) == len(rows) == 9
    for row, part in zip(table, rows, strict=True):
        # not at a score, whose last digits vary
        assert scores[~part].max(initial=-9) < row.threshold < scores[part].min()
        assert (row.precision, row.coverage) == pytest.approx((right[part].mean(), part.mean()))
    assert choose_threshold(scores, right, 0.8).table == table
    few = tabulate_thresholds(scores[:30], right[:30])
    assert [MIN_SUGGESTIONS <= round(row.coverage * 30) <= 30 for row in few] == [True] * len(few)
    assert tabulate_thresholds(scores[:19], right[:19]) == []


def test_calibration_agrees_with_a_loop_over_the_pairs(encoder):
    texts, messages = make_texts(60), make_texts(60, seed=2)
    index = ReplyIndex.build(encoder, texts, questions=messages, message_weight=0.5)
    inputs, expected = make_texts(60, seed=1)[:40], texts[:40]
    expected[::2] = [best.text for [best] in index.suggest_many(inputs[::2], 1)]
    inputs[1] = texts[7]  # no suggestion for itself
    inputs[3] = ""
    asked = np.hstack([encoder.encode(inputs, "query"), 0.5 * encoder.encode(inputs)]).astype(np.float64)
    scores = asked @ index.vectors.astype(np.float64).T
    scores[1, 7] = -9
    best = scores.argmax(axis=1)
    embeddings, real = encoder.encode(texts).astype(np.float64)[best], encoder.encode(expected).astype(np.float64)
    right = (embeddings * real).sum(axis=1) >= 0.6
    found = scores.max(axis=1)
    found[3], right[3] = -9, False
    ours = index.score_pairs(inputs, expected)
    np.testing.assert_allclose(np.delete(ours[0], 3), np.delete(found, 3), rtol=2e-3)
    assert ours[1].tolist() == right.tolist() and 0.4 < right.mean() < 1 and ours[0][3] < min(np.delete(ours[0], 3))
    required = 0.1
    calibration = index.calibrate(inputs, expected, required)
    reference = choose_threshold(found, right, required)
    assert (calibration.precision, calibration.coverage) == pytest.approx((reference.precision, reference.coverage))
    assert index.calibrate(inputs, expected, required) == calibration  # its own threshold does not matter
    with pytest.raises(ValueError, match="1 inputs and 2 expected texts, expected the same"):
        index.calibrate(texts[:1], texts[:2])


def test_a_judge_decides_what_is_right(encoder):
    class Judge:
        def encode(self, texts: list[str]) -> np.ndarray:
            return np.array([[1.0, 0.0] if "dog" in text else [0.0, 1.0] for text in texts])

    index = ReplyIndex.build(encoder, ["a dog"], duplicate_cosine=1)
    _, are_right = index.score_pairs(["the cat", "a house"], ["no dog", "a house"], Judge())
    assert are_right.tolist() == [True, False]


def test_examples_are_some_distinct_short_messages_of_one_line():
    unsuitable = ["", "two\nlines", "a" * 61]
    messages = [f"message {n}" for n in range(20)]
    chosen = choose_examples([*unsuitable, *messages, *messages])
    assert len(set(chosen)) == len(chosen) == 5 and set(chosen) < set(messages)
    assert chosen == choose_examples([*unsuitable, *messages]) != messages[:5]
    assert choose_examples(["b", *unsuitable]) == ["b"] and choose_examples([]) == []
