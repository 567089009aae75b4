"""Exhaustive search for the vectors with the highest dot products: in float32, or in int8 if there are many.

Replies are far from the texts that they answer, so a search graph, which visits only some vectors, misses a quarter of
the ten best of a million (`suggest_recall` in tests/benchmarks). This search scores every vector.
"""

from collections.abc import Sequence

import numpy as np
import torch
from tqdm import tqdm

from modeling_convsim.encoding.parallel import single_threaded_pool
from modeling_convsim.suggestion.extra import import_extra

INT8_FROM = 100_000  # an index of this many vectors or more is searched in int8
CHUNK = 2**14  # vectors that are scored together: their scores stay in the processor's cache


def needs_int8(count: int) -> bool:
    """Whether an index of `count` vectors is searched in int8."""
    return count >= INT8_FROM


def exact_search(vectors: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Finds the k highest dot products of each query.

    Args:
        vectors: (vectors, dimensions), of any float type; a part at a time is converted to float32.
        queries: (queries, dimensions), float32.
        k: At most the number of vectors.

    Returns:
        Scores and rows, both (queries, k), best first.
    """
    parts = []
    for start in range(0, len(vectors), CHUNK):
        part = np.asarray(vectors[start : start + CHUNK], np.float32)
        parts.append(_top_k(torch.from_numpy(queries) @ torch.from_numpy(part).T, k, start))
    return _merge(parts, k)


class Int8Vectors:
    """Vectors in int8, a quarter of the memory of float32, multiplied by numkong on any processor."""

    def __init__(self, quantized: np.ndarray) -> None:
        """Takes the output of `quantize`: (vectors, dimensions), int8."""
        numkong = import_extra("numkong", "searching 100,000 replies or more")
        self._multiply = numkong.dots_packed
        self._chunks = [
            numkong.dots_pack(np.ascontiguousarray(quantized[start : start + CHUNK]))
            for start in range(0, len(quantized), CHUNK)
        ]

    def search(self, vectors: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """As `exact_search`, except for vectors that quantization keeps out of the 2 k + 16 best.

        Args:
            vectors: (vectors, dimensions), of any float type: the vectors before quantization, for the exact scores.
            queries: (queries, dimensions), float32.
            k: At most the number of vectors.
        """
        largest = np.maximum(np.abs(queries).max(axis=1, keepdims=True), 1e-9)
        quantized_queries = np.rint(queries * (127 / largest)).astype(np.int8)

        def search_chunk(number: int) -> tuple[np.ndarray, np.ndarray]:
            scores = np.asarray(self._multiply(quantized_queries, self._chunks[number]))  # (queries, CHUNK)
            return _top_k(torch.from_numpy(scores), 2 * k + 16, number * CHUNK)

        threads = torch.get_num_threads()
        with single_threaded_pool(threads) as executor:
            parts = list(executor.map(search_chunk, range(len(self._chunks))))
        _, rows = _merge(parts, 2 * k + 16)
        return _merge([(np.einsum("qs,qrs->qr", queries, vectors[rows].astype(np.float32)), rows)], k)


def quantize(vectors: np.ndarray, show_progress: bool = False) -> np.ndarray:
    """Quantizes vectors (vectors, dimensions) to int8 with one scale for all, so that dot products keep their order."""
    starts = range(0, len(vectors), CHUNK)
    largest = max(float(np.abs(vectors[start : start + CHUNK]).max()) for start in starts)
    quantized = np.empty(vectors.shape, np.int8)
    for start in tqdm(starts, "quantizing", delay=1, disable=not show_progress):
        part = vectors[start : start + CHUNK].astype(np.float32)
        quantized[start : start + CHUNK] = np.rint(part * (127 / max(largest, 1e-9)))
    return quantized


def _top_k(scores: torch.Tensor, k: int, start: int) -> tuple[np.ndarray, np.ndarray]:
    """The k highest scores of each row (or all), and their columns, counted from `start`."""
    top = scores.topk(min(k, scores.shape[1]), dim=1)
    return top.values.numpy(), top.indices.numpy() + start


def _merge(parts: Sequence[tuple[np.ndarray, np.ndarray]], k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k highest scores of several parts and their rows, best first; of equal scores, the smaller row first."""
    scores, rows = (np.hstack(arrays) for arrays in zip(*parts, strict=True))
    order = np.lexsort((rows, -scores))[:, :k]
    return np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)
