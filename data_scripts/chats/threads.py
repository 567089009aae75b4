"""Names threads for pairs that have none: pairs that share a long text are in the same thread."""

import hashlib
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

LONG_TEXT = 20  # characters; pairs that share a longer text are in the same thread


_UNNAMED = np.iinfo(np.uint64).max  # the name of a pair without a long text


def add_threads(read: Callable[[], Iterable[pa.Table]]) -> Iterator[pa.Table]:
    """Name a thread for each pair, given only the texts of the pairs.

    Pairs of the same source that share a text of more than 20 characters, as input or response, are connected; a
    connected component is a thread. Its name is the source and the smallest SHA-256 (16 hexadecimal digits) of those
    texts, which does not depend on the order of the pairs. A pair without such a text is a thread, named after its two
    texts.

    Args:
        read: returns the pairs, columns `input, response, source` (strings), as one or more tables; it is called twice.
            Memory grows by about 100 bytes per pair; texts are not kept.

    Returns:
        The tables, with the column `thread`.
    """
    hashes = np.concatenate([np.zeros((2, 0), np.uint64), *map(_long_text_hashes, read())], axis=1)  # (2, pairs)
    names, start = _component_names(hashes), 0
    for table in read():
        own = names[start : start + len(table)].copy()
        alone = np.flatnonzero(own == _UNNAMED)
        own[alone] = _hash_texts(_join_columns(table, "source", "input", "response").take(pa.array(alone)))
        digits = pa.array((f"{name:016x}" for name in own.tolist()), pa.string())
        yield table.append_column("thread", pc.binary_join_element_wise(table["source"], digits, "/"))
        start += len(table)


def _component_names(hashes: np.ndarray) -> np.ndarray:
    """The smallest text hash in each pair's connected component, (pairs,) uint64; `_UNNAMED` where there is none.

    Args:
        hashes: (2, pairs) uint64, of each pair's long texts; 0 where a text is not long.
    """
    side, holders = np.nonzero(hashes)
    texts, codes = np.unique(hashes[side, holders], return_inverse=True)
    # The nodes are the pairs (0 to n - 1) and the long texts (from n on); an edge joins a pair to each of its texts.
    n = hashes.shape[1]
    size = n + len(texts)
    graph = coo_array((np.ones(len(codes), bool), (holders, n + codes)), shape=(size, size))
    component = connected_components(graph, directed=False)[1]
    names = np.full(size, _UNNAMED)  # by component; there are at most `size`
    np.minimum.at(names, component[n:], texts)
    return names[component[:n]]


def _long_text_hashes(pairs: pa.Table) -> np.ndarray:
    """(2, pairs) uint64: the hash of each input and each response with its source; 0 where the text is not long."""
    hashes = np.zeros((2, len(pairs)), np.uint64)
    for own, side in zip(hashes, ("input", "response"), strict=True):
        long = np.flatnonzero(pc.utf8_length(pairs[side]).to_numpy() > LONG_TEXT)
        own[long] = _hash_texts(_join_columns(pairs, "source", side).take(pa.array(long)))
    return hashes


def _join_columns(pairs: pa.Table, *columns: str) -> pa.ChunkedArray:
    texts = (pairs[name].cast(pa.large_string()) for name in columns)
    return pc.binary_join_element_wise(*texts, pa.scalar("\t", pa.large_string()))


def _hash_texts(texts: pa.ChunkedArray) -> np.ndarray:
    digests = b"".join(hashlib.sha256(text.encode()).digest()[:8] for text in texts.to_pylist())
    return np.frombuffer(digests, dtype=">u8").astype(np.uint64)
