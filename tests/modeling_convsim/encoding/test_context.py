"""Vectors of texts in their conversation, against a loop in float64."""

import numpy as np
import pytest
from huggingface_hub.errors import StrictDataclassClassValidationError

from modeling_convsim.encoding import Encoder
from modeling_convsim.modeling_dan import ConvSimDanConfig
from modeling_convsim.suggestion import ReplyIndex
from tests.modeling_convsim.tiny_models import build, save

TEXTS = ["do you like the dog", "yes", "where is the cat", "the dog"]
CONTEXTS = [["where is the cat", " ", "the big dog", "hello"], [], ["", "do you like the dog"], ["yes", "no"]]
WEIGHTS = [0.5, 0.25]


# With query vectors, whose length is learned, or without them.
@pytest.fixture(scope="module", params=[("dan_input_network", False), ("dan_best", True)])
def encoder(request, tiny_tokenizer) -> Encoder:
    kind, is_normalized = request.param
    return Encoder(build(kind, normalize_response=is_normalized), tiny_tokenizer)


@pytest.fixture
def weighted(encoder, monkeypatch) -> Encoder:
    monkeypatch.setattr(encoder.model.config, "context_weights", WEIGHTS)
    return encoder


@pytest.mark.parametrize("side", ["input", "query"])
def test_turns_are_added_by_their_weights_and_the_length_is_that_of_the_text(weighted, side):
    """Blank turns are left out, and the turns after the last weight."""
    vectors = weighted.encode(TEXTS, side, contexts=CONTEXTS)
    assert vectors.dtype == np.float32
    turns = [["where is the cat", "the big dog"], [], ["do you like the dog"], ["yes", "no"]]
    for text, context, vector in zip(TEXTS, turns, vectors, strict=True):
        own, *others = weighted.encode([text, *context], side).astype(np.float64)
        total = own + sum(weight * other for weight, other in zip(WEIGHTS, others, strict=False))
        np.testing.assert_allclose(vector, total * np.linalg.norm(own) / np.linalg.norm(total), atol=1e-6)
    assert not np.allclose(vectors[0], weighted.encode(TEXTS[:1], side)[0], atol=1e-2)


def test_without_weights_or_turns_the_vectors_are_those_of_the_texts(encoder, monkeypatch):
    alone = encoder.encode(TEXTS)
    np.testing.assert_array_equal(encoder.encode(TEXTS, contexts=CONTEXTS), alone)
    monkeypatch.setattr(encoder.model.config, "context_weights", WEIGHTS)
    np.testing.assert_array_equal(encoder.encode(TEXTS, contexts=[[]] * 4), alone)


def test_each_distinct_turn_is_encoded_once(weighted, monkeypatch):
    encoded, tokenize = [], weighted._tokenize
    monkeypatch.setattr(weighted, "_tokenize", lambda texts: encoded.extend(texts) or tokenize(texts))
    weighted.encode(["a", "b", "c"], contexts=[["x", "y"], ["x", "z"], ["y", "x"]])
    assert encoded == ["a", "b", "c", "x", "y", "z"]


def test_what_is_no_context_is_refused(weighted):
    with pytest.raises(ValueError, match="4 texts and 1 contexts, expected the same number"):
        weighted.encode(TEXTS, contexts=[["yes"]])
    with pytest.raises(TypeError, match="a single string, expected several texts: contexts="):
        weighted.encode(["yes"], contexts=["no"])
    with pytest.raises(ValueError, match="contexts cannot be combined with side='response'"):
        weighted.encode(["yes"], "response", contexts=[["no"]])
    for wrong in ([-0.1], [float("nan")], [0.5, float("inf")]):
        with pytest.raises(StrictDataclassClassValidationError, match="context_weights is"):
            ConvSimDanConfig(context_weights=wrong)


def test_the_weights_are_saved_with_the_model(tiny_tokenizer, tmp_path):
    model = build("dan_input_network")
    model.config.context_weights = WEIGHTS
    assert Encoder.from_pretrained(save(model, tiny_tokenizer, tmp_path)).model.config.context_weights == WEIGHTS


def test_suggestions_follow_the_conversation_and_repeat_none_of_its_turns(weighted):
    """The score of a reply has the context; that of the message that it answered has not, which was asked without."""
    replies = ["yes please", "no", "a big house", "see you tomorrow", "where is the dog"]
    messages = ["do you like it", "are you old", "where do you live", "bye", "the cat"]
    index = ReplyIndex.build(weighted, replies, messages, message_weight=0.5, duplicate_cosine=1)
    context = ["see you tomorrow!", "where is the cat"]
    found = index.suggest("the dog", 5, context=context)
    u = weighted.encode(["the dog"], "query", contexts=[context])[0]
    expected = weighted.encode(replies, "response") @ u
    expected += 0.5 * weighted.encode(messages) @ weighted.encode(["the dog"])[0]
    assert {one.text for one in found} == set(replies) - {"see you tomorrow"}
    for one in found:
        assert one.score == pytest.approx(expected[replies.index(one.text)], abs=2e-3)
    [[best], _] = index.suggest_many(["the dog", "yes"], 1, contexts=[context, []])
    assert (best.text, best.score) == (found[0].text, pytest.approx(found[0].score, abs=1e-6))
    with pytest.raises(ValueError, match="2 messages and 1 contexts"):
        index.suggest_many(["the dog", "yes"], contexts=[context])
