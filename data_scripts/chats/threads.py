"""Names threads for pairs that have none: pairs that share a long text or chain are in the same thread."""

import hashlib
from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

LONG_TEXT = 20  # characters; pairs that share a longer text are in the same thread
_UNNAMED = np.iinfo(np.uint64).max


def add_threads(read: Callable[[], Iterable[pa.Table]]) -> Iterator[pa.Table]:
    """Name a thread for each pair, given only the texts of the pairs.

    Pairs of the same source are connected if they share a text of more than 20 characters, as input or response, or are
    in the same chain. A connected component is a thread. Its name is the source and the smallest SHA-256 (16
    hexadecimal digits) of its long texts, or of its pairs if it has no long text, which does not depend on the order of
    the pairs.

    Args:
        read: returns the pairs, columns `input, response, source` (strings) and `chain` (its number), as one or more
            tables; it is called twice. Memory grows by about 150 bytes per pair; texts are not kept.

    Returns:
        The tables, with the column `thread`.
    """
    parts = [(np.zeros((2, 0), np.uint64), np.zeros(0, np.uint64), np.zeros(0, np.int64))]
    for table in read():
        hashes = _long_text_hashes(table)
        parts.append((hashes, _pair_hashes(table, hashes), table["chain"].to_numpy()))
    names, start = _component_names(*(np.concatenate(each, axis=-1) for each in zip(*parts, strict=True))), 0
    for table in read():
        own = names[start : start + len(table)]
        digits = pa.array((f"{name:016x}" for name in own.tolist()), pa.string())
        yield table.append_column("thread", pc.binary_join_element_wise(table["source"], digits, "/"))
        start += len(table)


def _component_names(hashes: np.ndarray, pair_hashes: np.ndarray, chains: np.ndarray) -> np.ndarray:
    """The name of each pair's connected component, (pairs,) uint64: its smallest text hash, or else pair hash.

    Args:
        hashes: (2, pairs) uint64, of each pair's long texts; 0 where a text is not long.
        pair_hashes: (pairs,) uint64, of the pairs without a long text.
        chains: (pairs,) the number of each pair's chain.
    """
    side, holders = np.nonzero(hashes)
    texts, codes = np.unique(hashes[side, holders], return_inverse=True)
    numbers, chain_codes = np.unique(chains, return_inverse=True)
    # The nodes are the pairs (0 to n - 1), the long texts (from n on) and the chains; an edge joins a pair to each of
    # its texts and to its chain.
    n, first_chain = len(chains), len(chains) + len(texts)
    size = first_chain + len(numbers)
    ends = np.concatenate([holders, np.arange(n)]), np.concatenate([n + codes, first_chain + chain_codes])
    graph = coo_array((np.ones(len(ends[0]), bool), ends), shape=(size, size))
    component = connected_components(graph, directed=False)[1]
    names, own = np.full(size, _UNNAMED), np.full(size, _UNNAMED)  # by component; there are at most `size`
    np.minimum.at(names, component[n:first_chain], texts)
    np.minimum.at(own, component[:n], pair_hashes)
    return np.where(names == _UNNAMED, own, names)[component[:n]]


def _pair_hashes(pairs: pa.Table, long_hashes: np.ndarray) -> np.ndarray:
    """(pairs,) uint64: the hash of each pair with its source; `_UNNAMED` where it has a long text."""
    hashes = np.full(len(pairs), _UNNAMED)
    short = np.flatnonzero(~long_hashes.any(axis=0))
    hashes[short] = _hash_texts(_join_columns(pairs, "source", "input", "response").take(pa.array(short)))
    return hashes


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
