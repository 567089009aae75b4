import numpy as np
import torch

from modeling_convsim import ConvSimCbowConfig, ConvSimCbowModel
from tests.modeling_convsim.tiny_models import SENTENCES, build, pack


def test_embedding_is_the_normalized_mean_of_known_words():
    model = build("cbow").encoder
    table = model.embed_tokens.weight.detach().double().numpy()
    with torch.no_grad():
        vectors = model(**pack(SENTENCES)).pooler_output.numpy()
    for sentence, vector in zip(SENTENCES, vectors, strict=True):
        known = [table[token] for token in sentence if token != 1]
        mean = np.mean(known, axis=0) if known else np.zeros(12)
        np.testing.assert_allclose(vector, mean / (np.linalg.norm(mean) or 1), atol=1e-6)


def test_sentence_of_unknown_words_has_a_zero_embedding():
    assert (build("cbow").encoder(**pack([[1, 1], [5]])).pooler_output[0] == 0).all()


def test_embedding_matrix_is_initialized_as_in_the_paper():
    torch.manual_seed(0)
    weight = ConvSimCbowModel(ConvSimCbowConfig(vocab_size=2000)).embed_tokens.weight
    assert weight.shape == (2000, 300)
    assert abs(weight.mean().item()) < 1e-4 and abs(weight.std().item() - 0.01) < 1e-4


def test_scaled_tokens_give_a_weighted_mean():
    model = build("cbow").encoder
    table, weights = model.embed_tokens.weight.detach().clone(), torch.rand(60, 1)
    model.scale_tokens(weights)
    expected = (weights * table)[[5, 6, 7]].mean(0)
    torch.testing.assert_close(model(**pack([[5, 6, 7]])).pooler_output[0], expected / expected.norm())
