"""`matryoshka_dims`: embeddings that may be truncated."""

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer

from modeling_convsim import ConvSimDanConfig, ConvSimDanForMultitask, ConvSimForMultitask
from modeling_convsim.encoding import Encoder
from tests.conftest import WORDS
from tests.trainer.tasks.test_tasks import (
    HEADS,
    ROWS,
    build_model,
    column,
    loss_and_gradients,
    positive_pairs,
    vectors_of,
)
from trainer.data.token_cache import TokenColumn
from trainer.publish import folder as publish
from trainer.tasks import Task
from trainer.tasks.captions import Captions
from trainer.tasks.losses import false_negatives, truncate
from trainer.tasks.response_prediction import ResponsePrediction

SIZES = [7, 3]


def build_dan(normalize: bool, input_network: bool) -> ConvSimForMultitask:
    torch.manual_seed(0)
    sizes = {"word_embedding_size": 8, "bigram_buckets": 32, "hidden_sizes": [8], "logit_scale_init": 7.0}
    heads = {"normalize_response": normalize, "input_network": input_network}
    return ConvSimDanForMultitask(ConvSimDanConfig(**HEADS, **sizes, **heads)).double()


def build_task(name: str, sizes: list[int], mini_batch_size: int | None = None) -> Task:
    if name == "contrastive":
        return Captions(column(0), positive_pairs(), 20, mini_batch_size, sizes)
    return ResponsePrediction(column(0), column(1), True, True, mini_batch_size, sizes)


def unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def cross_entropy(scores: np.ndarray, masked: np.ndarray) -> float:
    return float(np.mean(np.log(np.where(masked, 0, np.exp(scores)).sum(axis=1)) - np.diag(scores)))


def test_truncated_vectors_are_rescaled_or_left_unchanged():
    vectors = torch.tensor([[3.0, 4.0, 12.0], [0.0, 0.0, 2.0], [0.0, 0.0, 0.0]], requires_grad=True)
    torch.testing.assert_close(truncate(vectors, 2), torch.tensor([[7.8, 10.4], [0, 0], [0, 0]]))
    torch.testing.assert_close(truncate(vectors, 2, keep_length=False), vectors[:, :2])
    assert truncate(vectors, None) is vectors
    truncate(vectors, 2).sum().backward()
    assert vectors.grad is not None and vectors.grad.abs().max() < 10


