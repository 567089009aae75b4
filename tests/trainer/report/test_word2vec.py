"""The word2vec baseline against gensim's own vectors."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from datasets import Dataset
from transformers import AutoTokenizer

from modeling_convsim.encoding import Encoder
from trainer.data.word_vectors import fit
from trainer.report import word2vec
from trainer.report.word2vec import main

pytest.importorskip("gensim.models", reason="gensim is not installed")
TEXTS = ["The red cat eats the bone", "a dog , the house", "the unheard-of cat", "quixotic"]
SIZE = 6


@pytest.fixture
def options(tiny_tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Pairs of sentences about one of two subjects, and a tokenizer."""
    monkeypatch.setitem(word2vec.SETTINGS, "sample", 0)  # in so few texts every word is frequent
    generator = np.random.default_rng(0)
    subjects = ["the big cat likes a small dog .".split(), "the old house , a new car and the city .".split()]
    texts = [" ".join(generator.choice(subjects[number % 2], 8)) for number in range(400)]
    columns = {"input": texts[:200], "response": texts[200:], "context": [[text] for text in texts[:200]]}
    (tmp_path / "pairs").mkdir()
    Dataset.from_dict(columns).to_parquet(tmp_path / "pairs" / "train-00000-of-00001.parquet")
    tiny_tokenizer.save_pretrained(tmp_path / "tokenizer")
    argv = ["--documents", str(tmp_path / "pairs"), "--tokenizer", str(tmp_path / "tokenizer"), "--size", str(SIZE)]
    return [*argv, "--epochs", "3", "--min_count", "1", "--cache_dir", str(tmp_path / "cache")]


@pytest.mark.parametrize("method", ["skip_gram", "cbow"])
def test_vectors_are_averages_of_gensims_vectors(method, options, tmp_path, monkeypatch):
    trained: list[Any] = []
    monkeypatch.setattr(word2vec, "fit", lambda model, *rest: (fit(model, *rest), trained.append(model)))
    assert main([method, *options, "--output_dir", str(tmp_path / "run")]) == 0
    (model,) = trained
    assert (model.sg, model.window, model.negative, model.hs) == (method != "cbow", 5, 5, 0)
    encoder = Encoder.from_pretrained(tmp_path / "run" / "model")
    words = list(map(AutoTokenizer.from_pretrained(tmp_path / "run" / "model").tokenize, TEXTS))
    sums = [np.sum([model.wv[word] for word in text if word in model.wv] or [np.zeros(SIZE)], 0) for text in words]
    norms = np.linalg.norm(sums, axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode(TEXTS), sums / np.where(norms > 0, norms, 1), atol=1e-6)
    assert "[UNK]" in words[3] and not encoder.encode(TEXTS)[3].any()
    run = json.loads((tmp_path / "run" / "results.json").read_text())["run"]
    assert run["sentences"] == 400 and run["vocabulary"] == len(model.wv)  # earlier turns are not read again


def test_evaluation_sentences_are_removed_and_counted(options, tmp_path):
    text = Dataset.from_parquet(str(tmp_path / "pairs" / "train-00000-of-00001.parquet"))["input"][0]
    (tmp_path / "stsb").mkdir()
    pair = {"sentence1": [text.upper() + " !"], "sentence2": ["none of them"], "score": [1.0], "genre": ["news"]}
    Dataset.from_dict(pair).to_parquet(tmp_path / "stsb" / "test-00000-of-00001.parquet")
    assert main(["cbow", *options, "--stsb", str(tmp_path / "stsb"), "--output_dir", str(tmp_path / "run")]) == 0
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    assert results["leakage"] == {"documents/pairs": {"stsb test": 1, "removed": 1}}
    assert results["run"]["sentences"] == 398


def test_the_same_seed_gives_the_same_bytes(options, tmp_path):
    files = []
    for name, seed in (("one", "0"), ("two", "0"), ("other", "1")):
        assert main(["skip_gram", *options, "--seed", seed, "--output_dir", str(tmp_path / name)]) == 0
        files.append({file.name: file.read_bytes() for file in (tmp_path / name / "model").iterdir()})
    assert files[0] == files[1] != files[2]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (["--tokenizer", "./nowhere"], "--tokenizer: ./nowhere cannot be loaded: "),
        (["--min_count", "10000"], "no word occurs 10000 times or more in the texts"),
        (["--documents", "/no/folder"], "/no/folder: no such folder"),
    ],
)
def test_a_mistake_is_one_line(options, changed, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["cbow", *options, *changed, "--output_dir", "run"]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("error: ") and message in error
    assert not Path("run").exists()
