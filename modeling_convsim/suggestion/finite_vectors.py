"""Refuses vectors with NaN or infinite values, for which nothing could be suggested."""

from collections.abc import Sequence

import numpy as np

BLOCK = 2**14  # vectors that are read together: a large index stays on disk

DAMAGED = "its vector is damaged (not finite): rebuild the index"
TOO_LARGE = "the model gives a vector that is not finite, or too large for float16"


def require_finite(vectors: np.ndarray, texts: Sequence[str], problem: str) -> None:
    """Raises ValueError, which names the text and the problem, unless all vectors (texts, dimensions) are finite."""
    for start in range(0, len(vectors), BLOCK):
        damaged = np.flatnonzero(~np.isfinite(vectors[start : start + BLOCK]).all(axis=1))
        if len(damaged):
            raise ValueError(f"{texts[start + int(damaged[0])]!r}: {problem}")


def require_finite_queries(vectors: np.ndarray) -> None:
    """Raises ValueError unless the vectors of queries (queries, dimensions) are finite."""
    if not np.isfinite(vectors).all():
        raise ValueError("the model gives vectors that are not finite: its weights are damaged, or training diverged")
