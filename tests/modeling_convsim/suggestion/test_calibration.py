"""Thresholds from held-out pairs."""

import numpy as np
import pytest

from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.calibration import (
    MIN_SUGGESTIONS,
    best_of_sample,
    choose_threshold,
    tabulate_thresholds,
)
from tests.modeling_convsim.suggestion.test_suggestion import brute_force_best, make_texts


def test_threshold_is_the_lowest_with_the_required_precision():
    generator = np.random.default_rng(0)
    scores = np.round(generator.standard_normal(500), 1).astype(np.float32)
    right = generator.random(500) < 1 / (1 + np.exp(-2 * scores))
    for required in (0.6, 0.75, 0.9):
        calibration = choose_threshold(scores, right, required, 100)
        precise = []
        for threshold in sorted(set(scores.tolist())):
            suggested = [bool(ok) for score, ok in zip(scores.tolist(), right, strict=True) if score >= threshold]
            if len(suggested) >= 20 and sum(suggested) / len(suggested) >= required:
                precise.append((threshold, sum(suggested) / len(suggested), len(suggested) / 500))
        lowest, precision, coverage = precise[0]
        assert (scores >= calibration.threshold).sum() == (scores >= np.float32(lowest)).sum()
        assert (calibration.precision, calibration.coverage) == pytest.approx((precision, coverage))
        assert (calibration.min_precision, calibration.candidates, calibration.pairs) == (required, 100, 500)
    right[scores.argmax()] = False
    reached = [scores >= threshold for threshold in set(scores.tolist())]
    highest = max(right[part].mean() for part in reached if part.sum() >= 20)
    message = rf"no threshold has precision 1 on 500 pairs: the highest, with 20 suggestions or more, is {highest:.3f}$"
    with pytest.raises(ValueError, match=message):
        choose_threshold(scores, right, 1, 100)
    with pytest.raises(ValueError, match="19 held-out pairs, expected 20 or more"):
        choose_threshold(scores[:19], right[:19], 0.5, 100)


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
    assert choose_threshold(scores, right, 0.8, None).table == table
    few = tabulate_thresholds(scores[:30], right[:30])
    assert [MIN_SUGGESTIONS <= round(row.coverage * 30) <= 30 for row in few] == [True] * len(few)
    assert tabulate_thresholds(scores[:19], right[:19]) == []


@pytest.mark.parametrize("candidates", [None, 10])
def test_calibration_agrees_with_a_loop_over_the_pairs(candidates, encoder):
    texts = make_texts(60)
    index = ReplyIndex.build(encoder, texts, duplicate_cosine=1)
    inputs, expected = make_texts(60, seed=1)[:40], texts[:40]
    expected[::2] = [best.text for [best] in index.suggest_many(inputs[::2], 1)]
    sampled_rows = np.random.default_rng(0).integers(len(texts), size=(40, 9))
    scores, right = [], []
    for number, (text, reply) in enumerate(zip(inputs, expected, strict=True)):
        pool = texts if candidates is None else [reply, *(texts[row] for row in sampled_rows[number])]
        [(best, score)] = brute_force_best(encoder, pool, text, 1)
        scores.append(score)
        right.append(best == reply)
    required = sum(right) / 40
    assert 0.4 < required < 1
    calibration = index.calibrate(inputs, expected, required, candidates)
    reference = choose_threshold(np.array(scores), np.array(right), required, candidates)
    assert calibration.threshold == pytest.approx(reference.threshold, rel=2e-3)
    assert (calibration.precision, calibration.coverage) == pytest.approx((reference.precision, reference.coverage))
    assert index.calibrate(inputs, expected, required, candidates) == calibration  # its own threshold does not matter
    with pytest.raises(ValueError, match="1 inputs and 2 expected texts, expected the same"):
        index.calibrate(texts[:1], texts[:2])


def test_the_best_of_a_sample_equals_a_loop_and_a_tie_goes_to_the_expected_vector():
    generator = np.random.default_rng(1)
    queries, expected = generator.standard_normal((2, 30, 4)).astype(np.float32)
    vectors = generator.standard_normal((20, 4)).astype(np.float16)
    expected[:5] = 9 * queries[:5]  # the best
    rows, scores = best_of_sample(queries, expected, vectors, 8)
    samples = np.random.default_rng(0).integers(20, size=(30, 7))
    for pair, sample in enumerate(samples):
        pool = [(float(queries[pair] @ expected[pair]), -1)]
        pool += [(float(queries[pair] @ vectors[row].astype(np.float32)), int(row)) for row in sample]
        score, row = max(pool)
        assert rows[pair] == row and scores[pair] == pytest.approx(score, rel=1e-5)
    assert set(rows[:5]) == {-1} and (rows[5:] >= 0).any()
    same = np.ones((3, 4), np.float32)
    assert best_of_sample(same, same, same, 5)[0].tolist() == [-1, -1, -1]
