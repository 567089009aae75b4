"""Search for the vectors that have the highest dot products with a query: exact, or over vectors of int8.

Replies lie far from the texts that they answer: a graph, which looks at a part of the vectors, misses a quarter of the
ten best among a million (`suggest_recall` in tests/benchmarks). Here all are looked at.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib import import_module
from typing import Any

import numpy as np
import torch
from tqdm import tqdm

CHUNK = 2**14  # vectors that are scored together: their scores stay in the processor's cache


def exact_search(vectors: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k largest dot products and their rows, both (queries, k), best first; k is at most the number of vectors.

    Args:
        vectors: (replies, size), of any float type: a part at a time is made float32.
        queries: (queries, size), float32.
        k: How many.
    """
    parts = []
    for start in range(0, len(vectors), CHUNK):
        part = np.asarray(vectors[start : start + CHUNK], np.float32)
        parts.append(_largest(torch.from_numpy(queries) @ torch.from_numpy(part).T, k, start))
    return _merge(parts, k)


class Int8Vectors:
    """Vectors as int8, as numkong multiplies them on any processor: a quarter of the memory of float32."""

    def __init__(self, rounded: np.ndarray) -> None:
        """Takes what `quantize` gives: (replies, size), int8."""
        numkong = import_extra("numkong", "searching 100,000 replies or more")
        self._multiply = numkong.dots_packed
        self._chunks = [
            numkong.dots_pack(np.ascontiguousarray(rounded[start : start + CHUNK]))
            for start in range(0, len(rounded), CHUNK)
        ]

    def search(self, vectors: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """What `exact_search` gives, but for what rounding keeps out of the 2 k + 16 best.

        Args:
            vectors: (replies, size), of any float type: those that were rounded; they score what was found.
            queries: (queries, size), float32.
            k: How many; at most the number of vectors.
        """
        largest = np.maximum(np.abs(queries).max(axis=1, keepdims=True), 1e-9)
        rounded = np.rint(queries * (127 / largest)).astype(np.int8)

        def best_of(number: int) -> tuple[np.ndarray, np.ndarray]:
            scores = np.asarray(self._multiply(rounded, self._chunks[number]))
            return _largest(torch.from_numpy(scores), 2 * k + 16, number * CHUNK)

        threads = torch.get_num_threads()
        with ThreadPoolExecutor(threads, initializer=torch.set_num_threads, initargs=(1,)) as executor:
            parts = list(executor.map(best_of, range(len(self._chunks))))
        _, rows = _merge(parts, 2 * k + 16)
        return _merge([(np.einsum("qs,qrs->qr", queries, vectors[rows].astype(np.float32)), rows)], k)


def quantize(vectors: np.ndarray, show_progress: bool = False) -> np.ndarray:
    """Vectors (n, size) rounded to int8, all multiplied by one number, so that dot products keep their order."""
    starts = range(0, len(vectors), CHUNK)
    largest = max(float(np.abs(vectors[start : start + CHUNK]).max()) for start in starts)
    rounded = np.empty(vectors.shape, np.int8)
    for start in tqdm(starts, "rounding", delay=1, disable=not show_progress):
        part = vectors[start : start + CHUNK].astype(np.float32)
        rounded[start : start + CHUNK] = np.rint(part * (127 / max(largest, 1e-9)))
    return rounded


def _largest(scores: torch.Tensor, k: int, start: int) -> tuple[np.ndarray, np.ndarray]:
    """The k largest of each row of scores (or all), and their places, counted from `start`."""
    found = scores.topk(min(k, scores.shape[1]), dim=1)
    return found.values.numpy(), found.indices.numpy() + start


def _merge(parts: Sequence[tuple[np.ndarray, np.ndarray]], k: int) -> tuple[np.ndarray, np.ndarray]:
    """Of scores and their rows, in parts, the k largest, best first; of equal ones that of the smaller row number."""
    scores, rows = (np.hstack(each) for each in zip(*parts, strict=True))
    order = np.lexsort((rows, -scores))[:, :k]
    return np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)


def import_extra(module: str, purpose: str) -> Any:
    """A module of the extra `suggest`.

    Raises:
        ValueError: It is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        needed = module.partition(".")[0]
        raise ValueError(f"{purpose} needs {needed}: pip install 'convsim[suggest]'") from error
