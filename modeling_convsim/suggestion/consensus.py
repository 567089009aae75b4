"""How far a reply agrees with the other good replies to the same text.

Where many of the best replies say the same in other words, that is probably the answer; a reply that stands alone is
less likely to be right. So the expected cosine of a reply with the real one is computed, as if the real one were one of
the best replies, each with a probability that grows with its score: minimum Bayes risk (Kumar and Byrne, 2004).
"""

import numpy as np

PEERS = 20  # best rows that the real reply is expected among
TEMPERATURE = 0.1  # of the softmax of scores that gives their probabilities


def agreement(scores: np.ndarray, is_allowed: np.ndarray, embeddings: np.ndarray) -> np.ndarray:
    """The expected cosine of each row's reply with the real one: (queries, rows), -1 to 1; 0 if no row is allowed.

    Args:
        scores: (queries, rows), best first.
        is_allowed: (queries, rows): whether the row's reply may be suggested.
        embeddings: (queries, rows, dimensions), L2-normalized, of the replies.
    """
    is_peer = is_allowed & (np.cumsum(is_allowed, axis=1) <= PEERS)
    best = np.where(is_peer, scores, -np.inf).max(axis=1, keepdims=True)
    weights = np.where(is_peer, np.exp((scores - np.where(np.isfinite(best), best, 0)) / TEMPERATURE), 0)
    weights /= np.maximum(weights.sum(axis=1, keepdims=True), 1e-12)
    expected = np.einsum("qr,qrd->qd", weights, embeddings)
    return np.einsum("qrd,qd->qr", embeddings, expected)
