"""Shares of attention by distance against loops over the model's own weights, and by hand."""

from pathlib import Path

import numpy as np
import pytest
import torch

from modeling_convsim import ConvSimForMultitask, ConvSimTransformerConfig, ConvSimTransformerForMultitask
from modeling_convsim.encoding import Encoder
from tests.modeling_convsim.tiny_models import HEADS
from trainer.report import measurements
from trainer.report.measurements import measure_attention

SENTENCES = [
    "a small cat",
    "hello",
    "how old are you today ?",
    "the dog likes the small house and the big old cat in the city today",
    "",
    "why do they hate the old car",
    "unheard-of things",
]
LAYERS = 2


@pytest.fixture
def encoder(tiny_tokenizer, tmp_path: Path) -> Encoder:
    """A Transformer whose weights are large, so that its attention is far from uniform."""
    torch.manual_seed(1)
    sizes = {"hidden_size": 16, "num_hidden_layers": LAYERS, "num_attention_heads": 2, "intermediate_size": 20}
    config = ConvSimTransformerConfig(**HEADS | {"vocab_size": len(tiny_tokenizer)}, embedding_size=12, **sizes)
    model = ConvSimTransformerForMultitask(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.8)
    tokenizer = type(tiny_tokenizer)(
        tokenizer_object=tiny_tokenizer.backend_tokenizer, pad_token="[PAD]", unk_token="[UNK]", model_max_length=20
    )
    return Encoder(model, tokenizer)


def shares_by_loop(encoder: Encoder, sentences: list[str]) -> np.ndarray:
    """Each sentence alone, unpadded: (layers, distances), the mean over heads and words."""
    assert isinstance(encoder.model, ConvSimForMultitask)
    sums, words = np.zeros((LAYERS, encoder.tokenizer.model_max_length)), 0
    for sentence in sentences:
        ids = encoder.tokenizer(sentence, truncation=True)["input_ids"]
        if not ids:
            continue
        words += len(ids)
        with torch.no_grad():
            weights = encoder.model.encoder(torch.tensor([ids]), output_attentions=True).attentions
        for layer in range(LAYERS):
            for head in weights[layer][0].numpy():
                for query in range(len(ids)):
                    for key in range(len(ids)):
                        sums[layer, abs(query - key)] += head[query, key] / 2
    return sums / words


@pytest.mark.parametrize("batch", [2, 64])
def test_shares_of_attention_against_a_loop_over_sentences(encoder, monkeypatch, batch):
    monkeypatch.setattr(measurements, "BATCH", batch)
    measured = measure_attention(encoder, SENTENCES)
    shares = np.array(measured["layers"])
    np.testing.assert_allclose(shares, shares_by_loop(encoder, SENTENCES), atol=1e-5)
    # Over all sentences, the mean distance of a word is that of the shares; an empty text has no words.
    means = np.sum(measured["sums"], axis=1) / sum(measured["words"])
    np.testing.assert_allclose(means, shares @ np.arange(shares.shape[1]), atol=1e-5)
    assert measured["words"][SENTENCES.index("")] == 0
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-5)
    assert np.abs(shares[0] - shares[1]).max() > 0.01
    assert np.abs(shares[0] - measured["uniform"]).max() > 0.01


def test_uniform_shares_of_sentences_of_known_length(encoder: Encoder) -> None:
    def uniform(*sentences: str) -> list[float]:
        return measure_attention(encoder, sentences)["uniform"]

    # Three words: 3 of 9 pairs at distance 0, 4 at 1 and 2 at 2. One word: itself alone.
    np.testing.assert_allclose(uniform("a small cat")[:4], [3 / 9, 4 / 9, 2 / 9, 0], atol=1e-6)
    np.testing.assert_allclose(uniform("cat")[:2], [1, 0], atol=1e-6)
    # Every word counts once: those three count 3 / 4, this one 1 / 4.
    both = uniform("a small cat", "", "dog")
    np.testing.assert_allclose(both[:3], [3 / 4 * 3 / 9 + 1 / 4, 3 / 4 * 4 / 9, 3 / 4 * 2 / 9], atol=1e-6)
    assert len(both) == 20
