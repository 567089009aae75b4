from pathlib import Path

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


def test_words_of_the_same_texts_are_alike(column, tmp_path):
    vectors = train_word_vectors([column], VOCABULARY, 10, seed=0, threads=1, folder=tmp_path)
    assert vectors.shape == (VOCABULARY, 10) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors[2:32], axis=1), 1, rtol=1e-5)
    cosines = vectors[2:32] @ vectors[2:32].T
    same = np.kron(np.eye(2), np.ones((15, 15))).astype(bool) & ~np.eye(30, dtype=bool)
    assert cosines[same].mean() > cosines[~same & ~np.eye(30, dtype=bool)].mean() + 0.3
    assert not list(tmp_path.iterdir())


def test_rare_and_unknown_tokens_get_none(column, tmp_path):
    vectors = train_word_vectors([column], VOCABULARY, 10, seed=0, threads=1, folder=tmp_path)
    assert not vectors[[0, UNK_TOKEN_ID, 35, 39]].any()


def test_the_seed_decides(column, tmp_path):
    first, again, other = (
        train_word_vectors([column], VOCABULARY, 10, seed=seed, threads=1, folder=tmp_path) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_the_same_texts_are_read_once_whatever_their_order(column, tmp_path, monkeypatch):
    other = TokenColumn(column.ids[:800], column.offsets[:101], column.keys[:100])
    first = cached_word_vectors([column, other, column], VOCABULARY, 10, 0, tmp_path)
    monkeypatch.setattr(word_vectors, "train_word_vectors", lambda *_: pytest.fail("trained again"))
    np.testing.assert_array_equal(cached_word_vectors([column, other], VOCABULARY, 10, 0, tmp_path), first)


def test_of_more_text_than_it_reads_it_takes_evenly_spread_parts(column, tmp_path, monkeypatch):
    monkeypatch.setattr(word_vectors, "MAX_TOKENS", 16_000 // 5)
    read = []
    word2vec = word_vectors.Word2Vec
    monkeypatch.setattr(
        word_vectors,
        "Word2Vec",
        lambda **options: read.extend(Path(options["corpus_file"]).read_text().splitlines()) or word2vec(**options),
    )
    train_word_vectors([column], VOCABULARY, 10, seed=0, threads=1, folder=tmp_path)
    assert read == [" ".join(map(str, text)) for text in column.ids.reshape(-1, 8)[::5].tolist()]
