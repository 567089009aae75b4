"""Exhaustive search for the vectors with the highest dot products: in float32, or, if there are many, in two steps.

The first step scores all vectors by their principal components in int8, the second one the best of these exactly.
Replies are far from the texts that they answer, so a search graph, which visits only some vectors, misses a quarter of
the ten best of a million (`suggest_recall` in tests/benchmarks).
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np
import torch
from tqdm import tqdm

from modeling_convsim.encoding.hardware import has_int8_products
from modeling_convsim.encoding.parallel import single_threaded_pool
from modeling_convsim.suggestion.extra import import_extra

INT8_FROM = 100_000  # an index of this many vectors or more is searched in int8
QUERIES = 128  # that are searched together, or fewer if each has many candidates
CANDIDATES = 2**17  # of all queries that are searched together
CHUNK = 2**13  # vectors that are scored together: their scores stay in the processor's cache
MOST_CHUNKS = 16  # that are scored together for a few queries
VARIANCE = 0.78  # of the vectors, which the components that are searched explain: a recall of .99 of the ten best
SAMPLE = 50_000  # vectors of which the principal components are computed
RESCORED = 2048  # candidates that a thread scores exactly at a time


def needs_int8(count: int) -> bool:
    """Whether an index of `count` vectors is searched in int8."""
    return count >= INT8_FROM


def import_numkong() -> Any:
    """Imports the library that multiplies int8 where `has_int8_products` is false.

    Raises:
        ValueError: It is not installed; the message has the command that installs it.
    """
    return import_extra("numkong", "searching 100,000 replies or more on this processor")


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
    """The output of `quantize`, searched with torch or, on processors where that is slow, with numkong."""

    def __init__(self, quantized: Quantized) -> None:
        """Opens the components, which may be memory-mapped (with torch, in mode "c"); numkong packs a copy of them."""
        self._projection, self._components = quantized.projection, quantized.components
        self._chunks = -(-len(self._components) // CHUNK)
        self._packed: list[Any] | None = None
        if not has_int8_products():
            numkong = import_numkong()
            self._multiply_packed = numkong.dots_packed
            starts = range(0, len(self._components), CHUNK)
            parts = (np.ascontiguousarray(self._components[start : start + CHUNK]) for start in starts)
            self._packed = [numkong.dots_pack(part) for part in parts]

    def search(self, vectors: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
        """As `exact_search`, among the 8 k + 240 vectors that score highest in int8.

        Args:
            vectors: (vectors, dimensions), of any float type: the vectors before quantization, for the exact scores.
            queries: (queries, dimensions), float32.
            k: At most the number of vectors.
        """
        projected = queries @ self._projection
        largest = np.maximum(np.abs(projected).max(axis=1, keepdims=True), 1e-9)
        quantized_queries = np.rint(projected * (127 / largest)).astype(np.int8)
        count = min(8 * k + 240, len(vectors))
        scores, rows = np.empty((len(queries), k), np.float32), np.empty((len(queries), k), np.int64)
        threads = torch.get_num_threads()
        size, few = min(QUERIES, max(1, CANDIDATES // count)), max(1, RESCORED // count)
        rounds = -(-len(queries) // (threads * size))
        own = -(-len(queries) // (threads * max(rounds, 1)))
        # Each thread searches all vectors for queries of its own or, if these would be few, a share of the vectors for
        # all queries. More than `RESCORED` candidates are compared one query at a time: their vectors need much memory.
        has_own = own >= QUERIES // 2 and count <= RESCORED
        shares = np.array_split(np.arange(self._chunks), 1 if has_own else min(threads, self._chunks))

        def answer(start: int, stop: int, run: Callable[..., Iterator[Any]]) -> None:
            find = functools.partial(self._find_best, quantized_queries[start:stop], count=count)
            products, rows_of_products = zip(*run(find, shares), strict=True)
            _, candidates = _highest(np.hstack(products), np.hstack(rows_of_products), count)
            parts = [slice(first, min(first + few, stop)) for first in range(start, stop, few)]
            split = np.split(candidates, range(few, len(candidates), few))
            compare = run if count <= RESCORED else map
            compared = compare(_compare, repeat(vectors), [queries[part] for part in parts], split, repeat(k))
            for part, (best, rows_of_best) in zip(parts, compared, strict=True):
                scores[part], rows[part] = best, rows_of_best

        with single_threaded_pool(threads) as executor:
            size, outer, inner = (own, executor.map, map) if has_own else (size, map, executor.map)
            starts = range(0, len(queries), size)
            list(outer(answer, starts, (min(start + size, len(queries)) for start in starts), repeat(inner)))
        return scores, rows

    def _find_best(self, queries: np.ndarray, chunks: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """The `count` highest products in int8 of each query (or all), and their rows, among some successive chunks."""
        best = np.empty((len(queries), 0), np.int32), np.empty((len(queries), 0), np.int64)
        higher: list[tuple[np.ndarray, ...]] = []
        step = max(1, min(MOST_CHUNKS, QUERIES // len(queries)))
        for first in range(chunks[0], chunks[-1] + 1, step):
            start, stop = first * CHUNK, min(first + step, chunks[-1] + 1) * CHUNK
            products = self._multiply(queries, start, stop)
            if best[0].shape[1] < count:
                rows = np.broadcast_to(np.arange(start, start + products.shape[1]), products.shape)
                best = _highest(np.hstack([best[0], products]), np.hstack([best[1], rows]), count)
                lowest = best[0].min(axis=1, keepdims=True)
                continue
            # Few products of a chunk exceed the lowest one so far; these are sorted when there are enough of them.
            query, column = np.divmod(np.flatnonzero(products > lowest), products.shape[1])
            higher.append((query, column + start, products[query, column]))
            if sum(len(scores) for _, _, scores in higher) >= count * len(queries):
                best = _add_higher(best, higher, count)
                lowest, higher = best[0].min(axis=1, keepdims=True), []
        return _add_higher(best, higher, count) if higher else best

    def _multiply(self, queries: np.ndarray, start: int, stop: int) -> np.ndarray:
        """Dot products (queries, rows), int32, with the components of the rows from `start` to `stop`."""
        if self._packed is None:
            components = torch.from_numpy(self._components[start:stop])
            return torch._int_mm(torch.from_numpy(queries), components.T).numpy()
        parts = self._packed[start // CHUNK : -(-stop // CHUNK)]
        return np.hstack([np.asarray(self._multiply_packed(queries, part)) for part in parts])


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


def _compare(vectors: np.ndarray, queries: np.ndarray, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k highest exact scores of queries among their candidates, rows (queries, candidates), and their rows."""
    candidates = torch.from_numpy(vectors[rows]).float().numpy()  # (queries, candidates, dimensions)
    return _merge([(np.einsum("qs,qrs->qr", queries, candidates), rows)], k)


