"""A published folder in sentence-transformers and clients of it: fine-tuning with and without routes, and pairs."""

from pathlib import Path

import numpy as np
import pytest
import torch
from datasets import Dataset
from sentence_transformers import (
    CrossEncoder,
    SentenceTransformer,
    SentenceTransformerTrainer,
    SentenceTransformerTrainingArguments,
    util,
)
from sentence_transformers.sentence_transformer.losses import (
    CachedGISTEmbedLoss,
    CoSENTLoss,
    CosineSimilarityLoss,
    MultipleNegativesRankingLoss,
)
from torch import nn
from transformers import AutoModel

from modeling_convsim import ConvSimDanConfig, ConvSimDanForMultitask, ConvSimForMultitask, Encoder
from tests.modeling_convsim.tiny_models import build
from tests.trainer.publish.test_publish import TEXTS
from trainer.data.token_cache import TokenColumn
from trainer.publish import folder as publish
from trainer.settings import Settings
from trainer.tasks.response_prediction import ResponsePrediction

INPUTS = ["how old are you?", "do you like the dog?", "where is the big house", "who is happy today", "hello", "why"]
RESPONSES = ["i am old", "no, i hate it", "in the city", "the cat is", "hello. how are you", "maybe not"]
PAIRS = {"input": INPUTS, "response": RESPONSES}
KINDS = ["dan", "dan_input_network", "transformer", "bilstm", "pretrained"]


def build_folder(model: ConvSimForMultitask, tokenizer, folder: Path) -> Path:
    return publish.build_folder(model, tokenizer, folder / "model", results={}, settings={})


def packed(tokenizer, texts: list[str]) -> TokenColumn:
    ids = tokenizer(texts)["input_ids"]
    return TokenColumn(np.concatenate(ids), np.cumsum([0, *map(len, ids)]), np.arange(len(texts)))


@pytest.mark.parametrize("symmetric", [False, True])
def test_our_loss_is_that_of_sentence_transformers(symmetric, tiny_tokenizer, tmp_path):
    torch.manual_seed(0)
    sizes = {"word_embedding_size": 8, "hidden_sizes": [9], "bigram_buckets": 50, "embedding_size": 12}
    config = ConvSimDanConfig(
        vocab_size=len(tiny_tokenizer), response_hidden_sizes=[10], normalize_response=True, logit_scale_init=7, **sizes
    )
    model = ConvSimDanForMultitask(config).eval()
    options = Settings(symmetric_loss=symmetric)
    ours = ResponsePrediction(options, packed(tiny_tokenizer, INPUTS), packed(tiny_tokenizer, RESPONSES))
    loss, _ = ours.loss(model, ours.batch(np.arange(len(INPUTS))))

    theirs = SentenceTransformer(str(build_folder(model, tiny_tokenizer, tmp_path)), device="cpu")
    both = {"directions": ("query_to_doc", "doc_to_query"), "partition_mode": "per_direction"} if symmetric else {}
    ranking = MultipleNegativesRankingLoss(theirs, scale=7.0, similarity_fct=util.dot_score, **both)
    sides = (("query", INPUTS), ("document", RESPONSES))
    features = [theirs.preprocess(texts, task=route) | {"task": route} for route, texts in sides]
    expected = ranking(features, torch.empty(0))
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-5)


# -- trained further --------------------------------------------------------------------------------------------------


def weights_of(module: nn.Module) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in module.named_parameters()}


@pytest.fixture(params=["dan_input_network", "dan_lexical", "pretrained"])
def routed(request, tiny_tokenizer, tmp_path) -> str:
    """A published folder."""
    return str(build_folder(build(request.param), tiny_tokenizer, tmp_path))


def arguments(folder: Path, **options: object) -> SentenceTransformerTrainingArguments:
    quiet = {"use_cpu": True, "report_to": "none", "save_strategy": "no", "disable_tqdm": True}
    return SentenceTransformerTrainingArguments(output_dir=str(folder / "run"), **quiet, **options)


