"""What sentence-transformers does with a loaded model, for a published folder and one of `save_pretrained`.

`sentence_transformers.yaml` names the test here for each of that library's own.
"""

import importlib.util
from itertools import product
from multiprocessing import get_context
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import SentenceTransformer, util
from sentence_transformers.base import model as base_model
from sentence_transformers.base.modules import Router, Transformer

import tests.forking  # noqa: F401 - its server of processes has imported the libraries
from tests.trainer.publish.test_publish import TEXTS, make_model
from trainer.publish.folder import build_folder
from trainer.publish.verify import embed_all_sides

KINDS = ["dan", "transformer", "cbow", "bilstm"]
FORMS = ["published", "plain"]


@pytest.fixture(scope="module", params=product(FORMS, KINDS), ids="-".join)
def loaded(request, tiny_tokenizer, tmp_path_factory) -> SimpleNamespace:
    """A model in memory, its vectors, its folder, and what sentence-transformers reads there."""
    form, kind = request.param
    model, folder = make_model(kind, len(tiny_tokenizer)), tmp_path_factory.mktemp(kind) / "model"
    if form == "published":
        build_folder(model, tiny_tokenizer, folder, results={}, settings={})
    else:
        model.save_pretrained(folder)
        tiny_tokenizer.save_pretrained(folder)
    return SimpleNamespace(
        form=form, kind=kind, folder=str(folder), vectors=embed_all_sides(model, tiny_tokenizer, TEXTS).inputs,
        responses=embed_all_sides(model, tiny_tokenizer, TEXTS).responses, encoder=model.encoder,
        model=SentenceTransformer(str(folder), device="cpu"),
    )  # fmt: skip


def close(found: object, expected: np.ndarray, tolerance: float = 1e-5) -> bool:
    return np.shape(found) == np.shape(expected) and np.allclose(found, expected, rtol=tolerance, atol=tolerance)


# -- inputs and outputs -----------------------------------------------------------------------------------------------


def test_texts_have_any_form_and_keep_their_order(loaded):
    encode = loaded.model.encode
    column = Dataset.from_dict({"text": TEXTS})["text"]
    for texts in (TEXTS, tuple(TEXTS), np.array(TEXTS), column):
        assert close(encode(texts), loaded.vectors)
    assert close(encode(TEXTS[0]), loaded.vectors[0]) and close(encode([TEXTS[0]]), loaded.vectors[:1])
    for batch_size in (1, 2):
        assert close(encode(TEXTS, batch_size=batch_size), loaded.vectors)
    with pytest.raises(ValueError, match="batch_size"):
        encode(TEXTS, batch_size=0)


def test_no_text_gives_no_vectors_of_any_type(loaded):
    for precision in ("float32", "int8", "ubinary"):
        assert loaded.model.encode([], precision=precision, normalize_embeddings=True, truncate_dim=5).size == 0
    assert loaded.model.encode([], convert_to_tensor=True).numel() == 0
    assert loaded.model.encode([], convert_to_numpy=False) == []


def test_vectors_have_the_requested_type_and_precision(loaded):
    encode = loaded.model.encode
    tensor = encode(TEXTS, convert_to_tensor=True)
    assert isinstance(tensor, torch.Tensor) and close(tensor, loaded.vectors)
    rows = encode(TEXTS, convert_to_numpy=False)
    assert isinstance(rows, list) and all(isinstance(row, torch.Tensor) for row in rows)
    assert close(torch.stack(rows), loaded.vectors)
    for precision in ("float32", "int8", "uint8", "binary", "ubinary"):
        found = encode(TEXTS, precision=precision)
        expected = util.quantize_embeddings(encode(TEXTS), precision)
        assert found.dtype == expected.dtype and np.array_equal(found, expected)
    with pytest.raises(ValueError, match="Precision"):
        encode(TEXTS, precision="int3")


def test_vectors_are_normalized_and_truncated_on_request(loaded):
    model, first = loaded.model, loaded.vectors[:, :5]
    unit = first / np.maximum(np.linalg.norm(first, axis=1, keepdims=True), 1e-12)
    assert close(model.encode(TEXTS, truncate_dim=5), first)
    assert close(model.encode(TEXTS, truncate_dim=5, normalize_embeddings=True), unit)
    assert model.get_embedding_dimension() == 12
    with model.truncate_embeddings(5):
        assert model.get_embedding_dimension() == 5 and close(model.encode(TEXTS), first)
    model.truncate_dim = 24
    assert model.get_embedding_dimension() == 12 and close(model.encode(TEXTS), loaded.vectors)
    model.truncate_dim = None
    with pytest.warns(FutureWarning):
        assert model.get_sentence_embedding_dimension() == 12


