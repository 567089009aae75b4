import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import StaticEmbedding

from data_scripts.errors import InputError
from data_scripts.tools.tokenizer import train_tokenizer
from trainer.arguments import Arguments
from trainer.command_line import build_arguments
from trainer.data import skip_gram
from trainer.data import teacher as teacher_module
from trainer.data.datasets import RunData
from trainer.tasks import TASKS, sampling_weights
from trainer.training import setup
from trainer.training.initialization import initialize_embeddings
from trainer.training.model import build_model
from trainer.training.setup import build_tasks

INPUTS = ["the cat", "the dog", "the the the cat", "a cat"]
RESPONSES = ["the mat", "the bone", "a mat", "the cat"]

OPTIONS = {
    "bilstm": {"word_embedding_size": 4},
    "dan": {"word_embedding_size": 4, "learned_token_weights": True},
    "cbow": {},
    "transformer": {"hidden_size": 8, "residual": True, "learned_token_weights": True},
}


def initialized(model_type: str, tmp_path, monkeypatch, **settings):
    """Return a new model whose skip-gram vectors are (0.5, 0.5, 0.5, 0.5), and its vocabulary."""
    monkeypatch.setattr(
        skip_gram, "cached_word_vectors", lambda columns, rows, size, *_: np.full((rows, size), 0.5, np.float32)
    )
    sizes = {"embedding_size": 4} | OPTIONS[model_type]
    arguments = build_arguments(
        model_type=model_type,
        model_config=sizes,
        pairs=["pairs"],
        tasks={"response_prediction": 1},
        cache_dir=str(tmp_path),
        **settings,
    )
    pairs = Dataset.from_dict({"input": INPUTS, "response": RESPONSES})
    data = RunData(training={"pairs": pairs})
    tokenizer = train_tokenizer(INPUTS + RESPONSES, "word", 30, min_count=1)
    model = build_model(arguments, tokenizer)
    tasks = build_tasks(arguments, data, tokenizer, show_progress=False)
    initialize_embeddings(arguments, model, tasks, data, tokenizer, show_progress=False)
    return model, tokenizer.get_vocab()


def sif(word: str) -> float:
    words = " ".join(INPUTS + RESPONSES).split()
    return 0.001 / (0.001 + words.count(word) / len(words))


@pytest.mark.parametrize("model_type", ["dan", "transformer"])
def test_token_weights_are_initialized_with_sif(model_type, tmp_path, monkeypatch):
    model, vocabulary = initialized(model_type, tmp_path, monkeypatch, token_weights="sif")
    weights = model.get_parameter("encoder.token_weights.weight")
    for word in ("the", "cat", "bone"):
        assert weights[vocabulary[word]].item() == pytest.approx(sif(word), rel=1e-6)
    assert weights[0].item() == 1  # padding, which is in no text


def test_lengths_of_a_cbows_word_vectors_are_initialized_with_sif(tmp_path, monkeypatch):
    settings = {"token_weights": "sif", "word_vectors": "skip_gram"}
    model, vocabulary = initialized("cbow", tmp_path, monkeypatch, **settings)
    table = model.get_parameter("encoder.embed_tokens.weight")
    length = model.config.initializer_range * 4**0.5
    for word in ("the", "cat", "bone"):
        expected = torch.full((4,), 0.5 * length * sif(word))
        torch.testing.assert_close(table[vocabulary[word]].detach(), expected)


@pytest.mark.parametrize("model_type", ["dan", "bilstm"])
def test_word_vectors_are_initialized_with_unit_length(model_type, tmp_path, monkeypatch):
    model, vocabulary = initialized(model_type, tmp_path, monkeypatch, word_vectors="skip_gram")
    table = model.get_parameter("encoder.embed_tokens.weight")
    torch.testing.assert_close(table[vocabulary["cat"]].detach(), torch.full((4,), 0.5))


def test_word_vectors_of_a_file_are_scaled_to_unit_length_on_average(tmp_path, monkeypatch):
    path = tmp_path / "glove.txt"
    path.write_text("Cat 3 0 0 0\nthe 0 1 0 0\nzebra 9 9 9 9\n")
    model, vocabulary = initialized("dan", tmp_path, monkeypatch, word_vectors=str(path))
    table = model.get_parameter("encoder.embed_tokens.weight").detach()
    expected = torch.tensor([[1.5, 0, 0, 0], [0, 0.5, 0, 0]])
    torch.testing.assert_close(table[[vocabulary["cat"], vocabulary["the"]]], expected)
    assert table[vocabulary["dog"]].any()  # not in the file: random


