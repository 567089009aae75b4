import json
import logging
from types import SimpleNamespace

import numpy as np
import pytest
from gensim.models import Doc2Vec, KeyedVectors, Word2Vec
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from data_scripts.errors import InputError
from modeling_convsim import ConvSimCbowConfig, ConvSimCbowForMultitask
from trainer.data import skip_gram
from trainer.data.skip_gram import UNK_TOKEN_ID, cached_word_vectors, train_word_vectors
from trainer.data.token_cache import TokenColumn
from trainer.data.word_vectors import is_sentence_transformer, read_word_vectors

VOCABULARY = 40


@pytest.fixture(autouse=True)
def no_subsampling(monkeypatch):
    # gensim subsamples frequent words, and in so few texts every word is frequent.
    monkeypatch.setitem(skip_gram.SKIP_GRAM, "sample", 0)


@pytest.fixture(scope="module")
def column() -> TokenColumn:
    """Texts on one of two topics: tokens 2 to 16 or 17 to 31; token 35 is rare, and 1 is unknown."""
    generator = np.random.default_rng(0)
    texts = [generator.integers(2, 17, 8) + 15 * generator.integers(2) for _ in range(2000)]
    texts[0][:3] = 35
    for text in texts[::3]:
        text[4] = UNK_TOKEN_ID
    return TokenColumn(np.concatenate(texts).astype(np.uint16), np.arange(0, 8 * 2000 + 1, 8), np.zeros(2000))


def test_words_of_the_same_texts_have_similar_vectors(column):
    vectors = train_word_vectors([column], VOCABULARY, 10, seed=0, threads=1)
    assert vectors.shape == (VOCABULARY, 10) and vectors.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(vectors[2:32], axis=1), 1, rtol=1e-5)
    cosines = vectors[2:32] @ vectors[2:32].T
    same = np.kron(np.eye(2), np.ones((15, 15))).astype(bool) & ~np.eye(30, dtype=bool)
    assert cosines[same].mean() > cosines[~same & ~np.eye(30, dtype=bool)].mean() + 0.3


def test_rare_and_unknown_tokens_have_no_vector(column):
    vectors = train_word_vectors([column], VOCABULARY, 10, seed=0, threads=1)
    assert not vectors[[0, UNK_TOKEN_ID, 35, 39]].any()


def test_a_single_word_has_no_vector_and_texts_of_rare_words_are_refused():
    often, rare = (
        TokenColumn(np.full(count, 5, np.uint16), np.arange(count + 1), np.zeros(count)) for count in (40, 3)
    )
    assert not train_word_vectors([often], VOCABULARY, 10, seed=0, threads=1).any()
    with pytest.raises(InputError, match="no word of the texts occurs 5 times or more"):
        train_word_vectors([rare], VOCABULARY, 10, seed=0, threads=1)


