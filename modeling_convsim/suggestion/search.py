"""Search for the vectors with the highest dot products: exact, or, from 100,000 vectors on, with faiss.

faiss scores all vectors by their principal components in 8 bits, and the best of these are scored exactly. Replies are
far from the texts that they answer, so a search graph, which visits only some vectors, misses a quarter of the ten best
of a million (`suggest_recall` in tests/benchmarks).
"""

import math
from typing import Any

import numpy as np

from modeling_convsim.files.extras import import_extra

FAISS_FROM = 100_000  # an index of this many vectors or more is searched with faiss
COMPONENTS = 0.5  # of the dimensions, which faiss scores: a recall of .998 of the ten best of 200,000 comments
MIN_COMPONENTS = 64
STEP = 16  # faiss scores vectors whose size is a multiple of this ten times as fast
CHUNK = 2**13  # vectors that are converted to float32 together: their scores stay in the processor's cache
SAMPLE = 50_000  # vectors of which the principal components are computed


def needs_faiss(count: int) -> bool:
    """Whether an index of `count` vectors is searched with faiss."""
    return count >= FAISS_FROM


def import_faiss() -> Any:
    """Imports the library that searches large indexes; ValueError, which names the remedy, if it is not installed."""
    return import_extra("faiss", "suggest", f"searching {FAISS_FROM:,} replies or more")


def exact_search(vectors: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Finds the k highest dot products of each query.

    Args:
        vectors: (vectors, dimensions), of any float type; a part at a time is converted to float32.
        queries: (queries, dimensions), float32.
        k: At most the number of vectors.

    Returns:
        Scores and rows, both (queries, k), best first; of equal scores, the smaller row first.
    """
    scores, rows = [], []
    for start in range(0, len(vectors), CHUNK):
        part = np.asarray(vectors[start : start + CHUNK], np.float32)
        products = queries @ part.T
        best = np.argpartition(-products, min(k, len(part)) - 1, axis=1)[:, :k]
        scores.append(np.take_along_axis(products, best, 1))
        rows.append(best + start)
    return _highest(np.hstack(scores), np.hstack(rows), k)


def build_faiss(vectors: np.ndarray, show_progress: bool = False) -> Any:
    """Builds the faiss index of vectors (vectors, dimensions), of any float type."""
    from tqdm import tqdm

    faiss, dimensions = import_faiss(), vectors.shape[1]
    components = max(math.ceil(COMPONENTS * dimensions / STEP) * STEP, MIN_COMPONENTS)
    index = faiss.index_factory(dimensions, f"PCA{min(components, dimensions)},SQ8", faiss.METRIC_INNER_PRODUCT)
    index.train(vectors[:: -(-len(vectors) // SAMPLE)].astype(np.float32))
    for start in tqdm(range(0, len(vectors), CHUNK), "indexing", delay=1, disable=not show_progress):
        index.add(vectors[start : start + CHUNK].astype(np.float32))
    return index


def faiss_search(index: Any, vectors: np.ndarray, queries: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """As `exact_search`, among the 8 k + 240 vectors that score highest in the output of `build_faiss`."""
    faiss = import_faiss()
    # The components are those of x - mean. A query q is searched as q + mean, so that the scores q . (x - mean) are in
    # the order of q . x.
    mean = faiss.vector_to_array(faiss.downcast_VectorTransform(index.chain.at(0)).mean)
    _, candidates = index.search(queries + mean, min(8 * k + 240, len(vectors)))
    scores = np.empty(candidates.shape, np.float32)
    for row, (query, found) in enumerate(zip(queries, candidates, strict=True)):
        scores[row] = vectors[found].astype(np.float32) @ query
    return _highest(scores, candidates, k)


def _highest(scores: np.ndarray, rows: np.ndarray, k: int) -> tuple[np.ndarray, np.ndarray]:
    """The k highest scores of each query and their rows, best first; of equal scores, the smaller row first."""
    order = np.lexsort((rows, -scores))[:, :k]
    return np.take_along_axis(scores, order, 1), np.take_along_axis(rows, order, 1)
