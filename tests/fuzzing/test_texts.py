"""Texts through tokenizer, models and index: finite unit vectors, the same alone and in a batch."""

import math
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from modeling_convsim import ENCODERS
from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from tests.fuzzing.strategies import is_unicode, texts
from tests.modeling_convsim.tiny_models import build
from trainer.data.tokenizer import Kind, train_tokenizer

MEGABYTES = ["a" * 1_000_000, "the cat " * 125_000, "👩\u200d" * 150_000, "م" * 500_000]
FEW = settings(max_examples=max(settings.default.max_examples // 3, 3))


@pytest.fixture(scope="module")
def encoders(tiny_tokenizer: PreTrainedTokenizerFast) -> dict[str, Encoder]:
    return {kind: Encoder(build(kind), tiny_tokenizer) for kind in ENCODERS}


@pytest.mark.parametrize("kind", ENCODERS)
@FEW
@given(table=st.lists(texts(), min_size=1, max_size=5))
def test_vectors_are_unit_vectors_and_independent_of_the_batch(
    encoders: dict[str, Encoder], kind: str, table: list[str]
) -> None:
    encoder = encoders[kind]
    for side in ("input", "response"):
        if not all(map(is_unicode, table)):
            with pytest.raises(ValueError, match="lone surrogate"):
                encoder.encode(table, side)
            continue
        vectors = encoder.encode(table, side)
        assert np.isfinite(vectors).all() and vectors.shape[0] == len(table)
        if side == "input":  # in CBOW, unknown words have no vector, and the mean of none is zero
            for text, norm in zip(table, np.linalg.norm(vectors, axis=1), strict=True):
                (ids,) = encoder.tokenizer([text])
                is_known = max(ids, default=0) > max(encoder.tokenizer.special_ids)
                is_zero = (kind == "cbow" and not is_known) or (kind == "pretrained" and not ids)
                assert norm == 0 if is_zero else abs(norm - 1) < 1e-4
        alone = np.concatenate([encoder.encode([text], side) for text in table])
        assert np.allclose(vectors, alone, atol=2e-4 * max(1, np.abs(alone).max()))


@pytest.mark.parametrize("text", MEGABYTES, ids=[repr(text[:2]) for text in MEGABYTES])
def test_a_megabyte_is_encoded(encoders: dict[str, Encoder], text: str) -> None:
    vectors = encoders["dan"].encode([text, "the cat"])
    assert np.isfinite(vectors).all() and np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)


@FEW
@given(table=st.lists(texts(surrogates=False), min_size=1, max_size=5), kind=st.sampled_from(get_args(Kind)))
def test_a_tokenizer_is_trained_on_any_texts(table: list[str], kind: Any) -> None:
    tokenizer = train_tokenizer(["the cat", *table], kind, vocab_size=100, min_count=1)
    assert tokenizer.pad_token_id == 0 and len(tokenizer) <= 100
    for text in table:
        ids = tokenizer(text)["input_ids"]
        assert all(0 <= token < len(tokenizer) for token in ids)
        assert tokenizer([text, "the cat"])["input_ids"][0][: len(ids)] == ids


@FEW
@given(replies=st.lists(texts(), min_size=1, max_size=6), message=texts(), k=st.integers(-1, 9))
def test_an_index_suggests_its_own_texts(
    encoders: dict[str, Encoder], replies: list[str], message: str, k: int
) -> None:
    try:
        index = ReplyIndex.build(encoders["dan"], replies)
    except ValueError:
        assert not all(map(is_unicode, replies)) or not any(text.strip() for text in replies)
        return
    try:
        suggestions = index.suggest(message, k)
    except ValueError:
        assert k < 1 or not is_unicode(message)
        return
    assert len(suggestions) <= k and all(one.text in replies and math.isfinite(one.score) for one in suggestions)
    scores = [one.score for one in suggestions]
    assert scores == sorted(scores, reverse=True)