def test_word_vectors_of_a_sentence_transformer_are_its_embeddings_of_the_tokens(tmp_path, monkeypatch):
    generator = np.random.default_rng(0)
    texts = generator.normal(size=(30, 4)).astype(np.float32)
    tokenizer = train_tokenizer(INPUTS + RESPONSES, "word", 30, min_count=1)
    teacher = StaticEmbedding(tokenizer.backend_tokenizer, embedding_weights=texts[: len(tokenizer)])
    SentenceTransformer(modules=[teacher], device="cpu").save(str(tmp_path / "teacher"))
    model, vocabulary = initialized("dan", tmp_path, monkeypatch, word_vectors=str(tmp_path / "teacher"))
    words = [token_id for token, token_id in vocabulary.items() if not token.startswith("[")]
    embeddings = texts[words].astype(np.float64)
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    expected = embeddings - embeddings.mean(axis=0)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    table = model.get_parameter("encoder.embed_tokens.weight").detach().numpy()
    np.testing.assert_allclose(table[words], expected, atol=5e-3)  # half precision


@pytest.mark.parametrize(
    ("model_type", "option"),
    [("dan", "word_embedding_size"), ("cbow", "embedding_size"), ("transformer", "embedding_size")],
)
def test_word_vectors_of_another_size_are_refused(model_type, option, tmp_path, monkeypatch):
    path = tmp_path / "glove.txt"
    path.write_text("cat 3 0 0\n")
    with pytest.raises(InputError, match=rf"vectors of 3 dimensions, but .* have 4: set {option} to 3 in model_config"):
        initialized(model_type, tmp_path, monkeypatch, word_vectors=str(path))


def test_a_sentence_transformer_of_another_size_is_refused_before_it_embeds_the_tokens(tmp_path, monkeypatch):
    tokenizer = train_tokenizer(INPUTS + RESPONSES, "word", 30, min_count=1)
    teacher = StaticEmbedding(tokenizer.backend_tokenizer, embedding_dim=3)
    SentenceTransformer(modules=[teacher], device="cpu").save(str(tmp_path / "teacher"))
    monkeypatch.setattr(teacher_module, "embed_tokens", lambda *arguments: pytest.fail("embedded the tokens"))
    with pytest.raises(InputError, match=r"has vectors of 3 dimensions, but .* have 4: set word_embedding_size to 3"):
        initialized("dan", tmp_path, monkeypatch, word_vectors=str(tmp_path / "teacher"))


@pytest.mark.parametrize("show_progress", [True, False])
def test_tasks_are_built_with_the_datasets_the_tokenizer_and_the_options_of_the_run(
    tmp_path, monkeypatch, show_progress
):
    calls, built = [], []

    class Toy:
        datasets = ("pairs", "nli")

        @classmethod
        def build(cls, options, inputs):
            tokens = inputs.tokenize("rows", ["input", "response"])
            built.append((options, inputs.data, inputs.tokenizer, tokens))
            return {"toy/a": "first", "toy/b": "second"}

    monkeypatch.setattr(setup, "token_columns", lambda *arguments: calls.append(arguments) or "tokens")
    monkeypatch.setattr(setup, "trained_tasks", lambda arguments: ["toy"])
    monkeypatch.setitem(TASKS, "toy", Toy)
    arguments = Arguments(cache_dir=str(tmp_path), max_tokens=17)
    data = RunData(training={"pairs": Dataset.from_dict({"input": ["a"]})})
    assert build_tasks(arguments, data, "tokenizer", show_progress) == {"toy/a": "first", "toy/b": "second"}
    assert built == [(arguments, data, "tokenizer", "tokens")]
    assert calls == [("rows", ["input", "response"], "tokenizer", tmp_path, 17, show_progress)]
    with pytest.raises(InputError, match=r"^pairs: no training split, which the task toy needs$"):
        build_tasks(arguments, RunData(), "tokenizer", show_progress)


def test_sampling_weights_are_divided_by_the_root_of_the_examples():
    tasks = {"captions/a": range(400), "captions/b": range(100), "response_prediction": range(7)}
    weights = sampling_weights({"captions": 0.3, "response_prediction": 0.7, "snli": 0.5}, tasks)
    assert weights == pytest.approx({"captions/a": 0.2, "captions/b": 0.1, "response_prediction": 0.7})
