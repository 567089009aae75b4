"""Word vectors of files and of saved models, and skip-gram: what is trained, read and cached."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from modeling_convsim import ConvSimCbowConfig, ConvSimCbowForMultitask
from modeling_convsim.files.errors import InputError
from tests.modeling_convsim.tiny_models import save
from trainer.data import word_vectors
from trainer.data.token_cache import TokenColumn
from trainer.data.word_vectors import (
    cached_word_vectors,
    is_sentence_transformer,
    read_word_vectors,
    train_word_vectors,
)

KeyedVectors = pytest.importorskip("gensim.models", reason="gensim is not installed").KeyedVectors


@pytest.mark.parametrize("name", ["words.txt", "words.vec", "words.txt.gz", "glove.txt"])
def test_vectors_are_read_in_every_format(name, tiny_tokenizer, tmp_path, caplog):
    words = KeyedVectors(3)
    values = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    words.add_vectors(["cat", "dog", "House", "house", "zebra"], values)
    path = tmp_path / name
    words.save_word2vec_format(str(path), write_header="glove" not in name)
    with caplog.at_level("INFO"):
        table = read_word_vectors(path, tiny_tokenizer, 70)
    expected, vocabulary = np.zeros((70, 3)), tiny_tokenizer.get_vocab()
    for word in ("cat", "dog", "house"):
        expected[vocabulary[word]] = words[word]
    expected /= np.mean([np.linalg.norm(words[word]) for word in ("cat", "dog", "house")])
    np.testing.assert_allclose(table, expected, rtol=1e-5)
    assert table.dtype == np.float32
    assert f"word vectors for 3 of {len(tiny_tokenizer)} tokens from {path}" in caplog.messages


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # The first word that equals a token, else the first that does after normalization; no zeros, no special tokens.
        ("House 1 0\nHOUSE 0 1\n. . . 5 5\ncat 0 1\nCat 1 0\n[UNK] 7 7\n", {"house": [1, 0], "cat": [0, 1]}),
        ("CAT 9 9\ncat 0 3\ncat 7 7\nDOG 4 0\nhouse 0 0\n[PAD] 6 6\n", {"cat": [0, 3 / 3.5], "dog": [4 / 3.5, 0]}),
        ("7 0.5\ncat 3\ndog -1\n", {"cat": [1.5], "dog": [-0.5]}),  # no header: the second value is not a whole number
        ("ca\udcff 1 2\ncat 3 4\n", {"cat": [0.6, 0.8]}),  # a word that is not UTF-8 equals no token
    ],
)
def test_words_are_matched_with_tokens(text, expected, tiny_tokenizer, tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text(text, errors="surrogateescape")
    table, vocabulary = read_word_vectors(path, tiny_tokenizer, 60), tiny_tokenizer.get_vocab()
    for word, vector in expected.items():
        np.testing.assert_allclose(table[vocabulary[word]], vector, rtol=1e-6)
    assert table.any(axis=1).sum() == len(expected)


@pytest.mark.parametrize("inner", ["", "model"])
def test_word_embeddings_of_a_saved_model_or_its_run_are_read(inner, tiny_tokenizer, tmp_path):
    config = ConvSimCbowConfig(vocab_size=len(tiny_tokenizer), embedding_size=6, initializer_range=1.0)
    model = ConvSimCbowForMultitask(config)
    save(model, tiny_tokenizer, tmp_path / inner)
    table = read_word_vectors(tmp_path, tiny_tokenizer, len(tiny_tokenizer))
    saved = model.get_parameter("encoder.embed_tokens.weight").detach().numpy()[2:]
    np.testing.assert_allclose(table[2:], saved / np.linalg.norm(saved, axis=1).mean(), rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("words.txt", "cat 1 2\ndog 1 2 3\n", r"words.txt:2: 3 values after the word, expected 2"),
        ("words.txt", "cat\ndog\n", r"words.txt:1: 0 values after the word"),
        ("words.txt", "2 2\ncat 1 2\ndog 1\n", r"words.txt:3: 1 values after the word, expected 2"),
        ("words.txt", "cat 1 x\n", r"words.txt:1: the vector of 'cat' has a value that is not a number"),
        ("words.txt", "cat 1 nan\n", r"words.txt:1: the vector of 'cat' has a value that is not finite"),
        ("words.txt", "Katze 1 2\n", r"words.txt: has no vector for any of the \d+ tokens"),
        ("words.csv", "cat 1 2\n", r"words.csv: unknown kind of file; expected a name that ends in .txt, .vec"),
        ("folder/words.txt", "cat 1 2\n", r"folder: expected the folder of a saved model"),
    ],
)
def test_unreadable_word_vectors_are_refused(name, content, message, tiny_tokenizer, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_word_vectors(path.parent if "/" in name else path, tiny_tokenizer, 60)


def test_folders_of_sentence_transformers_are_told_from_those_of_convsim_and_from_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    configs = {"static": None, "bert": {"model_type": "bert", "_name_or_path": "convsim_dan"}, "ours": None}
    for name, config in (configs | {"ours": {"model_type": "convsim_dan"}}).items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "modules.json").write_text("[]")
        if config:
            (tmp_path / name / "config.json").write_text(json.dumps(config, indent=2))
    (tmp_path / "run" / "model").mkdir(parents=True)
    sources = ["static", "bert", "ours", "run", "run/model", "owner/name", "owner/name@main"]
    sources += ["owner/glove.txt", "owner/vectors.vec.gz", "owner/vectors.bin", "./owner/name", "static/none", "glove"]
    expected = {"static", "bert", "owner/name", "owner/name@main"}
    assert {source for source in sources if is_sentence_transformer(source)} == expected


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
        text[4] = 1
    return tokens(*texts)


def test_vectors_are_skip_gram_centered_and_normalized(column, monkeypatch):
    assert word_vectors.SKIP_GRAM["sample"] == 1e-4
    monkeypatch.setitem(word_vectors.SKIP_GRAM, "sample", 0)  # in so few texts every word is frequent
    models, fit = [], word_vectors.fit
    monkeypatch.setattr(word_vectors, "fit", lambda model, *rest: models.append(model) or fit(model, *rest))
    vectors = train_word_vectors([column], VOCABULARY, 10, threads=1)
    (model,) = models
    expected = np.zeros((VOCABULARY, 10))  # zeros of rare tokens
    mean = np.mean([model.wv[word] for word in model.wv.index_to_key], axis=0, dtype=np.float64)
    for word in model.wv.index_to_key:
        centered = model.wv[word] - mean
        expected[int(word)] = centered / np.linalg.norm(centered)
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
    with pytest.raises(InputError, match="no word occurs 5 times or more in the texts"):
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

    monkeypatch.setattr(word_vectors, "fit", stop)
    monkeypatch.setattr(word_vectors, "PASS_TOKENS", pass_tokens)
    monkeypatch.setattr(word_vectors, "MAX_TOKENS", limit)
    with pytest.raises(StopIteration) as stopped:
        train_word_vectors([column], VOCABULARY, 10, threads=1, passes=passes)
    assert stopped.value.args == expected


@pytest.mark.parametrize(("step", "expected"), [(1, [0, 1, 2, 3, 4]), (2, [0, 2, 4]), (7, [0])])
def test_every_text_of_a_step_is_read_in_its_order(step, expected):
    texts = [[1, 2, 3], [], [4, 5], [6, 7, 8, 9], [0]]
    bar = SimpleNamespace(counted=[])
    bar.update = bar.counted.append
    read = list(word_vectors._Texts([tokens(*texts)], list("abcdefghij"), step, bar))
    assert read == [["abcdefghij"[token] for token in texts[index]] for index in expected]
    assert bar.counted == [len(texts[index]) for index in expected]


def test_vectors_are_cached_for_the_same_texts_sizes_and_passes(column, tmp_path, monkeypatch):
    trained = []
    monkeypatch.setattr(
        word_vectors,
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


def test_the_unknown_token_of_any_tokenizer_has_no_vector(column, tmp_path):
    for unknown in (1, 7):  # of our tokenizers, and of one in which another token has the id 1
        vectors = cached_word_vectors([column], VOCABULARY, 10, tmp_path, unk_token_id=unknown)
        assert not vectors[unknown].any() and vectors[8 - unknown].any()