def test_all_features_of_a_text_are_returned(loaded):
    features = loaded.model.encode(TEXTS, output_value=None)
    assert [len(row["input_ids"]) > 0 for row in features] == [True] * len(TEXTS)
    assert close(torch.stack([row["sentence_embedding"] for row in features]), loaded.vectors)
    # Its Transformer module keeps one output of a model: ours is the sentence embedding. AutoModel returns both.
    with pytest.raises(KeyError, match="token_embeddings"):
        loaded.model.encode(TEXTS, output_value="token_embeddings")


def test_a_progress_bar_is_shown_on_request(loaded, capsys):
    loaded.model.encode(TEXTS, show_progress_bar=False)
    assert "Batches" not in capsys.readouterr().err
    loaded.model.encode(TEXTS, show_progress_bar=True, device="cpu")
    assert "Batches" in capsys.readouterr().err


# -- queries, documents, prompts --------------------------------------------------------------------------------------


def test_queries_are_embeddings_and_documents_go_through_the_response_network_of_a_published_folder(loaded):
    model, published = loaded.model, loaded.form == "published"
    responses = loaded.responses
    if published and loaded.kind == "transformer":  # normalize_response
        responses = responses / np.linalg.norm(responses, axis=1, keepdims=True)
    assert close(model.encode_query(TEXTS), loaded.vectors)
    assert close(model.encode_document(TEXTS), responses if published else loaded.vectors)
    assert close(model.encode(TEXTS, task="document"), responses if published else loaded.vectors)
    assert ("task" in model.get_model_kwargs()) == published
    with pytest.raises(ValueError, match="this model does not use"):
        model.encode(TEXTS, no_such_argument=True)


def test_prompts_precede_the_text_and_are_saved(loaded, tmp_path):
    model, texts = (
        SentenceTransformer(loaded.folder, device="cpu", prompts={"query": "hello ", "big": "the big "}),
        TEXTS[:2],
    )
    with_hello, with_big = ([f"{prompt} {text}" for text in texts] for prompt in ("hello", "the big"))
    expected = loaded.model.encode(with_hello), loaded.model.encode(with_big)
    assert not close(expected[0], loaded.vectors[:2])
    assert close(model.encode(texts, prompt="hello "), expected[0])
    assert close(model.encode_query(texts), expected[0]) and close(model.encode(texts), loaded.vectors[:2])
    assert close(model.encode(texts, prompt_name="big"), expected[1])
    with pytest.raises(ValueError, match="no_such_prompt"):
        model.encode(texts, prompt_name="no_such_prompt")
    model.default_prompt_name = "big"
    model.save_pretrained(str(tmp_path))
    again = SentenceTransformer(str(tmp_path), device="cpu")
    assert again.prompts == {"query": "hello ", "document": "", "big": "the big "}
    assert close(again.encode(texts), expected[1])


# -- loading ----------------------------------------------------------------------------------------------------------


def test_long_texts_are_truncated_to_a_length_given_in_any_of_three_ways(loaded):
    text, two = "how old is the cat", loaded.model.encode("how old")
    assert not close(loaded.model.encode(text), two)
    assert close(loaded.model.encode(text, processing_kwargs={"text": {"max_length": 2, "truncation": True}}), two)
    options = {"device": "cpu", "processor_kwargs": {"model_max_length": 2}}
    model = SentenceTransformer(loaded.folder, **options)
    assert model.max_seq_length == 2 and close(model.encode(text), two)
    model.max_seq_length = 64
    assert close(model.encode(text), loaded.model.encode(text))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_close_on_both_routes(loaded, dtype):
    """Of an empty text, too, whose vector may be zero: normalized once more, it would not be a number in float16."""
    model = SentenceTransformer(loaded.folder, device="cpu", model_kwargs={"dtype": dtype})
    for encode, exact in (
        (model.encode_query, loaded.model.encode_query),
        (model.encode_document, loaded.model.encode_document),
    ):
        found, expected = encode(TEXTS, convert_to_tensor=True).float(), exact(TEXTS, convert_to_tensor=True)
        assert (found - expected).norm(dim=1).max() < 0.03 * expected.norm(dim=1).max()
    assert model.transformers_model.dtype == dtype
    assert loaded.model.transformers_model.dtype == torch.float32


