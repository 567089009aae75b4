import numpy as np
import pytest

from trainer import word_vectors
from trainer.cache import TokenColumn
from trainer.word_vectors import UNK_TOKEN_ID, cached_word_vectors, train_word_vectors

VOCABULARY = 40


@pytest.fixture(autouse=True)
def every_word_is_read(monkeypatch):
    # Of so few words each is frequent, and frequent ones are passed over.
    monkeypatch.setitem(word_vectors.SKIP_GRAM, "sample", 0)


@pytest.fixture(scope="module")
def column() -> TokenColumn:
    """Texts about one of two subjects: tokens 2 to 16, or 17 to 31, never both; token 35 is rare, 1 unknown."""
    generator = np.random.default_rng(0)
    texts = [generator.integers(2, 17, 8) + 15 * generator.integers(2) for _ in range(2000)]
    texts[0][:3] = 35
    for text in texts[::3]:
        text[4] = UNK_TOKEN_ID
    return TokenColumn(np.concatenate(texts).astype(np.uint16), np.arange(0, 8 * 2000 + 1, 8), np.zeros(2000))


def test_words_of_the_same_texts_are_alike(column):
    vectors = train_word_vectors([column], VOCABULARY, 10, seed=0, threads=1)
    assert vectors.shape == (VOCABULARY, 10) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors[2:32], axis=1), 1, rtol=1e-5)
    cosines = vectors[2:32] @ vectors[2:32].T
    same = np.kron(np.eye(2), np.ones((15, 15))).astype(bool) & ~np.eye(30, dtype=bool)
    assert cosines[same].mean() > cosines[~same & ~np.eye(30, dtype=bool)].mean() + 0.3


def test_rare_and_unknown_tokens_get_none(column):
    vectors = train_word_vectors([column], VOCABULARY, 10, seed=0, threads=1)
    assert not vectors[[0, UNK_TOKEN_ID, 35, 39]].any()


def test_the_seed_decides(column):
    first, again, other = (train_word_vectors([column], VOCABULARY, 10, seed=seed, threads=1) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_the_same_texts_are_read_once_whatever_their_order(column, tmp_path, monkeypatch):
    other = TokenColumn(column.ids[:800], column.offsets[:101], column.keys[:100])
    first = cached_word_vectors([column, other, column], VOCABULARY, 10, tmp_path)
    monkeypatch.setattr(word_vectors, "train_word_vectors", lambda *_: pytest.fail("trained again"))
    np.testing.assert_array_equal(cached_word_vectors([column, other], VOCABULARY, 10, tmp_path), first)


def test_of_more_text_than_it_reads_it_takes_evenly_spread_parts(column, monkeypatch):
    monkeypatch.setattr(word_vectors, "MAX_TOKENS", 16_000 // 5)
    read = []
    build = word_vectors.Word2Vec.build_vocab
    monkeypatch.setattr(
        word_vectors.Word2Vec, "build_vocab", lambda self, texts: read.extend(texts) or build(self, texts)
    )
    train_word_vectors([column], VOCABULARY, 10, seed=0, threads=1)
    assert read == [list(map(str, text)) for text in column.ids.reshape(-1, 8)[::5].tolist()]
