"""`ReplyIndex.calibrate` and `automatic`: what ratings say of suggestions."""

import json
from dataclasses import replace

import numpy as np
import pytest

from modeling_convsim.suggestion import ReplyIndex
from modeling_convsim.suggestion.probability import Curve, find_threshold
from tests.modeling_convsim.suggestion.texts import QUERIES, make_texts


def rate(index, messages, answer) -> list[dict]:
    """Ratings of three suggestions for each message."""
    return [
        {"message": text, "reply": one.text, "score": one.score, "rating": answer(number, place)}
        for number, text in enumerate(messages)
        for place, one in enumerate(index.suggest(text))
    ]


@pytest.fixture
def rated(encoder):
    """An index and ratings of its suggestions, of which the first one can be sent most often."""
    index = ReplyIndex.build(encoder, make_texts(60), duplicate_cosine=1)
    answers = np.random.default_rng(0).choice(["send", "edit", "no"], (40, 3), p=[0.3, 0.3, 0.4])
    answers[:25, 0], answers[10:, 2] = "send", "no"
    ratings = rate(index, make_texts(40, seed=1), lambda number, place: str(answers[number, place]))
    return index, ratings


def test_probabilities_follow_the_last_ratings_that_have_a_score(rated, tmp_path):
    index, ratings = rated
    assert index.suggest(QUERIES[0])[0].probability is None and index.suggest(QUERIES[0], min_probability=0.1) == []
    scores, good = (np.array([each[name] for each in ratings]) for name in ("score", "rating"))
    curve = Curve.fit(scores, good != "no", estimated=False)
    unscored = [{**each, "message": "x", "score": None, "rating": "send"} for each in ratings]
    opposite = [{**each, "rating": "no"} for each in ratings[::2]]
    (tmp_path / "mine.jsonl").write_text("\n".join(map(json.dumps, [*opposite, *unscored, *ratings])))
    assert index.calibrate(tmp_path / "mine.jsonl") and not index.is_estimated
    assert index.settings.curve == index.only(index.replies.texts[:9]).settings.curve
    suggestions = index.suggest(QUERIES[0], 30)
    chances = [1 / (1 + np.exp(-curve.intercept - curve.slope * one.score)) for one in suggestions]
    assert [one.probability for one in suggestions] == pytest.approx(chances, abs=1e-4)
    assert chances[0] > chances[9] + 0.1
    least = suggestions[4].probability
    assert index.suggest(QUERIES[0], 30, min_probability=least) == suggestions[:5]
    assert index.suggest(QUERIES[0], 3, min_probability=least) == suggestions[:3]
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match=r"min_probability is .*, expected a number from 0 to 1"):
            index.suggest("hello", min_probability=wrong)


def test_few_ratings_or_an_invalid_one_change_no_probability(rated):
    index, ratings = rated
    same = [{**each, "rating": "edit"} for each in ratings]
    estimated = Curve(0.1, 0.2, True, [])
    index.settings = replace(index.settings, curve=estimated)
    for few in (ratings[:29], ratings[:29] * 2, same, [{**each, "rating": "no"} for each in same], []):
        assert not index.calibrate(few) and index.settings.curve is estimated and index.is_estimated
    assert index.calibrate(iter([*same[:29], {**same[29], "rating": "no"}]))  # thirty, of both kinds
    curve, known = index.settings.curve, index.ratings
    for wrong in ({**ratings[0], "rating": "yes"}, {"message": "a"}, {**ratings[0], "score": np.nan}, "send"):
        with pytest.raises(ValueError, match=r"\$\[120\]"):
            index.calibrate([*ratings, wrong])
        assert index.settings.curve is curve and index.ratings is known


def test_automatic_replies_are_those_whose_like_were_sent_as_they_are(encoder):
    """Of each message, the rating of the best suggestion counts, whichever was rated first; edits are not right."""
    index, messages = ReplyIndex.build(encoder, make_texts(60), duplicate_cosine=1), make_texts(90, seed=1)
    firsts = np.array([index.suggest(text)[0].score for text in messages])
    is_right = firsts > np.median(firsts)
    answers = np.where(is_right, "send", "edit")
    ratings = rate(index, messages, lambda number, place: "no" if place else str(answers[number]))
    ratings = [*ratings[::-1], {"message": messages[0], "reply": "x", "rating": "no"}]
    assert index.automatic(messages[int(firsts.argmax())], 0.5) is None  # without ratings
    index.calibrate(ratings)
    lowest = find_threshold(firsts[::-1], is_right[::-1], 0.8).score
    assert 20 < (firsts >= lowest).sum() < 60 and index.threshold(0.8).score == lowest
    found = [index.automatic(text, 0.8) for text in messages]
    assert [each is not None for each in found] == (firsts >= lowest).tolist()
    assert [each for each in found if each] == [index.suggest(text)[0] for text in np.array(messages)[firsts >= lowest]]
    index.calibrate([{**each, "message": "hello", "context": [each["message"]]} for each in ratings])
    assert index.threshold(0.8).score == lowest
    settings = index.settings
    assert index.automatic(messages[int(firsts.argmax())], 0.999) is None and index.settings is settings
    index.calibrate([{**each, "rating": "edit"} if each["rating"] == "send" else each for each in ratings])
    assert not any(index.automatic(text, 0.8) for text in messages) and index.settings.curve == settings.curve
    for wrong in (0, 1, float("nan")):
        with pytest.raises(ValueError, match=r"precision is .*, expected a number above 0 and below 1"):
            index.automatic("hello", wrong)