def test_vectors_depend_on_the_seed(column):
    first, again, other = (train_word_vectors([column], VOCABULARY, 10, seed=seed, threads=1) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_vectors_are_skip_gram_centered_and_normalized(column, monkeypatch):
    models = []
    fit = skip_gram.fit
    monkeypatch.setattr(skip_gram, "fit", lambda model, *rest: models.append(model) or fit(model, *rest))
    vectors = train_word_vectors([column], VOCABULARY, 10, seed=0, threads=1)
    (model,) = models
    expected = np.zeros((VOCABULARY, 10))
    mean = np.mean([model.wv[word] for word in model.wv.index_to_key], axis=0, dtype=np.float64)
    for word in model.wv.index_to_key:
        centered = model.wv[word] - mean
        expected[int(word)] = centered / np.linalg.norm(centered)
    expected[UNK_TOKEN_ID] = 0
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    settings = ("sg", "hs", "window", "negative", "min_count", "seed", "epochs", "vector_size")
    assert [getattr(model, name) for name in settings] == [1, 0, 5, 5, 5, 0, 5, 10]


def test_frequent_words_are_subsampled_as_in_the_paper(monkeypatch):
    monkeypatch.undo()
    assert skip_gram.SKIP_GRAM["sample"] == 1e-4


class Fitted(Exception):
    """Raised in place of training."""


def fitted(column: TokenColumn, monkeypatch, passes: int | None = None) -> tuple[Word2Vec, list[str], int]:
    """The model that would be trained, the names of its words, and the step of its texts."""

    def stop(model, columns, words, step):
        raise Fitted(model, words, step)

    monkeypatch.setattr(skip_gram, "fit", stop)
    with pytest.raises(Fitted) as stopped:
        train_word_vectors([column], VOCABULARY, 10, seed=0, threads=1, passes=passes)
    return stopped.value.args


@pytest.mark.parametrize(("passes", "epochs"), [(100.0, 5), (5.0, 5), (3.5, 3), (1.0, 1), (0.2, 1)])
def test_a_longer_corpus_has_fewer_passes(passes, epochs, column, monkeypatch):
    monkeypatch.setattr(skip_gram, "PASS_TOKENS", int(passes * 16_000))
    model, _, _ = fitted(column, monkeypatch)
    assert model.epochs == epochs
    assert fitted(column, monkeypatch, passes=7)[0].epochs == 7


@pytest.mark.parametrize(("limit", "step"), [(16_000, 1), (15_999, 2), (8_000, 2), (7_999, 3)])
def test_texts_are_left_out_if_there_are_more_tokens_than_the_limit(limit, step, column, monkeypatch):
    monkeypatch.setattr(skip_gram, "MAX_TOKENS", limit)
    assert fitted(column, monkeypatch)[1:] == (list(map(str, range(VOCABULARY))), step)


def test_the_progress_bar_counts_the_tokens_of_the_texts_that_are_read():
    column = TokenColumn(np.array([1, 2, 3, 1, 2, 1]), np.array([0, 2, 3, 6]), np.zeros(3))
    bar = SimpleNamespace(counted=[])
    bar.update = bar.counted.append
    list(skip_gram._Texts([column], list("abcd"), 2, False, bar))
    assert bar.counted == [2, 3]


def test_texts_of_all_columns_are_read_as_words_or_with_their_numbers_as_tags(monkeypatch):
    columns = [
        TokenColumn(np.array([1, 2, 3]), np.array([0, 2, 3]), np.zeros(2)),
        TokenColumn(np.array([0, 1]), np.array([0, 0, 2]), np.zeros(2)),
    ]
    read: list[list] = []
    for kind in (Word2Vec, Doc2Vec):
        model = kind(vector_size=2, min_count=1, epochs=1)
        monkeypatch.setattr(
            kind, "train", lambda self, texts, total_examples, epochs: read.append([list(texts), list(texts)])
        )
        skip_gram.fit(model, columns, ["zero", "one", "two", "three"])
    texts = [["one", "two"], ["three"], [], ["zero", "one"]]
    assert read[0] == [texts, texts]
    for documents in read[1]:
        assert [(document.words, document.tags) for document in documents] == [
            (words, [number]) for number, words in enumerate(texts)
        ]


def test_the_key_has_the_sizes_the_settings_the_seed_and_the_boundaries_of_texts(column, tmp_path, monkeypatch):
    trained = []
    monkeypatch.setattr(
        skip_gram,
        "train_word_vectors",
        lambda columns, rows, size, seed, threads, passes: trained.append(1) or np.full((rows, size), len(trained)),
    )

    def vectors(columns: list[TokenColumn], rows: int = 7, size: int = 3, **options: int) -> tuple[int, ...]:
        result = cached_word_vectors(columns, rows, size, tmp_path, **options)
        return (*result.shape, int(result[0, 0]))

    other = TokenColumn(column.ids, np.arange(0, 8 * 2000 + 1, 16), column.keys[:1000])
    assert vectors([column]) == (7, 3, 1)
    assert vectors([column], rows=8) == (8, 3, 2) and vectors([column], size=4) == (7, 4, 3)
    assert vectors([other]) == (7, 3, 4)
    assert vectors([column, other]) == (7, 3, 5) and vectors([other, column]) == (7, 3, 6)
    for number, (name, value) in enumerate([("MAX_TOKENS", 5), ("PASS_TOKENS", 5), ("SKIP_GRAM", {"sg": 0})], start=7):
        with monkeypatch.context() as patch:
            patch.setattr(skip_gram, name, value)
            assert vectors([column]) == (7, 3, number)
    assert vectors([column], passes=2) == (7, 3, 10) and vectors([column], passes=3) == (7, 3, 11)
    assert vectors([column], seed=1) == (7, 3, 12) and vectors([column], seed=0) == (7, 3, 1)
    assert vectors([column]) == (7, 3, 1)


def test_a_repeated_column_is_used_once(column, tmp_path, monkeypatch):
    other = TokenColumn(column.ids[:800], column.offsets[:101], column.keys[:100])
    train, columns = skip_gram.train_word_vectors, []
    monkeypatch.setattr(skip_gram, "train_word_vectors", lambda read, *rest: columns.extend(read) or train(read, *rest))
    first = cached_word_vectors([column, other, column], VOCABULARY, 10, tmp_path)
    assert len(columns) == 2
    monkeypatch.setattr(skip_gram, "train_word_vectors", lambda *_: pytest.fail("the vectors were trained again"))
    np.testing.assert_array_equal(cached_word_vectors([column, other], VOCABULARY, 10, tmp_path), first)


def test_vectors_trained_again_with_one_thread_are_the_same(column, tmp_path, monkeypatch):
    monkeypatch.setattr(skip_gram, "available_threads", lambda: 1)
    first, again, other = (
        cached_word_vectors([column], VOCABULARY, 10, tmp_path / name, seed=seed)
        for name, seed in [("a", 1), ("b", 1), ("c", 2)]
    )
    np.testing.assert_array_equal(first, again)
    assert not np.isclose(first[2], other[2]).any()


def test_damaged_vectors_are_trained_again(column, tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(skip_gram, "available_threads", lambda: 1)
    vectors = cached_word_vectors([column], VOCABULARY, 10, tmp_path)
    (path,) = tmp_path.iterdir()
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)
    np.testing.assert_array_equal(cached_word_vectors([column], VOCABULARY, 10, tmp_path), vectors)
    assert f"{path}: damaged" in caplog.text and list(tmp_path.iterdir()) == [path]


def test_a_corpus_above_the_limit_is_sampled_at_even_steps(column, monkeypatch):
    monkeypatch.setattr(skip_gram, "MAX_TOKENS", 16_000 // 5)
    read = []
    build = skip_gram.Word2Vec.build_vocab
    monkeypatch.setattr(skip_gram.Word2Vec, "build_vocab", lambda self, texts: read.extend(texts) or build(self, texts))
    train_word_vectors([column], VOCABULARY, 10, seed=0, threads=1)
    assert read == [list(map(str, text)) for text in column.ids.reshape(-1, 8)[::5].tolist()]


@pytest.fixture
def words(tmp_path) -> KeyedVectors:
    """Three words of the tiny tokenizer, a capitalized form of one, and an unknown word."""
    vectors = KeyedVectors(3)
    values = np.random.default_rng(0).normal(size=(5, 3)).astype(np.float32)
    vectors.add_vectors(["cat", "dog", "House", "house", "zebra"], values)
    return vectors


def expected_table(words: KeyedVectors, tokenizer, rows: int) -> np.ndarray:
    table, vocabulary = np.zeros((rows, 3)), tokenizer.get_vocab()
    for word in ("cat", "dog", "house"):
        table[vocabulary[word]] = words[word]
    return table / np.mean([np.linalg.norm(words[word]) for word in ("cat", "dog", "house")])


@pytest.mark.parametrize("name", ["words.txt", "words.vec", "words.txt.gz", "words.bin", "words.bin.gz", "glove.txt"])
def test_vectors_are_read_in_every_format(name, words, tiny_tokenizer, tmp_path, caplog):
    path = tmp_path / name
    words.save_word2vec_format(str(path), binary=".bin" in name, write_header="glove" not in name)
    with caplog.at_level("INFO"):
        table = read_word_vectors(path, tiny_tokenizer, 70)
    np.testing.assert_allclose(table, expected_table(words, tiny_tokenizer, 70), rtol=1e-5)
    assert table.dtype == np.float32
    assert f"word vectors for 3 of {len(tiny_tokenizer)} tokens from {path}" in caplog.messages


def test_a_capitalized_word_is_used_if_the_exact_word_is_missing(tiny_tokenizer, tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("House 1 0\nHOUSE 0 1\n. . . 5 5\ncat 0 1\nCat 1 0\n[UNK] 7 7\n")
    table, vocabulary = read_word_vectors(path, tiny_tokenizer, 60), tiny_tokenizer.get_vocab()
    np.testing.assert_array_equal(table[[vocabulary["house"], vocabulary["cat"], 1]], [[1, 0], [0, 1], [0, 0]])


def test_the_first_exact_word_and_no_zero_vector_are_used(tiny_tokenizer, tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("CAT 9 9\ncat 0 3\ncat 7 7\nDOG 4 0\nDog 8 8\nhouse 0 0\n[PAD] 6 6\n")
    table, vocabulary = read_word_vectors(path, tiny_tokenizer, 60), tiny_tokenizer.get_vocab()
    expected = np.zeros((60, 2))
    # The lengths, 3 and 4, are 3.5 on average; the word of zeros does not count.
    expected[vocabulary["cat"]], expected[vocabulary["dog"]] = [0, 3 / 3.5], [4 / 3.5, 0]
    np.testing.assert_allclose(table, expected, rtol=1e-6)


def test_vectors_may_have_one_dimension(tiny_tokenizer, tmp_path):
    path = tmp_path / "glove.txt"
    path.write_text("7 0.5\ncat 3\ndog -1\n")  # no header: the second value is not a whole number
    table, vocabulary = read_word_vectors(path, tiny_tokenizer, 60), tiny_tokenizer.get_vocab()
    assert table.shape == (60, 1) and table[[vocabulary["cat"], vocabulary["dog"]], 0].tolist() == [1.5, -0.5]


@pytest.mark.parametrize("name", ["glove.txt", "words.bin"])
def test_a_word_that_is_not_utf_8_matches_no_token(name, tiny_tokenizer, tmp_path):
    path = tmp_path / name
    values = np.array([3, 4], dtype=np.float32).tobytes()
    path.write_bytes(
        b"2 2\nca\xff " + values + b"\ncat " + values + b"\n" if name.endswith("bin") else b"ca\xff 1 2\ncat 3 4\n"
    )
    table = read_word_vectors(path, tiny_tokenizer, 60)
    np.testing.assert_allclose(table[tiny_tokenizer.get_vocab()["cat"]], [0.6, 0.8], rtol=1e-6)


def test_a_tokenizer_without_normalization_needs_the_exact_word(tiny_tokenizer, tmp_path):
    backend = Tokenizer.from_str(tiny_tokenizer.backend_tokenizer.to_str())
    backend.normalizer = None
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="[PAD]", unk_token="[UNK]")
    path = tmp_path / "glove.txt"
    path.write_text("Dog 0 5\ncat 3 4\n")
    table, vocabulary = read_word_vectors(path, tokenizer, 60), tokenizer.get_vocab()
    np.testing.assert_allclose(table[vocabulary["cat"]], [0.6, 0.8], rtol=1e-6)
    assert not table[vocabulary["dog"]].any()


def test_gensims_log_is_silent_in_training_and_as_before_after_it(column, monkeypatch):
    gensim_logger, levels = logging.getLogger("gensim"), []
    monkeypatch.setattr(gensim_logger, "level", logging.DEBUG)
    build = skip_gram.Word2Vec.build_vocab
    monkeypatch.setattr(
        skip_gram.Word2Vec, "build_vocab",
        lambda self, texts: levels.append(gensim_logger.level) or build(self, texts),
    )  # fmt: skip
    train_word_vectors([column], VOCABULARY, 10, seed=0, threads=1)
    assert levels == [logging.WARNING] and gensim_logger.level == logging.DEBUG


@pytest.mark.parametrize("inner", ["", "model"])
def test_word_embeddings_of_a_saved_model_are_read(inner, tiny_tokenizer, tmp_path):
    config = ConvSimCbowConfig(vocab_size=len(tiny_tokenizer), embedding_size=6, initializer_range=1.0)
    model = ConvSimCbowForMultitask(config)
    model.save_pretrained(tmp_path / inner)
    tiny_tokenizer.save_pretrained(tmp_path / inner)
    table = read_word_vectors(tmp_path, tiny_tokenizer, len(tiny_tokenizer))
    saved = model.get_parameter("encoder.embed_tokens.weight").detach().numpy()[2:]
    np.testing.assert_allclose(table[2:], saved / np.linalg.norm(saved, axis=1).mean(), rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("words.txt", "cat 1 2\ndog 1 2 3\n", r"words.txt:2: 3 values after the word, expected 2"),
        ("words.txt", "cat\ndog\n", r"words.txt:1: 0 values after the word"),
        ("words.txt", "2 0\ncat\n", r"words.txt:2: 0 values after the word"),
        ("words.txt", "2 2\ncat 1 2\ndog 1\n", r"words.txt:3: 1 values after the word, expected 2"),
        ("words.txt", "cat 1 x\n", r"words.txt:1: the vector of 'cat' has a value that is not a number"),
        ("words.txt", "cat 1 nan\n", r"words.txt:1: the vector of 'cat' has a value that is not finite"),
        ("words.txt", "cat 1e30 1\n", r"words.txt: the lengths of its vectors are outside the range of float32"),
        ("words.txt", "cat 1e-30 1e-40\n", r"words.txt: the lengths of its vectors are outside the range of float32"),
        ("words.txt", "Katze 1 2\n", r"words.txt: has no vector of any of the \d+ tokens"),
        ("words.bin", "no header\n", r"words.bin: cannot be read as word2vec's binary format"),
        ("words.csv", "cat 1 2\n", r"words.csv: unknown kind of file; expected a name that ends in .txt, .vec, .bin"),
        ("folder/words.txt", "cat 1 2\n", r"folder: expected the folder of a saved model"),
    ],
)
def test_unreadable_word_vectors_are_refused(name, content, message, tiny_tokenizer, tmp_path):
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(content)
    with pytest.raises(InputError, match=message):
        read_word_vectors(path.parent if "/" in name else path, tiny_tokenizer, 60)


def test_a_value_of_a_binary_file_that_is_not_finite_is_refused(tiny_tokenizer, tmp_path):
    path = tmp_path / "words.bin"
    path.write_bytes(b"1 2\ncat " + np.array([1, np.nan], np.float32).tobytes())
    with pytest.raises(InputError, match=rf"^{path}: the vector of 'cat' has a value that is not finite"):
        read_word_vectors(path, tiny_tokenizer, 60)


def test_folders_of_sentence_transformers_are_told_from_those_of_convsim_and_from_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, config in (("static", None), ("bert", "bert"), ("ours", "convsim_dan")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "modules.json").write_text("[]")
        if config:
            (tmp_path / name / "config.json").write_text(json.dumps({"model_type": config}))
    (tmp_path / "bert" / "config.json").write_text('{"model_type": "bert", "_name_or_path": "convsim_teacher"}')
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "modules.json").write_text("[]")
    (tmp_path / "broken" / "config.json").write_text('{"model_type": "convsim_dan"')
    (tmp_path / "run" / "model").mkdir(parents=True)
    sources = ["static", "bert", "ours", "broken", "run", "run/model", "owner/name", "owner/name@main"]
    sources += ["owner/glove.txt", "owner/vectors.vec.gz", "owner/vectors.bin", "./owner/name", "static/none", "glove"]
    expected = {"static", "bert", "broken", "owner/name", "owner/name@main"}
    assert {source for source in sources if is_sentence_transformer(source)} == expected
