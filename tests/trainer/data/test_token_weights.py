"""Weights of tokens by their frequency."""

import math
from types import SimpleNamespace

import numpy as np
import pytest

from trainer.data import token_weights
from trainer.data.token_weights import rarity_weights, sif_weights

COLUMNS = [SimpleNamespace(ids=np.array([1, 1, 1, 2])), SimpleNamespace(ids=np.array([2, 1, 1, 3, 1, 2]))]
SHARES = {1: 0.6, 2: 0.3, 3: 0.1}


@pytest.mark.parametrize("chunk", [1, 4, 100])
def test_sif_weights_are_those_of_the_formula(monkeypatch, chunk):
    monkeypatch.setattr(token_weights, "_CHUNK", chunk)
    weights = sif_weights(COLUMNS, 5)
    assert weights.tolist() == pytest.approx([1, *(1e-3 / (1e-3 + share) for share in SHARES.values()), 1])


def test_rarity_weights_are_squares_of_self_information():
    weights = rarity_weights(COLUMNS, 5)
    expected = [(math.log(share) / math.log(0.1)) ** 2 for share in SHARES.values()]
    assert weights.tolist() == pytest.approx([1, *expected, 1])