def _highest(scores: np.ndarray, rows: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    """The `count` highest scores of each query (or all), in any order, and their rows."""
    if scores.shape[1] <= count:
        return scores, rows
    columns = np.argpartition(scores, -count, axis=1)[:, -count:]
    return np.take_along_axis(scores, columns, 1), np.take_along_axis(rows, columns, 1)


def _add_higher(
    best: tuple[np.ndarray, np.ndarray], higher: list[tuple[np.ndarray, ...]], count: int
) -> tuple[np.ndarray, np.ndarray]:
    """The `count` highest scores of each query among the best so far and others: arrays of queries, rows and scores."""
    queries, rows, scores = (np.concatenate(arrays) for arrays in zip(*higher, strict=True))
    order = np.argsort(queries, kind="stable")
    counts = np.bincount(queries, minlength=len(best[0]))
    positions = np.arange(len(queries)) - np.repeat(np.cumsum(counts) - counts, counts)
    added = np.full((len(counts), counts.max(initial=0)), np.iinfo(np.int32).min, np.int32)
    rows_of_added = np.zeros(added.shape, np.int64)
    added[queries[order], positions], rows_of_added[queries[order], positions] = scores[order], rows[order]
    return _highest(np.hstack([best[0], added]), np.hstack([best[1], rows_of_added]), count)


def _top_k(scores: torch.Tensor, k: int, start: int) -> tuple[np.ndarray, np.ndarray]:
    """The k highest scores of each row (or all), and their columns, counted from `start`."""
    top = scores.topk(min(k, scores.shape[1]), dim=1)
    return top.values.numpy(), top.indices.numpy() + start


def _merge(parts: Sequence[tuple[np.ndarray, np.ndarray]], k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k highest scores of several parts and their rows, best first; of equal scores, the smaller row first."""
    scores, rows = (np.hstack(arrays) for arrays in zip(*parts, strict=True))
    order = np.lexsort((rows, -scores))[:, :k]
    return np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)
