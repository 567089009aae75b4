"""Weights of tokens by their frequency."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from trainer.data import token_weights
from trainer.data.token_weights import rarity_of, shares_of_rarity, sif_of, token_shares

COLUMNS = [SimpleNamespace(ids=np.array([1, 1, 1, 2])), SimpleNamespace(ids=np.array([2, 1, 1, 3, 1, 2]))]
SHARES = (0.6, 0.3, 0.1)  # of the tokens 1, 2 and 3


def test_weights_are_those_of_the_formulas(monkeypatch):
    monkeypatch.setattr(token_weights, "_CHUNK", 4)
    shares = token_shares(COLUMNS, 5)
    assert sif_of(shares).tolist() == pytest.approx([1, *(1e-3 / (1e-3 + share) for share in SHARES), 1])
    squares = [(math.log(share) / math.log(0.1)) ** 2 for share in SHARES]
    assert rarity_of(shares).tolist() == pytest.approx([1, *squares, 1])
    assert token_shares([SimpleNamespace(ids=np.array([], int))], 3).tolist() == [0, 0, 0]


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_shares_are_recovered_from_rarity_weights(dtype):
    shares = 1 / np.arange(1, 5001)  # Zipf's law
    shares /= shares.sum()
    recovered = shares_of_rarity(rarity_of(shares).astype(dtype).astype(np.float64))
    np.testing.assert_allclose(recovered, shares, rtol=1e-8 if dtype is np.float64 else 0.02)


def test_equal_weights_are_equal_shares_a_tiny_weight_is_a_frequent_token_and_zero_is_none():
    np.testing.assert_allclose(shares_of_rarity(np.ones(8)), np.full(8, 1 / 8))
    recovered = shares_of_rarity(np.array([1e-9, 1.0, 1.0]))
    assert np.isfinite(recovered).all() and recovered[0] > 0.9 and recovered.sum() == pytest.approx(1)
    np.testing.assert_allclose(shares_of_rarity(np.array([0.0, 1.0, 1.0])), [0, 0.5, 0.5])
