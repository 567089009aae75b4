"""The baselines of word vectors against gensim's own vectors and formulas in NumPy."""

import json
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset

from modeling_convsim.encoding import Encoder
from trainer.data.word_vectors import fit
from trainer.embeddings import word2vec
from trainer.embeddings.__main__ import main
from trainer.embeddings.word2vec import read_texts
from trainer.encoders.loading import load_encoder
from trainer.encoders.pv_dbow import PvDbowEncoder

Word2Vec = pytest.importorskip("gensim.models", reason="gensim is not installed").Word2Vec
TEXTS = ["The red cat eats the bone", "a train , a bus", "the unheard-of cat", "quixotic"]
SIZE = 6


@pytest.fixture(autouse=True)
def no_word_is_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    # All of these few words are frequent, and gensim would skip them. 2 million n-grams take seconds to initialize.
    monkeypatch.setitem(word2vec.SETTINGS, "sample", 0)
    monkeypatch.setitem(word2vec.METHODS, "fasttext", ("FastText", {"sg": 1, "window": 5, "bucket": 100}))


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """Sentences about one of two subjects in two folders; the second has captions, which are lists of texts."""
    generator = np.random.default_rng(0)
    subjects = ["the red cat eats a bone .".split(), "the train , a bus and the tram .".split()]
    texts = [" ".join(generator.choice(subjects[number % 2], 8)) for number in range(400)]
    folder = tmp_path_factory.mktemp("sources")
    rows = {
        "books": Dataset.from_dict({"book": ["one"] * 300, "sentence": texts[:300]}),
        "captions": Dataset.from_dict({"group": range(50), "captions": [texts[n : n + 2] for n in range(300, 400, 2)]}),
    }
    for name, dataset in rows.items():
        (folder / name).mkdir()
        dataset.to_parquet(folder / name / "train-00000-of-00001.parquet")
    return [str(folder / name) for name in rows]


def run(folder: Path, method: str, sources: list[str], *options: str) -> dict:
    sizes = [] if "--from" in options else ["--size", str(SIZE), "--epochs", "3"]
    cache = ["--cache_dir", str(folder.parent / "cache")]
    assert main([method, *sources, "-o", str(folder), *sizes, *cache, *options]) == 0
    return json.loads((folder / "results.json").read_text())


def words_of(folder: Path, texts: list[str]) -> list[list[str]]:
    tokenizer = Encoder.from_pretrained(folder / "model").tokenizer
    return [tokenizer.tokenize(text) for text in texts]


def table_of(folder: Path) -> tuple[np.ndarray, dict[str, int]]:
    encoder = Encoder.from_pretrained(folder / "model")
    table = encoder.model.get_parameter("encoder.embed_tokens.weight").detach().numpy()
    return table, encoder.tokenizer.get_vocab()


def unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1)


@pytest.mark.parametrize("method", ["skip_gram", "cbow", "fasttext"])
def test_vectors_are_averages_of_gensims_vectors(method, sources, tmp_path, monkeypatch):
    trained: list[Word2Vec] = []
    monkeypatch.setattr(
        "trainer.embeddings.word2vec.fit", lambda model, *rest: (fit(model, *rest), trained.append(model))
    )
    run(tmp_path / "run", method, sources)
    words = words_of(tmp_path / "run", TEXTS)
    (model,) = trained
    assert (model.sg, model.window, model.negative, model.hs) == (method != "cbow", 5, 5, 0)
    expected = [np.sum([model.wv[word] for word in text if word != "[UNK]"] or [np.zeros(SIZE)], 0) for text in words]
    vectors = load_encoder(str(tmp_path / "run" / "model")).encode(TEXTS)
    np.testing.assert_allclose(vectors, unit(np.array(expected)), atol=1e-6)
    assert not vectors[3].any()


def test_evaluation_sentences_are_removed_and_counted(sources, tmp_path):
    texts, _ = read_texts(sources, [], None)
    evaluated = [texts["text"][0].upper() + " !", texts["text"][399]]
    Dataset.from_dict({"sentence": evaluated}).to_parquet(tmp_path / "test-00000-of-00001.parquet")
    rest, leakage = read_texts(sources, [f"mine={tmp_path}"], None)
    assert leakage == {
        "texts/books": {"mine test": 1, "removed": 1},
        "texts/captions": {"mine test": 1, "removed": 1},  # an image with both its captions
    }
    assert len(rest) == 397 and not {text for text in rest["text"] if text in (texts["text"][0], evaluated[1])}


def test_earlier_turns_are_not_read_again(tmp_path):
    pairs = {"input": ["b", "c"], "response": ["c", "d"], "context": [[], ["b"]]}
    Dataset.from_dict(pairs).to_parquet(tmp_path / "train-00000-of-00001.parquet")
    texts, _ = read_texts([str(tmp_path)], [], None)
    assert texts["text"][:] == ["b", "c", "c", "d"]


