"""`JointEncoder`: the scores of two models, weighted; the folder of both, and an index that both search."""

import numpy as np
import pytest

from modeling_convsim.encoding import Encoder, JointEncoder, joint
from modeling_convsim.encoding.joint import SECOND, write_share
from modeling_convsim.suggestion import ReplyIndex
from tests.modeling_convsim.suggestion.texts import QUERIES, make_texts
from tests.modeling_convsim.tiny_models import build, save

TURNS = [["the dog", "hello"], [], ["where is the cat"], ["no"]]


@pytest.fixture
def models():
    first, second = build("pretrained"), build("dan_lexical")
    second.config.context_weights = [0.5, 0.25]
    return first, second


@pytest.fixture
def parts(models, tiny_tokenizer) -> list[Encoder]:
    return [Encoder(model, tiny_tokenizer) for model in models]


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
    for call in (both.encode, both.stream):
        with pytest.raises(TypeError, match=r"\(\[text\]\)"):
            call("a text")
    with pytest.raises(ValueError, match=r"texts\[12\] is 5, a int"):
        list(both.stream([*replies[:12], 5, "yes"]))
    with pytest.raises(ValueError, match="share is 1, expected"):
        JointEncoder(*parts, 1)


def test_a_folder_of_two_models_and_its_index_are_opened_with_both(models, parts, tiny_tokenizer, tmp_path):
    folder = tmp_path / "run" / "model"
    save(models[0], tiny_tokenizer, folder)
    save(models[1], tiny_tokenizer, folder / SECOND)
    write_share(folder, 0.3)
    first = Encoder(models[0], tiny_tokenizer, str(folder))
    both = JointEncoder(first, parts[1], 0.3)
    opened = Encoder.from_pretrained(folder)
    assert isinstance(opened, JointEncoder) and opened.share == 0.3 and opened.name == str(folder)
    assert opened.description.count(" parameters") == 2
    np.testing.assert_array_equal(
        opened.encode(QUERIES, "query", contexts=TURNS), both.encode(QUERIES, "query", contexts=TURNS)
    )
    others = (JointEncoder(first, parts[1], 0.4), JointEncoder(first, first, 0.3), first)
    assert opened.digest() == both.digest() not in {other.digest() for other in others}

    built = ReplyIndex.build(both, make_texts(30), make_texts(30, seed=1))
    built.save(tmp_path / "run" / "index")
    loaded = ReplyIndex.load((tmp_path / "run").rename(tmp_path / "moved") / "index")
    assert isinstance(loaded.encoder, JointEncoder)
    assert loaded.suggest_many(QUERIES, contexts=TURNS) == built.suggest_many(QUERIES, contexts=TURNS)
    for other in others:
        with pytest.raises(ValueError, match=r"other weights than those of .*model: open it .* \(\.\./model\)"):
            ReplyIndex.load(tmp_path / "moved" / "index", other)
