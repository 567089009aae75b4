"""Suggestions against a brute-force search in float64."""

import numpy as np
import pytest

from modeling_convsim.suggestion import ReplyIndex, search
from modeling_convsim.suggestion.calibration import choose_threshold
from tests.modeling_convsim.suggestion.texts import QUERIES, REPLIES, brute_force_best, make_texts


def test_suggestions_agree_with_a_brute_force_search_in_float64(encoder, many):
    replies = many.replies.texts
    for query, suggestions in zip(QUERIES, many.suggest_many(QUERIES, 5), strict=True):
        expected = brute_force_best(encoder, replies, query, 5)
        np.testing.assert_allclose([one.score for one in suggestions], [score for _, score in expected], rtol=2e-3)
        assert suggestions[0].text == expected[0][0]
    assert many.suggest(QUERIES[0], 5) == many.suggest_many(QUERIES[:1], 5)[0]


def test_questions_are_found_by_the_cosine_of_sentence_embeddings(encoder):
    texts = make_texts(50)
    index = ReplyIndex.build(encoder, texts, "input", [f"answer to {text}" for text in texts], duplicate_cosine=1)
    [best] = index.suggest(texts[7], 1)
    assert (best.text, best.answer) == (texts[7], f"answer to {texts[7]}")
    u, v = encoder.encode(["the dog", texts[7]]).astype(np.float64)
    assert best.score == pytest.approx(1, abs=2e-3)
    [score] = [one.score for one in index.suggest("the dog", 50, -np.inf) if one.text == texts[7]]
    assert score == pytest.approx(u @ v, abs=2e-3)


def test_a_suggestion_has_the_number_of_its_occurrences(encoder):
    index = ReplyIndex.build(encoder, REPLIES, duplicate_cosine=1)
    counts = {"yes please": 3, "no": 2, "I like the dog": 1, "a big house": 1, "see you tomorrow": 1}
    assert {one.text: one.count for one in index.suggest(QUERIES[0], 5)} == counts
    assert {one.text: one.count for one in index.only(["NO", "a big house"]).suggest(QUERIES[0], 5)} == {
        "no": 2, "a big house": 1,
    }  # fmt: skip


@pytest.mark.parametrize("side", ["response", "input"])
def test_near_duplicates_are_not_suggested_together(encoder, side):
    texts = make_texts(300)
    index = ReplyIndex.build(encoder, texts, side, duplicate_cosine=0.8)
    vectors = encoder.encode(texts)
    for query in QUERIES:
        remaining: list[np.ndarray] = []
        expected = []
        best = brute_force_best(encoder, texts, query, 64 * 4)
        if side == "input":
            order = np.argsort(-(vectors @ encoder.encode([query])[0]), kind="stable")[: 64 * 4]
            best = [(texts[row], 0.0) for row in order]
        for text, _ in best:
            vector = encoder.encode([text])[0].astype(np.float64)
            if all(vector @ other < 0.8 for other in remaining) and len(remaining) < 4:
                remaining.append(vector)
                expected.append(text)
        assert [one.text for one in index.suggest(query, 4, -np.inf)] == expected


def test_the_score_has_the_reply_and_the_best_of_the_messages_that_it_answered(encoder):
    """Against a loop in float64; "Yes" and "yes!" are one reply, which answered three of the messages."""
    messages, replies = make_texts(40), make_texts(40, seed=1)
    replies[:3] = ["yes", "Yes!", "yes"]
    index = ReplyIndex.build(encoder, replies, questions=messages, message_weight=0.7, duplicate_cosine=1)
    assert len(index) == 38 and len(index.vectors) == 40 and index.total == 40
    u, asked = (encoder.encode(QUERIES, side).astype(np.float64) for side in ("query", "input"))
    v = encoder.encode(["yes"] * 3 + replies[3:], "response").astype(np.float64)
    scores = u @ v.T + 0.7 * asked @ encoder.encode(messages).astype(np.float64).T
    for suggestions, row in zip(index.suggest_many(QUERIES, 38), scores, strict=True):
        best = {"yes": row[:3].max(), **dict(zip(replies[3:], row[3:], strict=True))}
        assert {one.text for one in suggestions} == set(best)
        np.testing.assert_allclose([one.score for one in suggestions], sorted(best.values())[::-1], rtol=2e-3)
        answered = {one.text: one.question for one in suggestions}
        assert answered["yes"] == messages[int(row[:3].argmax())] and answered[replies[5]] == messages[5]
    assert index.only(["YES", replies[5]]).suggest(QUERIES[0], 5)[0].count in (1, 3)
    shown = ReplyIndex.build(encoder, replies, questions=messages, message_weight=0, duplicate_cosine=1)
    alone = ReplyIndex.build(encoder, replies, duplicate_cosine=1)
    for with_messages, without in zip(*(one.suggest_many(QUERIES, 5) for one in (shown, alone)), strict=True):
        assert [one.score for one in with_messages] == [one.score for one in without]
        assert {one.question for one in with_messages} <= set(messages)
    index.message_weight = 0.0
    assert [one.text for one in index.suggest(QUERIES[0], 5)] == [one.text for one in alone.suggest(QUERIES[0], 5)]


