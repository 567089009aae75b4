"""The Transformer as a residual of the averages of word embeddings."""

import pytest
import torch
import torch.nn.functional as F

from modeling_convsim import (
    ConvSimDanConfig,
    ConvSimDanForMultitask,
    ConvSimTransformerConfig,
    ConvSimTransformerForMultitask,
    ConvSimTransformerModel,
)
from tests.modeling_convsim.test_modeling_transformer import reference_states
from tests.modeling_convsim.tiny_models import BEST, HEADS, SENTENCES, build, pack, pad

LAYERS = {"hidden_size": 16, "intermediate_size": 20, "num_hidden_layers": 2, "num_attention_heads": 2}
DROPOUTS = {"hidden_dropout": 0.5, "attention_dropout": 0.5, "token_dropout": 0.5}


def keep_padding(sentences: list[list[int]]) -> dict:
    """Pads sentences and requests what keeps the padding between the layers."""
    return {**pad(sentences, width=9, left=True), "output_hidden_states": True}


FORMS = pytest.mark.parametrize("form", [pack, pad, keep_padding])


def new_model(**options) -> ConvSimTransformerForMultitask:
    return ConvSimTransformerForMultitask(ConvSimTransformerConfig(**HEADS, **LAYERS, embedding_size=8, **options))


def average(model: ConvSimTransformerModel, sentence: list[int]) -> torch.Tensor:
    """The sum of the weighted word embeddings, over the square root of their number, token by token."""
    total = torch.zeros(model.config.embedding_size, dtype=model.dtype)
    for token in sentence:
        weight = model.token_weights.weight[token, 0] if model.config.learned_token_weights else 1.0
        total = total + weight * model.embed_tokens.weight[token]
    return total / len(sentence) ** 0.5


@torch.no_grad()
@FORMS
@pytest.mark.parametrize("kind", ["transformer_residual", "transformer_residual_words"])
def test_adds_the_projected_mean_of_torchs_layers_to_the_average_in_float64(kind, form):
    model = build(kind).encoder.double()
    sentences = [sentence for sentence in SENTENCES if sentence]
    vectors = model(**form(sentences)).pooler_output
    for sentence, vector in zip(sentences, vectors, strict=True):
        mean = sum(reference_states(model, sentence)[-1]) / len(sentence)
        assert model.config.residual_scale == {"transformer_residual": 0.5, "transformer_residual_words": 1}[kind]
        change = model.config.residual_scale * (model.projection.weight @ mean + model.projection.bias)
        total = average(model, sentence) + change
        torch.testing.assert_close(vector, total / total.norm(), rtol=0, atol=1e-6)


@FORMS
def test_training_starts_at_the_averages_without_dropout(form):
    model = new_model(**BEST, **DROPOUTS).train()
    with torch.no_grad():
        model.encoder.token_weights.weight.uniform_(0.5, 2)
    vectors = model.encoder(**form(SENTENCES)).pooler_output
    for sentence, vector in zip(SENTENCES, vectors, strict=True):
        expected = average(model.encoder, sentence) if sentence else torch.zeros(8)
        torch.testing.assert_close(vector, F.normalize(expected, dim=0))


def test_a_trained_dan_has_the_names_and_shapes_of_everything_but_the_layers():
    dan = ConvSimDanForMultitask(
        ConvSimDanConfig(**HEADS, embedding_size=8, word_embedding_size=8, bigram_buckets=0, hidden_sizes=[9], **BEST)
    )
    model = new_model(**BEST)
    missing, unexpected = model.load_state_dict(dan.state_dict(), strict=False)
    assert {name.split(".")[1] for name in missing} == {"layers", "norm", "input_projection", "projection"}
    assert all(name.startswith("encoder.layers.") for name in unexpected)
    torch.testing.assert_close(
        model.eval()(**pack(SENTENCES)).pooler_output, dan.eval()(**pack(SENTENCES)).pooler_output
    )


@torch.no_grad()
@FORMS
def test_token_dropout_hides_words_from_the_layers_only(form):
    model = build("transformer_residual").encoder.train()
    model.config.token_dropout = 0.5
    sentence, weights = [5, 6, 5, 7], torch.tensor([0.0, 2.0, 2.0, 0.0])

    def drop_tokens(tokens, probability):
        assert probability == 0.5
        return weights if tokens.dim() == 1 else F.pad(weights, (5, 0)).view(tokens.shape)

    model.drop_tokens = drop_tokens
    vector = model(**form([sentence])).pooler_output[0]
    words = weights.unsqueeze(1) * model.embed_tokens.weight[torch.tensor(sentence)]
    # A vocabulary of the words that the layers read, in their order.
    hidden = build("transformer_residual").encoder
    hidden.embed_tokens.weight[torch.tensor([10, 11, 12, 13])] = words
    mean = sum(reference_states(hidden, [10, 11, 12, 13])[-1]) / 4
    change = model.config.residual_scale * (model.projection.weight @ mean + model.projection.bias)
    expected = average(model, sentence) + change
    torch.testing.assert_close(vector, expected / expected.norm(), rtol=0, atol=2e-6)


@pytest.mark.parametrize("dropout", DROPOUTS)
def test_every_dropout_is_applied_in_training_only(dropout):
    config = build("transformer_residual").config
    setattr(config, dropout, 0.5)
    model = ConvSimTransformerModel(config)
    with torch.no_grad():
        model.projection.weight.normal_()
    once, twice = (model.train()(**pack(SENTENCES)).pooler_output for _ in range(2))
    assert not torch.allclose(once, twice)
    once, twice = (model.eval()(**pack(SENTENCES)).pooler_output for _ in range(2))
    assert torch.equal(once, twice)
