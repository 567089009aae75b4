"""Precision by score, from held-out pairs."""

from types import SimpleNamespace

import numpy as np
import pytest
from modeling_convsim.suggestion.calibration import MIN_SUGGESTIONS, Calibration, choose_examples, text_cosines

from modeling_convsim.suggestion import ReplyIndex
from tests.modeling_convsim.suggestion.texts import QUERIES, make_texts


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
    calibration = Calibration.measure(scores, right)
    assert calibration.pairs == 2500 and len(calibration.table) == len(rows) == 9
    for row, part in zip(calibration.table, rows, strict=True):
        # not at a score, whose last digits vary
        assert scores[~part].max(initial=-9) < row.threshold < scores[part].min()
        assert (row.precision, row.coverage) == pytest.approx((right[part].mean(), part.mean()))
        # of a score, the precision of those that reach the threshold below it
        assert calibration.precision(float(scores[part].min())) == row.precision
    assert calibration.precision(-99) == calibration.table[-1].precision == pytest.approx(right.mean())
    few = Calibration.measure(scores[:30], right[:30])
    assert [MIN_SUGGESTIONS <= round(row.coverage * 30) <= 30 for row in few.table] == [True] * len(few.table)


def test_calibration_agrees_with_a_loop_over_the_pairs(encoder):
    texts, known = make_texts(60), make_texts(60, seed=2)
    index = ReplyIndex.build(encoder, texts, known)
    messages, replies = make_texts(60, seed=1)[:40], texts[:40]
    replies[::2] = [best.text for [best] in index.suggest_many(messages[::2], 1)]
    messages[1] = texts[7]  # no suggestion for itself
    messages[3] = ""
    asked = np.hstack([encoder.encode(messages, "query"), 0.5 * encoder.encode(messages)]).astype(np.float64)
    scores = asked @ index.vectors.astype(np.float64).T
    scores[1, 7] = -9
    best = scores.argmax(axis=1)
    embeddings, real = encoder.encode(texts).astype(np.float64)[best], encoder.encode(replies).astype(np.float64)
    right = (embeddings * real).sum(axis=1) >= 0.6
    found = scores.max(axis=1)
    found[3], right[3] = -9, False
    calibration, expected = index.calibrate(messages, replies), Calibration.measure(found, right)
    assert index.settings.calibration == calibration and 0.4 < right.mean() < 1
    assert [(row.precision, row.coverage) for row in calibration.table] == [
        (row.precision, row.coverage) for row in expected.table
    ]
    assert [row.threshold for row in calibration.table[:-1]] == pytest.approx(
        [row.threshold for row in expected.table[:-1]], rel=2e-3
    )
    first, *others = index.suggest(QUERIES[0])
    assert first.precision == calibration.precision(first.score)
    assert len(others) == 2 and not any(one.precision for one in others)  # the best suggestions were measured
    assert ReplyIndex.build(encoder, texts).suggest(QUERIES[0])[0].precision is None


def test_a_suggestion_is_right_if_a_judge_finds_that_it_answers_to_the_same_effect(encoder):
    index = ReplyIndex.build(encoder, ["the dog"], duplicate_cosine=1)
    for cosine in (0.61, 0.59):
        vectors = {"the dog": [1, 0], "a cat": [cosine, np.sqrt(1 - cosine**2)]}
        judge = SimpleNamespace(encode=lambda texts, known=vectors: np.array([known[text] for text in texts]))
        calibration = index.calibrate(["hello"] * 20, ["a cat"] * 20, judge)
        assert calibration.table[0].precision == (cosine > 0.6)


def test_the_cosine_of_variants_is_one_and_that_of_no_text_minus_one():
    vectors = {"Yes!": [1, 0], "yes": [0, 1], "sure": [0.6, 0.8], "": [1, 0], "right": [1, 0]}
    judge = SimpleNamespace(encode=lambda texts: np.array([vectors[text] for text in texts]))
    pairs = [("Yes!", "yes"), ("sure", "right"), ("yes", "right"), ("", "right")]
    assert text_cosines(judge, *zip(*pairs, strict=True)) == pytest.approx([1, 0.6, 0, -1])


def test_examples_are_some_distinct_short_messages_of_one_line():
    unsuitable = ["", "two\nlines", "a" * 61]
    messages = [f"message {n}" for n in range(20)]
    chosen = choose_examples([*unsuitable, *messages, *messages])
    assert len(set(chosen)) == len(chosen) == 5 and set(chosen) < set(messages)
    assert chosen == choose_examples([*unsuitable, *messages]) != messages[:5]
    assert choose_examples(["b", *unsuitable]) == ["b"] and choose_examples([]) == []
