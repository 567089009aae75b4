"""Vectors that are not finite, and texts that cannot be encoded, are named instead of giving no suggestion."""

import numpy as np
import pytest
import torch

from modeling_convsim.encoding import Encoder
from modeling_convsim.encoding.text_errors import TextError
from modeling_convsim.suggestion import ReplyIndex, search
from modeling_convsim.suggestion.__main__ import main
from modeling_convsim.suggestion.deduplication import Replies
from tests.modeling_convsim.suggestion.test_suggestion import make_texts
from tests.modeling_convsim.tiny_models import build

REPLIES = make_texts(120)


@pytest.fixture(scope="module")
def folder(tiny_tokenizer, tmp_path_factory):
    path = tmp_path_factory.mktemp("model")
    build("dan_best").save_pretrained(path)
    tiny_tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def encoder(folder):
    return Encoder.from_pretrained(folder, "cpu")


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_saved_index_with_a_damaged_vector_is_refused_by_the_command(value, folder, encoder, tmp_path, capsys):
    ReplyIndex.build(encoder, REPLIES).save(tmp_path / "index")
    vectors = np.load(tmp_path / "index" / "vectors.npy")
    vectors[7, 3] = value
    np.save(tmp_path / "index" / "vectors.npy", vectors)
    (tmp_path / "index" / "SHA256SUMS").unlink()  # as in an index of an earlier version
    capsys.readouterr()
    assert main(["suggest", str(tmp_path / "index"), "hello", "--device", "cpu"]) == 2
    [error] = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert f"{REPLIES[7]!r}: its vector is damaged (not finite): rebuild the index" in error


def test_damaged_vector_on_disk_is_refused_when_it_is_scored(encoder, monkeypatch):
    """The vectors of a large index are not all read when it is opened."""
    monkeypatch.setattr(search, "INT8_FROM", 100)
    index = ReplyIndex.build(encoder, REPLIES)
    vectors = index.vectors.copy()
    vectors[:] = np.nan
    quantized = search.quantize(index.vectors)
    damaged = ReplyIndex(encoder, index.replies, vectors, quantized=quantized)
    with pytest.raises(ValueError, match="its vector is damaged"):
        damaged.suggest("hello")
    with pytest.raises(ValueError, match="holds vectors that are damaged"):
        damaged.calibrate(REPLIES[:30], REPLIES[:30], 0.1)
    with pytest.raises(ValueError, match="its vector is damaged"):
        ReplyIndex(encoder, index.replies, vectors)


def test_model_whose_vectors_are_not_finite_is_refused(tiny_tokenizer, encoder):
    model = build("dan_best")
    broken = Encoder(model, tiny_tokenizer)
    built = ReplyIndex.build(encoder, REPLIES)
    with torch.no_grad():
        model.encoder.layers[-1].weight.fill_(float("nan"))
    index = ReplyIndex(broken, built.replies, built.vectors)
    for ask in (lambda: index.suggest("hello"), lambda: index.calibrate(REPLIES[:30], REPLIES[:30], 0.1)):
        with pytest.raises(ValueError, match=r"the model gives vectors that are not finite: its weights are damaged"):
            ask()
    with pytest.raises(ValueError, match="the model gives a vector that is not finite, or too large for float16"):
        ReplyIndex.build(broken, REPLIES)


def test_vector_too_large_for_float16_is_refused(tiny_tokenizer):
    model = build("dan")  # whose response vectors are not normalized
    with torch.no_grad():
        model.response_head.layers[-1].bias.fill_(1e6)
    with pytest.raises(ValueError, match=f"^{REPLIES[0]!r}: the model gives a vector that is .* too large for float16"):
        ReplyIndex.build(Encoder(model, tiny_tokenizer), REPLIES)


def test_single_string_is_refused(encoder):
    with pytest.raises(TypeError, match=r"build\(encoder, \[text\]\)"):
        ReplyIndex.build(encoder, "hello")
    with pytest.raises(TypeError, match=r"answers=\[answer\]"):
        ReplyIndex.build(encoder, ["hello"], "input", "hello")
    index = ReplyIndex.build(encoder, REPLIES)
    with pytest.raises(TypeError, match=r"suggest_many\(\[text\]\)"):
        index.suggest_many("hello")
    assert index.suggest_many([]) == []


@pytest.mark.parametrize("text", [None, "\ud83d", 3])
def test_text_of_an_index_that_is_no_text_is_named(text, encoder):
    with pytest.raises(TextError, match=r"^texts\[4\] "):
        ReplyIndex.build(encoder, [*REPLIES[:2], *REPLIES[:2], text, *REPLIES])
    with pytest.raises(TextError, match=r"^texts\[0\] "):
        ReplyIndex(encoder, Replies(["hello"], np.ones(1, np.int64)), encoder.encode(["hello"])).suggest(text)