def test_the_agreement_with_the_best_replies_is_added_to_the_score(encoder):
    """Against a loop in float64: the expected cosine of a reply with one of the 20 best, which exclude the text."""
    replies = [*make_texts(30, seed=1), QUERIES[0]]
    index = ReplyIndex.build(encoder, replies, duplicate_cosine=1)
    plain = index.suggest_many(QUERIES, 31)
    embeddings = dict(zip(replies, encoder.encode(replies).astype(np.float64), strict=True))
    index.consensus_weight = 1.5
    for suggestions, known in zip(index.suggest_many(QUERIES, 31), plain, strict=True):
        assert {one.text for one in suggestions} == {one.text for one in known} and len(known) in (30, 31)
        peers = known[:20]
        weights = np.exp([(one.score - known[0].score) / 0.1 for one in peers])
        expected = {}
        for one in known:
            cosines = [embeddings[one.text] @ embeddings[peer.text] for peer in peers]
            expected[one.text] = one.score + 1.5 * (weights * cosines).sum() / weights.sum()
        for one in suggestions:
            assert one.score == pytest.approx(expected[one.text], abs=1e-4)
        assert [one.score for one in suggestions] == sorted([one.score for one in suggestions], reverse=True)
    few = index.suggest_many(QUERIES, 3)
    for few_of_query, all_of_query in zip(few, index.suggest_many(QUERIES, 31), strict=True):
        assert few_of_query[0].score >= few_of_query[-1].score and few_of_query[0].text in {
            one.text for one in all_of_query
        }
    assert index.only(replies[:5]).consensus_weight == 1.5


def test_a_text_does_not_answer_itself_and_one_without_known_tokens_gets_nothing(encoder):
    index = ReplyIndex.build(encoder, ["The dog!", *make_texts(20)], duplicate_cosine=1)
    assert len(index.suggest("the dog", 30)) == 20 and len(index.suggest("the cat", 30)) == 21
    for nothing in ("", "  ", "\u5317\u4eac"):
        assert index.suggest(nothing, 3, -np.inf) == []
    questions = ReplyIndex.build(encoder, ["The dog!", *make_texts(20)], "input")
    assert questions.suggest("the dog", 1, -np.inf)[0].text == "The dog!"


def test_a_question_that_an_index_lacks_finds_nothing(encoder):
    """Four of five questions, left out in turn, are below the threshold; the same answer is no wrong one."""
    texts = make_texts(60)
    answers = [f"answer {number // 2}" for number in range(len(texts))]
    vectors = encoder.encode(texts).astype(np.float64)
    for known in (answers, None):
        index = ReplyIndex.build(encoder, texts, "input", known, duplicate_cosine=0.95)
        highest = []
        for row in range(len(texts)):
            cosines = vectors @ vectors[row]
            others = np.arange(len(texts)) // 2 != row // 2 if known else cosines < 0.95
            highest.append(cosines[others].max())
        assert np.mean(np.array(highest) < index.threshold) == pytest.approx(0.8, abs=0.02)
        assert index.suggest(texts[3], 1)[0].text == texts[3] and index.threshold < 1
    assert 0 < ReplyIndex.build(encoder, ["the dog"], "input").threshold < 1


def test_diverse_suggestions_differ_more_and_start_with_the_best(encoder, many):
    def similarity(suggestions) -> float:
        vectors = encoder.encode([one.text for one in suggestions])
        return float((vectors @ vectors.T)[np.triu_indices(3, 1)].mean())

    plain, diverse = (many.suggest_many(QUERIES, 3, diversity=diversity) for diversity in (0, 0.9))
    assert [best[0] for best in plain] == [best[0] for best in diverse]
    assert np.mean([*map(similarity, diverse)]) < np.mean([*map(similarity, plain)]) - 0.05
    deduplicated = ReplyIndex.build(encoder, REPLIES, duplicate_cosine=0.95)
    assert {one.text for one in deduplicated.suggest(QUERIES[0], 9, diversity=0.5)} == {
        one.text for one in deduplicated.suggest(QUERIES[0], 9)
    }
    with pytest.raises(ValueError, match=r"diversity is 1.1, expected a number from 0 to 1"):
        many.suggest("hello", diversity=1.1)


def test_replies_below_the_threshold_are_not_suggested(encoder):
    index = ReplyIndex.build(encoder, make_texts(60), duplicate_cosine=1)
    scores = [one.score for one in index.suggest(QUERIES[0], 60)]
    middle = (scores[1] + scores[2]) / 2
    assert [one.score for one in index.suggest(QUERIES[0], 5, middle)] == scores[:2]
    assert [one.score for one in index.suggest(QUERIES[0], 5, scores[2])] == scores[:3]
    assert index.suggest(QUERIES[0], 5, scores[0] + 1) == []
    index.calibration = choose_threshold(np.array([scores[0] + 1] * 20), np.ones(20, bool), 0.8)
    assert index.suggest(QUERIES[0]) == [] and len(index.suggest(QUERIES[0], threshold=-np.inf)) == 3


def test_large_index_gives_the_suggestions_of_an_exact_one(many, encoder, monkeypatch):
    monkeypatch.setattr(search, "FAISS_FROM", 100)
    large = ReplyIndex.build(encoder, many.replies.texts, duplicate_cosine=1)
    assert large.vectors.dtype == np.float16 and many.vectors.dtype == np.float32
    allowed = many.replies.texts[:150]
    for ours, theirs in ((large, many), (large.only(allowed), many.only(allowed))):
        for suggestions, expected in zip(ours.suggest_many(QUERIES, 5), theirs.suggest_many(QUERIES, 5), strict=True):
            np.testing.assert_allclose([one.score for one in suggestions], [one.score for one in expected], rtol=1e-5)