def test_clients_that_know_no_routes_get_sentence_embeddings(routed):
    model = SentenceTransformer(routed, device="cpu", trust_remote_code=True)
    expected, prompts = model.encode(TEXTS), {"query": "", "text": ""}
    # llama-index's HuggingFaceEmbedding gives prompts of its own, and encodes both sides by `encode` with their names.
    llama_index = SentenceTransformer(routed, device="cpu", trust_remote_code=True, prompts=prompts)
    for name in prompts:
        found = llama_index.encode(TEXTS, batch_size=10, prompt_name=name, normalize_embeddings=True)
        np.testing.assert_allclose(found, expected, atol=1e-6)
    # SetFitModel.from_pretrained(folder, use_differentiable_head=True) and its fit().
    head = nn.Linear(model.get_embedding_dimension(), 2)
    del model[1]
    length = model.get_max_seq_length()
    rows = [model.tokenizer(text, max_length=length, padding="max_length", truncation=True) for text in TEXTS]
    features = {name: torch.Tensor([row[name] for row in rows]).int() for name in model.tokenizer.model_input_names}
    vectors = model(features)["sentence_embedding"]
    head(vectors).sum().backward()
    np.testing.assert_allclose(vectors.detach(), expected, atol=1e-6)


def test_without_its_router_a_model_trains_without_routes(routed, tmp_path):
    model = SentenceTransformer(routed, device="cpu", trust_remote_code=True)
    expected = model.encode(TEXTS)
    del model[1]
    model.save(str(tmp_path / "plain"))
    plain = SentenceTransformer(str(tmp_path / "plain"), device="cpu")
    for encode in (model.encode, plain.encode, plain.encode_query, plain.encode_document):
        np.testing.assert_allclose(encode(TEXTS), expected, atol=1e-6)
    scores = {"label": [0.0, 1.0] * 3}
    for loss, labels in (
        (CosineSimilarityLoss(plain), scores),  # that of SetFit
        (CoSENTLoss(plain), scores),
        (CachedGISTEmbedLoss(plain, model), {}),
    ):
        before, rows = weights_of(plain), Dataset.from_dict(PAIRS | labels)
        SentenceTransformerTrainer(plain, arguments(tmp_path, max_steps=1), train_dataset=rows, loss=loss).train()
        assert any((weight != before[name]).any() for name, weight in plain.named_parameters())


@pytest.mark.parametrize("kind", KINDS)
def test_a_cross_encoder_classifies_pairs_as_the_multitask_model_does(kind, tiny_tokenizer, tmp_path):
    folder = build_folder(build(kind), tiny_tokenizer, tmp_path)
    expected = Encoder.from_pretrained(folder).nli_logits(INPUTS, RESPONSES)
    model = CrossEncoder(str(folder), device="cpu")
    model.save_pretrained(str(tmp_path / "saved"))
    for each in (model, CrossEncoder(str(tmp_path / "saved"), device="cpu")):
        np.testing.assert_allclose(each.predict(list(zip(INPUTS, RESPONSES, strict=True))), expected, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_trainer_of_sentence_transformers_trains_both_routes(kind, tiny_tokenizer, tmp_path):
    folder = build_folder(build(kind), tiny_tokenizer, tmp_path)
    model = SentenceTransformer(str(folder), device="cpu")
    encoder, router = model[0], model[1]
    before = weights_of(encoder), weights_of(router)
    loss = MultipleNegativesRankingLoss(model, scale=1.0, similarity_fct=util.dot_score)
    routes = {"router_mapping": {"input": "query", "response": "document"}, "logging_steps": 1}
    options = arguments(tmp_path, max_steps=6, per_device_train_batch_size=6, learning_rate=0.01, **routes)
    trainer = SentenceTransformerTrainer(model, options, train_dataset=Dataset.from_dict(PAIRS), loss=loss)
    trainer.train()
    losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
    assert losses[-1] < losses[0]
    for module, weights in zip((encoder, router), before, strict=True):
        assert weights
        moved = {name for name, weight in module.named_parameters() if (weight != weights[name]).any()}
        assert moved == set(weights), set(weights) - moved

    saved = str(tmp_path / "saved")
    model.save_pretrained(saved)
    model.eval()
    # The saved folder still opens with AutoModel: the encoder gives the sentence embeddings.
    batch = tiny_tokenizer(TEXTS, padding=True, return_tensors="pt")
    vectors = AutoModel.from_pretrained(saved).eval()(batch["input_ids"], batch["attention_mask"]).pooler_output
    np.testing.assert_allclose(vectors.detach().numpy(), model.encode(TEXTS), atol=1e-6)