@pytest.mark.parametrize("method", ["skip_gram", "pv_dbow"])
def test_the_same_seed_gives_the_same_bytes(method, sources, tmp_path):
    for name, seed in (("one", "0"), ("two", "0"), ("other", "1")):
        run(tmp_path / name, method, sources, "--seed", seed)
    one, two, other = (
        {file.name: file.read_bytes() for file in (tmp_path / name / "model").iterdir()}
        for name in ("one", "two", "other")
    )
    assert one == two and one != other


def test_sif_is_the_papers_formula(sources, tmp_path):
    run(tmp_path / "plain", "skip_gram", sources)
    run(tmp_path / "sif", "skip_gram", sources, "--sif", "--from", str(tmp_path / "plain"))
    table, vocabulary = table_of(tmp_path / "plain")
    read = words_of(tmp_path / "plain", read_texts(sources, [], None)[0]["text"][:])
    counts = {word: sum(text.count(word) for text in read) for word in vocabulary}
    total = sum(map(len, read))

    def average(text: list[str]) -> np.ndarray:
        vectors = [
            1e-3 / (1e-3 + counts[word] / total) * table[vocabulary[word]].astype(np.float64)
            for word in text
            if word != "[UNK]"
        ]
        return np.sum(vectors, axis=0) / len(vectors)

    component = np.linalg.svd(np.array([average(text) for text in read]), full_matrices=False)[2][0]
    evaluated = np.array([average(text) for text in words_of(tmp_path / "plain", TEXTS[:3])])
    expected = unit(evaluated - np.outer(evaluated @ component, component))
    np.testing.assert_allclose(load_encoder(str(tmp_path / "sif" / "model")).encode(TEXTS[:3]), expected, atol=1e-5)


def test_sif_is_the_same_at_once_and_from_an_earlier_run(sources, tmp_path):
    plain = run(tmp_path / "plain", "cbow", sources, "--seed", "2")
    run(tmp_path / "once", "cbow", sources, "--seed", "2", "--sif")
    later = run(tmp_path / "later", "cbow", sources, "--sif", "--from", str(tmp_path / "plain"))
    once, later_table = table_of(tmp_path / "once")[0], table_of(tmp_path / "later")[0]
    np.testing.assert_allclose(later_table, once, atol=1e-7)
    assert later["run"]["seed"] == 2 and later["run"]["seconds"] == plain["run"]["seconds"]


def test_paragraph_vectors_are_gensims_up_to_chance(sources, tmp_path, monkeypatch):
    trained: list = []
    monkeypatch.setattr(
        "trainer.embeddings.word2vec.fit", lambda model, *rest: (fit(model, *rest), trained.append(model))
    )
    run(tmp_path / "run", "pv_dbow", sources, "--epochs", "20")
    encoder = load_encoder(str(tmp_path / "run" / "model"))
    assert isinstance(encoder, PvDbowEncoder)
    (model,) = trained
    assert (model.dm, model.dbow_words, model.window) == (0, 1, 15)
    vectors = encoder.encode(TEXTS[:2])
    expected = [
        model.infer_vector(text, alpha=0.01, min_alpha=1e-5, epochs=1000)
        for text in words_of_tokenizer(encoder, TEXTS[:2])
    ]
    assert (np.sum(vectors * unit(np.array(expected)), axis=1) > 0.97).all()


def words_of_tokenizer(encoder: PvDbowEncoder, texts: list[str]) -> list[list[str]]:
    return [encoder.tokenizer.tokenize(text) for text in texts]


def test_a_text_has_one_paragraph_vector(sources, tmp_path):
    run(tmp_path / "run", "pv_dbow", sources)
    encoder, again = (load_encoder(str(tmp_path / "run" / "model")) for _ in range(2))
    vectors = encoder.encode(TEXTS)
    np.testing.assert_array_equal(again.encode(TEXTS[::-1], side="response")[::-1], vectors)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1, 1, 1, 0], atol=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["pv_dbow", "--sif"], "pv_dbow is not an average of word vectors"),
        (["cbow", "--from", "nowhere"], "--from: needs --sif"),
        (["cbow", "--sif", "--from", "nowhere"], "--from nowhere: expected a folder that this command wrote"),
        (["cbow", "--tokenizer", "./nowhere"], "./nowhere: no tokenizer can be loaded"),
        (["cbow", "--min_count", "10000"], "no word occurs 10000 times"),
        (["cbow", "--against", "stsb"], "--against stsb: expected NAME=SOURCE"),
        (["cbow", "/no/folder"], "/no/folder: no such folder"),
    ],
)
def test_a_mistake_is_one_line(options, message, sources, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main([options[0], *sources, *options[1:], "-o", "run", "--cache_dir", "cache"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ") and message in error
    assert not Path("run").exists()


def test_a_folder_of_another_method_and_an_existing_output_are_refused(sources, tmp_path, capsys):
    run(tmp_path / "run", "cbow", sources)
    assert main(["cbow", *sources, "-o", str(tmp_path / "run")]) == 2
    assert "already exists" in capsys.readouterr().err
    assert main(["skip_gram", *sources, "-o", str(tmp_path / "n"), "--sif", "--from", str(tmp_path / "run")]) == 2
    assert "it is not one of skip_gram without --sif" in capsys.readouterr().err