@pytest.mark.parametrize("input_network", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
def test_response_prediction_adds_the_loss_of_truncated_embeddings(normalize, input_network):
    model, task = build_dan(normalize, input_network), build_task("response_prediction", SIZES)
    batch = task.batch(np.arange(ROWS))
    input_keys, response_keys = batch["input_keys"], batch["response_keys"]
    loss, metrics = task.loss(model, batch)
    with torch.no_grad():
        output = model(**{key: value for key, value in batch.items() if not key.endswith("_keys")})
    inputs = (output.query_embeds if input_network else output.pooler_output).numpy()
    responses = output.response_embeds.numpy()
    masked = false_negatives(input_keys, response_keys, input_keys, response_keys, torch.arange(ROWS)).numpy()
    expected = 0.0
    for size in (12, *SIZES):
        u, v = inputs[:, :size], responses[:, :size]
        # u is L2-normalized; the networks' outputs are only with normalize_response, which also scales scores.
        u = unit(u) if normalize or not input_network else u
        v = 7.0 * unit(v) if normalize else v
        scores = u @ v.T
        expected += (cross_entropy(scores, masked) + cross_entropy(scores.T, masked)) / 2
        right = (scores.argmax(axis=1) == np.arange(ROWS)).mean()
        np.testing.assert_allclose(metrics["accuracy" if size == 12 else f"accuracy_{size}"].item(), right, rtol=1e-6)
    np.testing.assert_allclose(loss.item(), expected, rtol=1e-5)


def test_contrastive_tasks_add_the_loss_of_truncated_embeddings():
    model, similar, task = build_model("dan").eval(), positive_pairs(), build_task("contrastive", SIZES)
    loss, metrics = task.loss(model, task.batch(np.arange(ROWS)))
    first, second = vectors_of(model, similar.first), vectors_of(model, similar.second)
    hard = similar.negative[similar.negative >= 0]
    negatives = vectors_of(model, hard)
    masked = (similar.groups[:, None] == similar.groups) & ~np.eye(ROWS, dtype=bool)
    masked_hard = np.concatenate([masked, similar.groups[:, None] == similar.groups[hard]], axis=1)
    expected = 0.0
    for size in (12, *SIZES):
        u, v, others = unit(first[:, :size]), unit(second[:, :size]), unit(negatives[:, :size])
        forth = cross_entropy(20 * u @ np.concatenate([v, others]).T, masked_hard)
        expected += (forth + cross_entropy(20 * v @ u.T, masked)) / 2
    np.testing.assert_allclose(loss.item(), expected, rtol=1e-5)
    assert set(metrics) == {"accuracy", "accuracy_7", "accuracy_3"}


@pytest.mark.parametrize("name", ["response_prediction", "contrastive"])
def test_without_sizes_the_loss_is_that_of_full_embeddings_to_the_bit(name):
    model = build_dan(normalize=True, input_network=False).float()
    plain, metrics = build_task(name, []).loss(model, build_task(name, []).batch(np.arange(ROWS)))
    matryoshka, _ = build_task(name, [3]).loss(model, build_task(name, []).batch(np.arange(ROWS)))
    assert set(metrics) == {"accuracy"} and matryoshka > plain
    default = (
        ResponsePrediction(column(0), column(1), True, True)
        if name == "response_prediction"
        else Captions(column(0), positive_pairs(), 20)
    )
    assert torch.equal(default.loss(model, default.batch(np.arange(ROWS)))[0], plain)


@pytest.mark.parametrize("name", ["response_prediction", "contrastive"])
def test_gradient_caching_has_the_gradient_of_the_whole_batch(name):
    model = build_dan(normalize=True, input_network=True)
    loss, expected = loss_and_gradients(model, build_task(name, SIZES))
    cached_loss, cached = loss_and_gradients(model, build_task(name, SIZES, mini_batch_size=5))
    torch.testing.assert_close(cached_loss, loss)
    torch.testing.assert_close(cached, expected)


def precision(sizes: list[int]) -> tuple[float, float]:
    """P@1 among 150 responses of embeddings of 32 dimensions, and of 4, after training with `sizes`."""
    torch.manual_seed(0)
    widths = {"word_embedding_size": 32, "bigram_buckets": 64, "hidden_sizes": [32], "embedding_size": 32}
    config = ConvSimDanConfig(vocab_size=60, response_hidden_sizes=[32], normalize_response=True, **widths)
    model = ConvSimDanForMultitask(config)
    generator = np.random.default_rng(0)
    inputs, responses = (
        TokenColumn(generator.integers(2, 60, 150 * 5), np.arange(0, 751, 5), np.arange(150)) for _ in range(2)
    )
    task = ResponsePrediction(inputs, responses, matryoshka_dims=sizes)
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for _ in range(100):
        optimizer.zero_grad()
        task.loss(model, task.batch(np.arange(150)))[0].backward()
        optimizer.step()
    with torch.no_grad():
        output = model(**task.batch(np.arange(150)))
    u, v = output.pooler_output.numpy(), output.response_embeds.numpy()
    scores = (unit(u[:, :size]) @ unit(v[:, :size]).T for size in (32, 4))
    full, truncated = ((each.argmax(axis=1) == np.arange(150)).mean() for each in scores)
    return float(full), float(truncated)


def test_matryoshka_training_improves_truncated_embeddings():
    (plain_full, plain_truncated), (full, truncated) = precision([]), precision([16, 8, 4])
    assert plain_full > 0.9 and full > 0.9
    assert truncated > plain_truncated + 0.5


def random_texts(seed: int) -> list[str]:
    generator = np.random.default_rng(seed)
    return [" ".join(generator.choice(WORDS, 4)) for _ in range(ROWS)]


def column_of(texts: list[str], tokenizer) -> TokenColumn:
    ids = tokenizer(texts)["input_ids"]
    return TokenColumn(np.concatenate(ids), np.cumsum([0, *map(len, ids)]), np.arange(ROWS))


@pytest.mark.parametrize("input_network", [False, True])
@pytest.mark.parametrize("normalize", [False, True])
def test_truncated_vectors_of_the_encoder_have_the_scores_of_the_loss(normalize, input_network, tiny_tokenizer):
    model, inputs, responses = build_dan(normalize, input_network).float(), random_texts(0), random_texts(1)
    columns = [column_of(texts, tiny_tokenizer) for texts in (inputs, responses)]
    with torch.no_grad():
        plain, matryoshka = (
            task.loss(model, task.batch(np.arange(ROWS)))[0].item()
            for task in (ResponsePrediction(*columns, matryoshka_dims=sizes) for sizes in ([], [7]))
        )
    encoder = Encoder(model, tiny_tokenizer, truncate_dim=7)
    scores = encoder.encode(inputs, "query") @ encoder.encode(responses, "response").T * (7.0 if normalize else 1.0)
    np.testing.assert_allclose(cross_entropy(scores, np.zeros_like(scores, bool)), matryoshka - plain, rtol=1e-5)


@pytest.mark.parametrize("normalize", [False, True])
def test_sentence_transformers_truncates_to_the_same_vectors(normalize, tiny_tokenizer, tmp_path):
    model, texts = build_dan(normalize, input_network=False).float(), random_texts(0)
    folder = publish.build_folder(model, tiny_tokenizer, tmp_path / "run" / "model", results={}, settings={})
    encoder = Encoder.from_pretrained(folder, "cpu", truncate_dim=7)
    peer = SentenceTransformer(str(folder), device="cpu", truncate_dim=7)
    np.testing.assert_allclose(encoder.encode(texts), peer.encode(texts, normalize_embeddings=True), atol=1e-6)
    responses = peer.encode_document(texts, normalize_embeddings=normalize)
    np.testing.assert_allclose(encoder.encode(texts, "response"), responses, rtol=1e-5, atol=1e-6)