def test_arguments_reach_the_model_and_the_modules_are_ours(loaded):
    model = SentenceTransformer(loaded.folder, device="cpu", model_kwargs={"attn_implementation": "eager"})
    assert model.transformers_model.config._attn_implementation == "eager"
    assert type(model.transformers_model) is type(loaded.encoder)
    assert [type(module) for module in model] == [Transformer, Router][: 2 if loaded.form == "published" else 1]
    assert close(model.encode(TEXTS), loaded.vectors)


def test_a_saved_model_is_the_same_on_both_routes_and_has_a_card(loaded, tmp_path):
    loaded.model.save_pretrained(str(tmp_path))
    assert (tmp_path / "model.safetensors").exists() and not list(tmp_path.rglob("*.bin"))
    again = SentenceTransformer(str(tmp_path), device="cpu")
    for route in ("encode", "encode_query", "encode_document"):
        assert np.array_equal(getattr(again, route)(TEXTS), getattr(loaded.model, route)(TEXTS))
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert ("convsim" in card) if loaded.form == "published" else ("12 dimensions" in card)


def test_similarity_is_the_function_of_the_folder_or_of_an_argument(loaded, tmp_path):
    first, second = loaded.model.encode_query(TEXTS), loaded.model.encode_document(TEXTS)
    norms = np.linalg.norm(first, axis=1)[:, None] * np.linalg.norm(second, axis=1)
    difference = first[:, None] - second
    expected = {
        "dot": first @ second.T,
        "cosine": first @ second.T / np.maximum(norms, 1e-12),
        "euclidean": -np.linalg.norm(difference, axis=2),
        "manhattan": -np.abs(difference).sum(2),
    }
    name = "dot" if loaded.form == "published" else "cosine"
    assert loaded.model.similarity_fn_name == name
    assert close(loaded.model.similarity(first, second), expected[name], 1e-4)
    model = SentenceTransformer(loaded.folder, device="cpu", similarity_fn_name="manhattan")
    for name, scores in expected.items():
        assert model.similarity_fn_name == "manhattan"
        model.similarity_fn_name = name
        assert close(model.similarity(first, second), scores, 1e-4)
        assert close(model.similarity_pairwise(first, second), np.diag(scores), 1e-4)
        model.save_pretrained(str(tmp_path / name))
        assert SentenceTransformer(str(tmp_path / name), device="cpu").similarity_fn_name == name
        model.similarity_fn_name = "manhattan"


# -- processes and backends -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("loaded", [("published", "transformer")], indirect=True, ids="-".join)
def test_two_processes_give_the_vectors_of_one(loaded, monkeypatch):
    # Instead of new processes, which import the libraries.
    monkeypatch.setattr(base_model.mp, "get_context", lambda _: get_context("forkserver"))
    model = loaded.model
    pool = model.start_multi_process_pool(["cpu", "cpu"])
    try:
        assert close(model.encode(TEXTS, pool=pool, chunk_size=2), loaded.vectors)
        assert close(model.encode_document(TEXTS, pool=pool), model.encode_document(TEXTS))
        assert model.encode([], pool=pool).size == 0
        tensor = model.encode(TEXTS, pool=pool, prompt="hello ", normalize_embeddings=True, convert_to_tensor=True)
        assert isinstance(tensor, torch.Tensor)
        assert close(tensor, model.encode(TEXTS, prompt="hello ", normalize_embeddings=True))
        exact, found = (
            model.encode(TEXTS, precision="int8"),
            model.encode(TEXTS, pool=pool, precision="int8", chunk_size=1),
        )
        assert np.abs(exact.astype(int) - found).max() <= 1
        features = model.encode(TEXTS, pool=pool, output_value=None)
        assert close(torch.stack([row["sentence_embedding"] for row in features]), loaded.vectors)
        assert close(model.encode(TEXTS[0], pool=pool), loaded.vectors[0])
    finally:
        model.stop_multi_process_pool(pool)


@pytest.mark.skipif(importlib.util.find_spec("optimum") is not None, reason="optimum is installed")
def test_other_backends_need_a_package_that_is_not_ours(loaded):
    for backend in ("onnx", "openvino"):
        with pytest.raises(Exception, match=r"(?i)requires installing optimum"):
            SentenceTransformer(loaded.folder, device="cpu", backend=backend)
    with pytest.raises(ValueError, match="no_such_backend"):
        SentenceTransformer(loaded.folder, device="cpu", backend="no_such_backend")
