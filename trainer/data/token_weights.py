"""Weights of tokens by their frequency."""

import numpy as np

from trainer.data.token_cache import TokenColumn

SIF_A = 1e-3  # Arora et al. (2017), section 4.1


def sif_weights(columns: list[TokenColumn], vocab_size: int) -> np.ndarray:
    """Return SIF weights (Arora et al., 2017, section 3), a / (a + p(w)), of each token, (vocab_size,).

    p(w) is the token's share of all tokens of the columns.
    """
    counts = np.sum([np.bincount(column.ids, minlength=vocab_size) for column in columns], axis=0)
    return SIF_A / (SIF_A + counts / counts.sum())
