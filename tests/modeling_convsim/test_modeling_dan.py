from itertools import pairwise

import numpy as np
import pytest
import torch

from modeling_convsim import ConvSimDanConfig, ConvSimDanModel
from modeling_convsim.modeling_dan import hash_bigrams
from tests.modeling_convsim.tiny_models import DAN, SENTENCES, build, pack


def reference_embedding(model: ConvSimDanModel, sentence: list[int]) -> np.ndarray:
    """The paper's formulas, one token at a time, in float64."""
    weights = {name: value.double().numpy() for name, value in model.state_dict().items()}
    config = model.config
    total = np.zeros(config.word_embedding_size)
    for token in sentence:
        weight = weights["token_weights.weight"][token, 0] if config.learned_token_weights else 1.0
        total += weight * weights["embed_tokens.weight"][token] / np.sqrt(len(sentence))
    if config.bigram_buckets:
        for first, second in pairwise(sentence):
            bucket = (first * 1_000_003 + second) % 2_147_483_647 % config.bigram_buckets
            total += weights["embed_bigrams.weight"][bucket] / np.sqrt(len(sentence) - (not config.single_sum))
    if config.dynamic_tanh:
        scale, gain, bias = (weights[f"dynamic_tanh.{name}"] for name in ("scale", "gain", "bias"))
        total = gain * np.tanh(scale * total) + bias
    if config.residual and not config.hidden_sizes:
        return total / (np.linalg.norm(total) or 1)
    hidden = total
    last = len(config.hidden_sizes)
    for layer in range(last + 1):
        hidden = weights[f"layers.{layer}.weight"] @ hidden + weights[f"layers.{layer}.bias"]
        if layer < last or not config.residual:
            hidden = np.tanh(hidden)
    if config.residual:
        hidden = hidden + total
    return hidden / np.linalg.norm(hidden)


@pytest.mark.parametrize("kind", ["dan", "dan_best", "dan_sum", "dan_tanh", "dan_words", "dan_single_sum"])
def test_agrees_with_a_loop_over_sentences_in_float64(kind):
    model = build(kind).encoder
    expected = np.stack([reference_embedding(model, sentence) for sentence in SENTENCES])
    with torch.no_grad():
        np.testing.assert_allclose(model(**pack(SENTENCES)).pooler_output.numpy(), expected, atol=1e-6)


def test_bigram_hash_does_not_overflow():
    first, second = torch.randint(0, 2**31 - 1, (2, 1000), generator=torch.Generator().manual_seed(0))
    expected = [
        ((a * 1_000_003 + b) % 2_147_483_647) % 2**18 for a, b in zip(first.tolist(), second.tolist(), strict=True)
    ]
    assert hash_bigrams(first, second, 2**18).tolist() == expected


def test_residual_dan_is_initialized_to_the_sum_of_words():
    config = ConvSimDanConfig(**DAN, embedding_size=8, residual=True)
    model = ConvSimDanModel(config)
    words = model.embed_tokens.weight
    total = (words[5] + words[6] + words[7]) / 3**0.5
    torch.testing.assert_close(model(**pack([[5, 6, 7]])).pooler_output[0], total / total.norm())


def test_a_dynamic_tanh_starts_near_the_sum_of_words():
    with torch.device("meta"):
        model = ConvSimDanModel(
            ConvSimDanConfig(**DAN | {"hidden_sizes": []}, embedding_size=8, residual=True, dynamic_tanh=True)
        )
    model = model.to_empty(device="cpu").init_weights() or model
    sums = torch.linspace(-0.1, 0.1, 8).unsqueeze(0)
    torch.testing.assert_close(model.dynamic_tanh(sums), sums, rtol=0.02, atol=0)


def test_token_weights_of_initial_and_added_tokens_are_one():
    model = ConvSimDanModel(ConvSimDanConfig(**DAN, embedding_size=12, learned_token_weights=True))
    assert (model.token_weights.weight == 1).all()
    with torch.no_grad():
        model.token_weights.weight.fill_(0.5)
    model.resize_token_embeddings(64)
    assert model.token_weights.weight.squeeze(1).tolist() == [0.5] * 60 + [1.0] * 4


def test_scale_tokens_sets_the_learned_weights():
    weights = torch.rand(60, 1)
    model = build("dan_best").encoder
    model.scale_tokens(weights)
    assert torch.equal(model.token_weights.weight, weights)
    with pytest.raises(ValueError, match="set learned_token_weights: true"):
        build("dan").encoder.scale_tokens(weights)
    with pytest.raises(ValueError, match="convsim_bilstm has no token weights: use CBOW, or a DAN"):
        build("bilstm").encoder.scale_tokens(weights)


def test_token_dropout_drops_tokens_and_preserves_the_expected_sums():
    config = ConvSimDanConfig(**DAN | {"bigram_buckets": 0}, embedding_size=8, residual=True, token_dropout=0.25)
    model = ConvSimDanModel(config).train()
    with torch.no_grad():
        model.embed_tokens.weight.copy_(torch.eye(60, 8))  # id i is the i-th unit vector
    ids = torch.arange(2, 8)
    samples = []
    for seed in range(400):
        torch.manual_seed(seed)
        sums = model._sum_packed(ids, torch.tensor([0, 6]))[0]
        samples.append(sums.detach()[2:] * 6**0.5)
    values = torch.stack(samples)
    assert torch.isclose(values, torch.tensor(0.0)).logical_or(torch.isclose(values, torch.tensor(4 / 3))).all()
    assert values.mean() == pytest.approx(1.0, abs=0.05)


def test_token_dropout_drops_bigrams_too_and_independently_of_words():
    model = ConvSimDanModel(ConvSimDanConfig(**DAN, embedding_size=12, token_dropout=0.5)).train()
    with torch.no_grad():
        model.embed_tokens.weight.fill_(0.0)
        model.embed_bigrams.weight.fill_(1.0)
    ids, counts = torch.arange(2, 7), []
    for seed in range(200):
        torch.manual_seed(seed)
        sums = model._sum_packed(ids, torch.tensor([0, 5]))[0]
        counts.append(sums[0].item() * 4**0.5 / 2)  # each of the four bigrams counts 0 or 2
    assert {round(count, 4) for count in counts} == {0, 1, 2, 3, 4}
    assert sum(counts) / 200 == pytest.approx(2, abs=0.3)


@pytest.mark.parametrize("activation", ["tanh", "relu"])
def test_every_layer_has_the_activation(activation):
    config = ConvSimDanConfig(**DAN | {"bigram_buckets": 0}, embedding_size=12, activation=activation)
    model = ConvSimDanModel(config).double()
    function = {"tanh": np.tanh, "relu": lambda x: np.maximum(x, 0)}[activation]
    expected = model.embed_tokens.weight[5].detach().numpy()
    for layer in model.layers:
        expected = function(layer.weight.detach().numpy() @ expected + layer.bias.detach().numpy())
    vector = model(**pack([[5]])).pooler_output[0].detach().numpy()
    np.testing.assert_allclose(vector, expected / np.linalg.norm(expected), atol=1e-9)
