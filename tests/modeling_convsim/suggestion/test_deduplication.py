"""Variants, near-duplicates and diverse suggestions."""

import numpy as np
import pytest

from modeling_convsim.suggestion.deduplication import (
    canonical_form,
    deduplicate,
    drop_near_duplicates,
    select_diverse,
)
from tests.modeling_convsim.suggestion.texts import REPLIES


@pytest.mark.parametrize(
    ("a", "b", "are_equal"),
    [
        ("Straße", "STRASSE", True),
        ("Don't  worry", "don’t worry.", True),
        ("Well-known…", "well known", True),
        ("OK", "ｏｋ", True),
        ("It costs 5%", "It costs 5", False),
        ("-1", "1", False),
        (":)", "?!", False),
    ],
)
def test_canonical_form_ignores_case_punctuation_and_white_space(a, b, are_equal):
    assert (canonical_form(a) == canonical_form(b)) is are_equal


def test_variants_are_merged_into_the_most_frequent_one_with_the_total_count():
    replies = deduplicate([*REPLIES, " ", ""])
    assert replies.texts == ["yes please", "no", "I like the dog", "a big house", "see you tomorrow"]
    assert replies.counts.tolist() == [3, 2, 1, 1, 1]
    assert deduplicate(["A?", "b", "a", "a"], ["1", "2", "3", "4"]).messages == ["3", "2"]
    replies = deduplicate(["Yes!", "yes", "no", "yes", "Yes!"], ["1", "2", "3", "4", "5"])  # as frequent: the first
    assert (replies.texts, replies.counts.tolist(), replies.messages) == (["Yes!", "no"], [4, 1], ["1", "3"])
    replies = deduplicate(["Yes!", "yes", "no", "yes", "Yes!"], ["1", "2", "3", "2", "4"], keep_all=True)
    assert (replies.texts, replies.messages) == (["Yes!"] * 3 + ["no"], ["1", "4", "2", "3"])
    assert replies.counts.tolist() == [4, 4, 4, 1]


def test_embeddings_with_exactly_the_limiting_cosine_are_near_duplicates():
    embeddings = np.array([[1, 0], [0.6, 0.8], [0, 1], [1, 0]], np.float32)
    assert drop_near_duplicates(embeddings, np.float32(0.6), 9) == [0, 2]
    assert drop_near_duplicates(embeddings, 0.7, 9) == [0, 1]  # 0.6, 0.8 and 0, 1 have a cosine of 0.8
    assert drop_near_duplicates(embeddings[::-1], 0.9, 2) == [0, 1]


@pytest.mark.parametrize("diversity", [0, 0.3, 1])
@pytest.mark.parametrize(("lowest", "highest"), [(0, 1), (0.8, 0.9), (-3, -1)])
def test_diverse_texts_agree_with_a_loop_over_marginal_relevance(diversity, lowest, highest):
    generator = np.random.default_rng(0)
    embeddings = generator.standard_normal((12, 3))
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    scores = np.sort(generator.uniform(lowest, highest, 12))[::-1]
    expected = [0]
    while len(expected) < 5:
        values = {
            row: (1 - diversity) * (scores[row] - scores[-1]) / (scores[0] - scores[-1])
            - diversity * max(float(embeddings[row] @ embeddings[other]) for other in expected)
            for row in range(12)
            if row not in expected
        }
        expected.append(max(values, key=values.__getitem__))
    assert select_diverse(scores, embeddings, 5, diversity) == expected
    assert (expected == [0, 1, 2, 3, 4]) is (diversity == 0)
    assert select_diverse(scores[:2], embeddings[:2], 5, diversity) == [0, 1]
    assert select_diverse(np.ones(4), embeddings[:4], 2, diversity)[0] == 0  # equal scores
    assert select_diverse(scores[:0], embeddings[:0], 5, diversity) == []
