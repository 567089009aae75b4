"""Reading of cached texts for word vectors, without a copy of them."""

import numpy as np
import pytest
import xxhash

from trainer.data import skip_gram
from trainer.data.token_cache import TokenColumn

LENGTHS = np.array([3, 0, 2, 4, 1])


@pytest.fixture
def column() -> TokenColumn:
    ids = np.arange(LENGTHS.sum(), dtype=np.uint16)
    ids.setflags(write=False)  # as a mapped file
    return TokenColumn(ids, np.concatenate([[0], np.cumsum(LENGTHS)]), np.arange(len(LENGTHS)))


@pytest.mark.parametrize("chunk", [1, 2, 100])
@pytest.mark.parametrize(("step", "expected"), [(1, [0, 1, 2, 3, 4]), (2, [0, 2, 4]), (7, [0])])
def test_every_text_of_a_step_is_read_in_its_order(monkeypatch, column, chunk, step, expected):
    monkeypatch.setattr(skip_gram, "_CHUNK", chunk)
    bounds = [(int(column.offsets[text]), int(column.offsets[text + 1])) for text in expected]
    assert list(skip_gram._bounds(column, step)) == bounds


def test_the_key_of_cached_vectors_is_the_digest_of_tokens_and_offsets(column):
    expected = xxhash.xxh3_128_hexdigest(column.ids.tobytes() + column.offsets.tobytes())
    assert skip_gram._digest(column) == expected
    empty = TokenColumn(np.zeros(0, np.uint16), np.zeros(1, np.int64), np.zeros(0, np.int64))
    assert skip_gram._digest(empty) == xxhash.xxh3_128_hexdigest(bytes(8))
