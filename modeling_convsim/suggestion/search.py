"""Exhaustive search for the vectors with the highest dot products: in float32, or, if there are many, in two steps.

The first step scores all vectors by their principal components in int8, the second one the best of these exactly.
Replies are far from the texts that they answer, so a search graph, which visits only some vectors, misses a quarter of
the ten best of a million (`suggest_recall` in tests/benchmarks).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from tqdm import tqdm

from modeling_convsim.encoding.parallel import single_threaded_pool
from modeling_convsim.suggestion.extra import import_extra

INT8_FROM = 100_000  # an index of this many vectors or more is searched in int8
CHUNK = 2**14  # vectors that are scored together: their scores stay in the processor's cache
VARIANCE = 0.84  # of the vectors, which the components that are searched explain
SAMPLE = 50_000  # vectors of which the principal components are computed
RESCORED = 6144  # candidates of a block of queries, which are scored exactly at a time


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


class Quantized(NamedTuple):
    """Principal components of vectors in int8."""

    components: np.ndarray  # (vectors, components), int8
    projection: np.ndarray  # (dimensions, components), float32: of queries


class Int8Vectors:
    """The output of `quantize`, multiplied by numkong on any processor."""

    def __init__(self, quantized: Quantized) -> None:
        """Packs the components; they are not needed after that."""
        numkong = import_extra("numkong", "searching 100,000 replies or more")
        self._multiply = numkong.dots_packed
        self._projection, components = quantized.projection, quantized.components
        self._chunks = [
            numkong.dots_pack(np.ascontiguousarray(components[start : start + CHUNK]))
            for start in range(0, len(components), CHUNK)
        ]

    def search(self, vectors: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """As `exact_search`, among the 4 k + 152 vectors that score highest in int8.

        Args:
            vectors: (vectors, dimensions), of any float type: the vectors before quantization, for the exact scores.
            queries: (queries, dimensions), float32.
            k: At most the number of vectors.
        """
        projected = queries @ self._projection
        largest = np.maximum(np.abs(projected).max(axis=1, keepdims=True), 1e-9)
        quantized_queries = np.rint(projected * (127 / largest)).astype(np.int8)
        count = 4 * k + 152

        def search_chunks(numbers: range) -> tuple[np.ndarray, np.ndarray]:
            best = torch.empty(len(queries), 0, dtype=torch.int32), torch.empty(len(queries), 0, dtype=torch.int64)
            for number in numbers:
                scores = np.asarray(self._multiply(quantized_queries, self._chunks[number]))  # (queries, CHUNK)
                best = _add_scores(best, scores, number * CHUNK, count)
            return best[0].numpy(), best[1].numpy()

        threads = torch.get_num_threads()
        shares = [range(thread, len(self._chunks), threads) for thread in range(threads)]
        with single_threaded_pool(threads) as executor:
            _, rows = _merge(list(executor.map(search_chunks, shares)), count)
        scores, best = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), rows.dtype)
        block = max(1, RESCORED // rows.shape[1])
        for start in range(0, len(queries), block):
            part = slice(start, start + block)
            candidates = vectors[rows[part]].astype(np.float32)  # (queries, candidates, dimensions)
            exact = np.einsum("qs,qrs->qr", queries[part], candidates)
            scores[part], best[part] = _merge([(exact, rows[part])], k)
        return scores, best


def quantize(vectors: np.ndarray, show_progress: bool = False) -> Quantized:
    """Projects vectors on their first principal components, and quantizes these to int8.

    Centering subtracts the same from all scores of a query, and all components have one scale, so dot products of
    projected queries keep the order of the scores, except for what the other components contribute.

    Args:
        vectors: (vectors, dimensions), of any float type.
        show_progress: Show the remaining time.
    """
    sample = vectors[:: -(-len(vectors) // SAMPLE)].astype(np.float32)
    mean = sample.mean(axis=0)
    projection = _principal_components(sample - mean)

    def project(start: int) -> np.ndarray:
        centered = vectors[start : start + CHUNK].astype(np.float32) - mean
        return (torch.from_numpy(centered) @ torch.from_numpy(projection)).numpy()

    starts = range(0, len(vectors), CHUNK)
    largest = max(float(np.abs(project(start)).max()) for start in starts)
    components = np.empty((len(vectors), projection.shape[1]), np.int8)
    for start in tqdm(starts, "quantizing", delay=1, disable=not show_progress):
        components[start : start + CHUNK] = np.rint(project(start) * (127 / max(largest, 1e-9)))
    return Quantized(components, projection)


def _principal_components(centered: np.ndarray) -> np.ndarray:
    """The components with `VARIANCE` of the variance: (dimensions, components), float32, orthonormal columns."""
    columns = torch.from_numpy(centered)
    variances, directions = np.linalg.eigh((columns.T @ columns).numpy().astype(np.float64))  # ascending
    explained = np.cumsum(variances[::-1])
    count = np.searchsorted(explained, VARIANCE * explained[-1]) + 1
    count = -(-count // 64) * 64  # whole registers of the processor
    return np.ascontiguousarray(directions[:, ::-1][:, :count], dtype=np.float32)


def _add_scores(
    best: tuple[torch.Tensor, torch.Tensor], scores: np.ndarray, start: int, count: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The `count` highest scores of each query, and their rows, among the best so far and the scores of a chunk."""
    if best[0].shape[1] < count:
        top = torch.from_numpy(scores).topk(min(count, scores.shape[1]), dim=1)
        added, rows = top.values, top.indices + start
    else:
        # Few scores of a chunk exceed the lowest one so far, and finding these is faster than sorting all.
        queries, columns = np.divmod(np.flatnonzero(scores > best[0][:, -1:].numpy()), scores.shape[1])
        counts = np.bincount(queries, minlength=len(scores))
        positions = np.arange(len(queries)) - np.repeat(np.cumsum(counts) - counts, counts)
        added = torch.full((len(scores), int(counts.max(initial=0))), torch.iinfo(torch.int32).min, dtype=torch.int32)
        rows = torch.zeros(added.shape, dtype=torch.int64)
        added[queries, positions] = torch.from_numpy(scores[queries, columns])
        rows[queries, positions] = torch.from_numpy(columns + start)
    scores_of_both, rows = torch.hstack([best[0], added]), torch.hstack([best[1], rows])
    top = scores_of_both.topk(min(count, rows.shape[1]), dim=1)
    return top.values, rows.gather(1, top.indices)


def _top_k(scores: torch.Tensor, k: int, start: int) -> tuple[np.ndarray, np.ndarray]:
    """The k highest scores of each row (or all), and their columns, counted from `start`."""
    top = scores.topk(min(k, scores.shape[1]), dim=1)
    return top.values.numpy(), top.indices.numpy() + start


def _merge(parts: Sequence[tuple[np.ndarray, np.ndarray]], k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k highest scores of several parts and their rows, best first; of equal scores, the smaller row first."""
    scores, rows = (np.hstack(arrays) for arrays in zip(*parts, strict=True))
    order = np.lexsort((rows, -scores))[:, :k]
    return np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)
