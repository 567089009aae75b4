"""Token weights for the frequencies of other texts."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from tests.modeling_convsim.tiny_models import build
from trainer.data.token_weights import rarity_of, shares_of_rarity
from trainer.training.token_frequencies import adjust_token_weights


def columns(*ids: list[int]) -> list[SimpleNamespace]:
    return [SimpleNamespace(ids=np.array(each)) for each in ids]


def test_weights_follow_from_the_mean_of_both_frequencies():
    model = build("dan_lexical")
    size = model.config.vocab_size
    old = np.arange(1, size + 1) / (size * (size + 1) / 2)
    model.lexical_channel.weights.copy_(torch.from_numpy(rarity_of(old)))
    before = model.encoder.token_weights.weight.detach().clone()
    assert adjust_token_weights(model, columns([5, 5, 6], [5]))
    new = [share / 2 + {5: 3, 6: 1}.get(token, 0) / 4 / 2 for token, share in enumerate(old)]
    rarest = min(new)
    rarity = [(math.log(share) / math.log(rarest)) ** 2 for share in new]
    torch.testing.assert_close(model.lexical_channel.weights, torch.tensor(rarity), rtol=1e-5, atol=0)
    factors = [math.sqrt((0.001 + before) / (0.001 + after)) for before, after in zip(old, new, strict=True)]
    expected = before * torch.tensor(factors).unsqueeze(1)
    torch.testing.assert_close(model.encoder.token_weights.weight.data, expected, rtol=1e-5, atol=0)
    assert factors[5] < 0.5 and factors[7] > 1  # a token of these texts says less in them, any other one more


def test_the_new_frequencies_are_the_old_ones_of_the_next_texts():
    model = build("dan_lexical")
    model.lexical_channel.weights.fill_(1.0)
    for _ in range(2):
        adjust_token_weights(model, columns([5]))
    shares = shares_of_rarity(model.lexical_channel.weights.double().numpy())
    assert shares[5] == pytest.approx(0.75 + 0.25 / len(shares), rel=1e-4)


def test_a_model_without_a_lexical_channel_is_not_changed():
    model = build("dan_best")
    before = model.encoder.token_weights.weight.detach().clone()
    assert not adjust_token_weights(model, columns([5]))
    assert model.encoder.token_weights.weight.equal(before)


def test_an_encoder_without_token_weights_has_those_of_the_channel_adjusted():
    model = build("dan_lexical")
    model.encoder.token_weights = None
    model.lexical_channel.weights.fill_(1.0)
    assert adjust_token_weights(model, columns([5])) and model.lexical_channel.weights[5] < 0.1
