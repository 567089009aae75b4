"""`JointEncoder`: the scores of two models, weighted, and the index that both search."""

import numpy as np
import pytest

from modeling_convsim.encoding import Encoder, JointEncoder, joint
from modeling_convsim.suggestion import ReplyIndex
from tests.modeling_convsim.suggestion.texts import QUERIES, make_texts
from tests.modeling_convsim.tiny_models import build, save

TURNS = [["the dog", "hello"], [], ["where is the cat"], ["no"]]


@pytest.fixture
def parts(tiny_tokenizer) -> tuple[Encoder, Encoder]:
    first, second = (Encoder(build(name), tiny_tokenizer) for name in ("pretrained", "dan_lexical"))
    second.model.config.context_weights = [0.5, 0.25]
    return first, second


def test_the_scores_are_the_weighted_means_of_those_of_both(parts, monkeypatch):
    monkeypatch.setattr(joint, "CHUNK", 7)
    both, replies = JointEncoder(*parts, 0.3), make_texts(20)
    for side, options in (("input", {}), ("query", {}), ("query", {"contexts": TURNS})):
        queries = [each.encode(QUERIES, side, **options) for each in (*parts, both)]
        answers = [each.encode(replies, "response" if side == "query" else side) for each in (*parts, both)]
        first, second, found = (one @ other.T for one, other in zip(queries, answers, strict=True))
        np.testing.assert_allclose(found, 0.7 * first + 0.3 * second, rtol=0, atol=1e-6)
        assert queries[2].shape[1] == both.vector_size(side) == sum(each.vector_size(side) for each in parts)
    streamed = np.concatenate(list(both.stream(iter(replies), "response")))
    np.testing.assert_allclose(streamed, answers[2], rtol=0, atol=1e-6)
    assert both.embedding_size == 16 + 8 and both.has_query_vectors and both.uses_context
    assert both.knows(["the dog", ""]).tolist() == [True, False]
    with pytest.raises(TypeError, match=r"encode\(\[text\]\)"):
        both.encode("a text")
    with pytest.raises(ValueError, match="share is 1, expected"):
        JointEncoder(*parts, 1)


def test_an_index_of_two_models_is_opened_with_both(parts, tmp_path):
    for name, encoder in zip(("one", "two"), parts, strict=True):
        encoder.model.name_or_path = str(save(encoder.model, encoder.tokenizer, tmp_path / name))
    first, second = (Encoder.from_pretrained(tmp_path / name) for name in ("one", "two"))
    built = ReplyIndex.build(JointEncoder(first, second, 0.3), make_texts(30), make_texts(30, seed=1))
    built.save(tmp_path / "index")
    loaded = ReplyIndex.load(tmp_path / "index")
    assert isinstance(loaded.encoder, JointEncoder) and loaded.encoder.share == 0.3
    assert loaded.suggest_many(QUERIES, contexts=TURNS) == built.suggest_many(QUERIES, contexts=TURNS)
    with pytest.raises(ValueError, match="was built with two models"):
        ReplyIndex.load(tmp_path / "index", first)
    with pytest.raises(ValueError, match=r"other weights than those of .*one: open it .* \(then .*two\)"):
        ReplyIndex.load(tmp_path / "index", JointEncoder(first, first, 0.3))
    ReplyIndex.build(first, make_texts(3)).save(tmp_path / "single")
    with pytest.raises(ValueError, match="was built with one model"):
        ReplyIndex.load(tmp_path / "single", JointEncoder(first, second, 0.3))
