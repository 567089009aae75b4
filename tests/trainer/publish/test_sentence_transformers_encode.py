"""What sentence-transformers does with a published folder and with one of `save_pretrained`."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

import tests.forking  # noqa: F401 - its server of processes has imported the libraries
from tests.trainer.publish.test_publish import TEXTS, make_model
from trainer.publish.folder import build_folder
from trainer.publish.verify import embed_all_sides

KINDS = ["dan", "transformer"]
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


def test_a_saved_model_is_the_same_on_both_routes_and_has_a_card(loaded, tmp_path):
    loaded.model.save_pretrained(str(tmp_path))
    assert (tmp_path / "model.safetensors").exists() and not list(tmp_path.rglob("*.bin"))
    again = SentenceTransformer(str(tmp_path), device="cpu")
    for route in ("encode", "encode_query", "encode_document"):
        assert np.array_equal(getattr(again, route)(TEXTS), getattr(loaded.model, route)(TEXTS))
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert ("convsim" in card) if loaded.form == "published" else ("12 dimensions" in card)


# -- processes and backends -------------------------------------------------------------------------------------------
