"""The automatic estimate, against formulas in float64 and by hand, and the review of an index."""

import numpy as np
import pytest

from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.deduplication import canonical_form
from modeling_convsim.suggestion.estimate import (
    CONSTANT,
    COSINE,
    RECURRENCE,
    Estimator,
    Pairs,
    make_review,
    one_of,
    recurrence,
    review_pairs,
)
from tests.modeling_convsim.suggestion.texts import make_texts


def test_recurrence_is_the_mean_cosine_with_the_most_similar_hundredth_of_the_other_replies(encoder):
    for count, most_similar in ((40, 1), (250, 3)):
        replies = [*make_texts(count), *make_texts(count)[:3]]  # three of them occur twice
        vectors = encoder.encode(replies).astype(np.float64)
        means = []
        for row, vector in enumerate(vectors):
            others = sorted((float(vector @ other) for other in np.delete(vectors, row, axis=0)), reverse=True)
            means.append(np.mean(others[:most_similar]))
        assert recurrence(encoder, replies) == pytest.approx(np.mean(means), abs=1e-5)


def test_chances_agree_with_a_formula_in_float64(encoder):
    log, real = make_texts(50), make_texts(4, seed=1)
    suggestions = [make_texts(3, seed=2), [], [real[2], "the dog"], make_texts(1, seed=3)]
    estimator = Estimator(encoder, log)
    constant = CONSTANT + RECURRENCE * recurrence(encoder, log)
    for reply, texts, chances in zip(real, suggestions, estimator.chances(suggestions, real), strict=True):
        u, v = (encoder.encode(each, "response").astype(np.float64) for each in ([reply], texts))
        assert chances.tolist() == pytest.approx((1 / (1 + np.exp(-constant - COSINE * v @ u[0]))).tolist(), abs=1e-6)


def test_one_of_several_is_between_the_most_probable_and_independent_ones():
    chances = [np.array([0.5, 0.2]), np.array([0.3]), np.array([]), np.array([0.1, 0.1, 1.0])]
    assert one_of(chances) == pytest.approx([(0.5 + 0.6) / 2, 0.3, 0, 1])


def test_no_message_of_a_review_is_answered_by_itself_or_by_its_own_pair(encoder):
    messages, replies = make_texts(150), make_texts(150, seed=1)[:140]
    messages = [*messages[:140], messages[0].upper() + "!", "", "  "]  # a variant of a message, and blank ones
    replies = [*replies, messages[3], "bad", "sad"]  # a message as a reply
    index = ReplyIndex.build(encoder, replies, messages, duplicate_cosine=1)
    expected = ReplyIndex.build(encoder, replies, messages, duplicate_cosine=1)
    review_pairs(index)
    answers = {}
    for message, reply in zip(messages, replies, strict=True):
        answers.setdefault(canonical_form(message), set()).add(reply)
    assert len(index.review) == len({canonical_form(each.message) for each in index.review}) == 140
    for each in index.review:
        form, texts = canonical_form(each.message), [one.text for one in each.suggestions]
        assert form and each.reply in answers[form] and len(texts) == 3
        assert not {each.reply, *answers[form]} & set(texts) and form not in map(canonical_form, texts)
    assert index.is_estimated and not expected.review
    assert index.suggest_many(messages[:9])[0][0].text == expected.suggest_many(messages[:9])[0][0].text  # it has all


def test_a_review_has_up_to_200_messages_that_can_be_rated_and_few_pairs_have_none(encoder):
    index = ReplyIndex.build(encoder, make_texts(40))
    messages = [*make_texts(230, seed=1), "", "long " * 4001, "turns", "nothing"]
    contexts = [[]] * 232 + [["a"] * 51, []]
    suggestions = [*index.suggest_many(messages[:-1]), []]
    review = make_review(suggestions, Pairs(messages, ["real"] * 234, contexts))
    names = [each.message for each in review]
    assert len(names) == len(set(names)) == 200 and set(names) <= set(messages[:230]) and names != messages[:200]
    few = make_review(suggestions[200:], Pairs(messages[200:], ["real"] * 34, contexts[200:]))
    assert {each.message for each in few} == set(messages[200:230])
    few = ReplyIndex.build(encoder, make_texts(19), make_texts(19, seed=1))
    review_pairs(few)
    assert not few.review and few.settings.curve is None
    review_pairs(index)  # which has no messages
    assert not index.review
