"""Skip-gram word vectors: what is trained, what is read, and what is cached."""

from types import SimpleNamespace

import numpy as np
import pytest

from data_scripts.files.errors import InputError
from trainer.data import skip_gram
from trainer.data.skip_gram import UNK_TOKEN_ID, cached_word_vectors, train_word_vectors
from trainer.data.token_cache import TokenColumn

VOCABULARY = 40


def tokens(*texts: list[int]) -> TokenColumn:
    return TokenColumn(np.concatenate(texts).astype(np.uint16), np.cumsum([0, *map(len, texts)]), np.arange(len(texts)))


@pytest.fixture(scope="module")
def column() -> TokenColumn:
    """Texts on one of two topics: tokens 2 to 16 or 17 to 31; token 35 is rare, and 1 is unknown."""
    generator = np.random.default_rng(0)
    texts = [generator.integers(2, 17, 8) + 15 * generator.integers(2) for _ in range(2000)]
    texts[0][:3] = 35
    for text in texts[::3]:
        text[4] = UNK_TOKEN_ID
    return tokens(*texts)


def test_vectors_are_skip_gram_centered_and_normalized(column, monkeypatch):
    assert skip_gram.SKIP_GRAM["sample"] == 1e-4
    monkeypatch.setitem(skip_gram.SKIP_GRAM, "sample", 0)  # in so few texts every word is frequent
    models, fit = [], skip_gram.fit
    monkeypatch.setattr(skip_gram, "fit", lambda model, *rest: models.append(model) or fit(model, *rest))
    vectors = train_word_vectors([column], VOCABULARY, 10, threads=1)
    (model,) = models
    expected = np.zeros((VOCABULARY, 10))  # zeros of rare tokens and of [UNK]
    mean = np.mean([model.wv[word] for word in model.wv.index_to_key], axis=0, dtype=np.float64)
    for word in model.wv.index_to_key:
        centered = model.wv[word] - mean
        expected[int(word)] = centered / np.linalg.norm(centered)
    expected[UNK_TOKEN_ID] = 0
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    assert vectors.dtype == np.float32 and not vectors[[0, 35, 39]].any()
    settings = ("sg", "hs", "window", "negative", "min_count", "epochs", "vector_size")
    assert [getattr(model, name) for name in settings] == [1, 0, 5, 5, 5, 5, 10]
    # Words of the same texts have similar vectors, the same in every training with one thread.
    cosines = vectors[2:32] @ vectors[2:32].T
    same = np.kron(np.eye(2), np.ones((15, 15))).astype(bool) & ~np.eye(30, dtype=bool)
    assert cosines[same].mean() > cosines[~same & ~np.eye(30, dtype=bool)].mean() + 0.3
    np.testing.assert_array_equal(train_word_vectors([column], VOCABULARY, 10, threads=1), vectors)


def test_a_single_word_has_no_vector_and_texts_of_rare_words_are_refused():
    assert not train_word_vectors([tokens(*[[5]] * 40)], VOCABULARY, 10, threads=1).any()
    with pytest.raises(InputError, match="no word of the texts occurs 5 times or more"):
        train_word_vectors([tokens(*[[5]] * 3)], VOCABULARY, 10, threads=1)


@pytest.mark.parametrize(
    ("pass_tokens", "limit", "passes", "expected"),
    [
        (100 * 16_000, 16_000, None, (5, 1)),
        (3.5 * 16_000, 15_999, None, (3, 2)),
        (16_000, 8_000, None, (1, 2)),
        (0.2 * 16_000, 7_999, None, (1, 3)),
        (16_000, 16_000, 7, (7, 1)),
    ],
)
def test_a_longer_corpus_has_fewer_passes_and_texts(column, monkeypatch, pass_tokens, limit, passes, expected):
    def stop(model, columns, words, step):
        raise StopIteration(model.epochs, step)

    monkeypatch.setattr(skip_gram, "fit", stop)
    monkeypatch.setattr(skip_gram, "PASS_TOKENS", pass_tokens)
    monkeypatch.setattr(skip_gram, "MAX_TOKENS", limit)
    with pytest.raises(StopIteration) as stopped:
        train_word_vectors([column], VOCABULARY, 10, threads=1, passes=passes)
    assert stopped.value.args == expected


@pytest.mark.parametrize("chunk", [1, 2, 100])
@pytest.mark.parametrize(("step", "expected"), [(1, [0, 1, 2, 3, 4]), (2, [0, 2, 4]), (7, [0])])
def test_every_text_of_a_step_is_read_in_its_order(monkeypatch, chunk, step, expected):
    texts = [[1, 2, 3], [], [4, 5], [6, 7, 8, 9], [0]]
    monkeypatch.setattr(skip_gram, "_CHUNK", chunk)
    bar = SimpleNamespace(counted=[])
    bar.update = bar.counted.append
    read = list(skip_gram._Texts([tokens(*texts)], list("abcdefghij"), step, False, bar))
    assert read == [["abcdefghij"[token] for token in texts[index]] for index in expected]
    assert bar.counted == [len(texts[index]) for index in expected]


def test_vectors_are_cached_for_the_same_texts_sizes_and_passes(column, tmp_path, monkeypatch):
    trained = []
    monkeypatch.setattr(
        skip_gram,
        "train_word_vectors",
        lambda columns, rows, size, threads, passes: (
            trained.append(len(columns)) or np.full((rows, size), len(trained))
        ),
    )

    def number(columns: list[TokenColumn], rows: int = 7, size: int = 3, passes: int | None = None) -> int:
        vectors = cached_word_vectors(columns, rows, size, tmp_path, passes)
        assert vectors.shape == (rows, size)
        return int(vectors[0, 0])

    other = TokenColumn(column.ids, column.offsets[::2].copy(), column.keys[:1000])  # the same tokens in longer texts
    assert [number([column]), number([column], rows=8), number([column], size=4), number([column], passes=2)] == [
        1,
        2,
        3,
        4,
    ]
    assert [number([other]), number([column, other]), number([column, other, column])] == [5, 6, 6]  # repeated: once
    assert trained[5] == 2 and number([column]) == 1
