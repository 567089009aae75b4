"""Assigns threads or pairs to splits by a hash, so that new data move none whose name stays the same."""

import hashlib

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

TEST_PERCENT, VALIDATION_PERCENT = 10, 1
_POWERS_OF_256 = np.array([pow(256, 31 - byte, 100) for byte in range(32)])  # modulo 100, of the first byte first


def hash_splits(keys: list[str]) -> np.ndarray:
    """The split of each key, as an index into `schemas.SPLITS`, (keys,).

    SHA-256 modulo 100: 0 to 9 is test, 10 validation, the rest train.
    """
    digests = b"".join(hashlib.sha256(key.encode()).digest() for key in keys)
    percent = np.frombuffer(digests, np.uint8).reshape(-1, 32) @ _POWERS_OF_256 % 100
    return np.where(percent < TEST_PERCENT, 2, np.where(percent < TEST_PERCENT + VALIDATION_PERCENT, 1, 0))


def split_pairs(table: pa.Table, thread_starts: np.ndarray, split: str) -> np.ndarray:
    """The split of each pair, as an index into `schemas.SPLITS`, (rows,).

    Args:
        table: pairs sorted by thread.
        thread_starts: (rows,) whether a thread begins with this pair.
        split: "thread" assigns whole threads, "random" single pairs.
    """
    if split == "random":
        keys = pc.binary_join_element_wise(table["input"], table["response"], "\t")
        return hash_splits(keys.to_pylist())
    starts = thread_starts.copy()
    starts[:1] = True  # the last thread of the previous table may continue
    keys = table["thread"].filter(pa.array(starts)).to_pylist()
    return hash_splits(keys)[np.cumsum(starts) - 1]
