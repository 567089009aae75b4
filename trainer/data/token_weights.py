"""Weights of tokens by their frequency."""

from collections.abc import Iterable

import numpy as np
from scipy.optimize import brentq

from trainer.data.token_cache import TokenColumn

SIF_A = 1e-3  # Arora et al. (2017), section 4.1
_CHUNK = 10_000_000  # tokens
_SMALLEST = 1e-6  # weight; a smaller one, which a frequent token has, is taken as this


def sif_of(shares: np.ndarray) -> np.ndarray:
    """SIF weights (Arora et al., 2017, section 3), a / (a + p(w)), of tokens' shares p(w)."""
    return SIF_A / (SIF_A + shares)


def rarity_of(shares: np.ndarray) -> np.ndarray:
    """The square of each token's self-information, -log p(w), divided by the largest, of tokens' shares p(w).

    A token that does not occur has the weight of the rarest one, which is 1.
    """
    information = -np.log(np.maximum(shares, shares[shares > 0].min()))
    return (information / information.max()) ** 2


def shares_of_rarity(weights: np.ndarray) -> np.ndarray:
    """The tokens' shares that have these rarity weights: the inverse of `rarity_of`; their sum is 1.

    Tokens with a weight of 0, those that the tokenizer adds to every text, have no share.

    Args:
        weights: (vocab_size,), of two tokens or more.
    """
    information = np.sqrt(np.maximum(weights, _SMALLEST))  # divided by the largest
    largest = brentq(lambda value: np.exp(-value * information[weights > 0]).sum() - 1, 0, 100 / _SMALLEST)
    shares = np.exp(-largest * information)
    return np.where(weights > 0, shares, 0)


def token_shares(columns: Iterable[TokenColumn], vocab_size: int) -> np.ndarray:
    """Return the share of each token among all tokens of the columns, (vocab_size,)."""
    counts = np.zeros(vocab_size, dtype=np.int64)
    for column in columns:
        for start in range(0, len(column.ids), _CHUNK):  # bincount converts its input to int64
            counts += np.bincount(column.ids[start : start + _CHUNK], minlength=vocab_size)
    return counts / max(1, counts.sum())
