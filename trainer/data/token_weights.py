"""Weights of tokens by their frequency."""

import numpy as np

from trainer.data.token_cache import TokenColumn

SIF_A = 1e-3  # Arora et al. (2017), section 4.1
_CHUNK = 10_000_000  # tokens


def sif_weights(columns: list[TokenColumn], vocab_size: int) -> np.ndarray:
    """Return SIF weights (Arora et al., 2017, section 3), a / (a + p(w)), of each token, (vocab_size,).

    p(w) is the token's share of all tokens of the columns.
    """
    return SIF_A / (SIF_A + _token_shares(columns, vocab_size))


def rarity_weights(columns: list[TokenColumn], vocab_size: int) -> np.ndarray:
    """Return the square of each token's self-information, -log p(w), divided by the largest, (vocab_size,).

    A token that does not occur has the weight of the rarest one, which is 1.
    """
    shares = _token_shares(columns, vocab_size)
    information = -np.log(np.maximum(shares, shares[shares > 0].min()))
    return (information / information.max()) ** 2


def _token_shares(columns: list[TokenColumn], vocab_size: int) -> np.ndarray:
    counts = np.zeros(vocab_size, dtype=np.int64)
    for column in columns:
        for start in range(0, len(column.ids), _CHUNK):  # bincount converts its input to int64
            counts += np.bincount(column.ids[start : start + _CHUNK], minlength=vocab_size)
    return counts / counts.sum()
