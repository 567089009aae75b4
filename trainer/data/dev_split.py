"""A dev split of conversation pairs that is large enough to select a checkpoint."""

import hashlib
import logging

import numpy as np
from datasets import Dataset, DatasetDict, concatenate_datasets

from trainer.data.datasets import RunData

FEWEST = 100  # dev pairs that can select a checkpoint
ENOUGH = 200  # dev pairs of small data, if that is at most a fifth of the pairs

logger = logging.getLogger(__name__)


def complete_dev_split(data: RunData, fewest: int = FEWEST) -> None:
    """Move training pairs to a dev split that is too small.

    The dev split gets a tenth of the pairs, at least `ENOUGH`, and at most a fifth. Threads are chosen by a hash of
    their names, and stay whole; without more than one thread, nothing is moved. Several datasets are split together,
    and their threads of the same name are one thread.

    Args:
        data: the datasets of a run that trains on pairs; their splits are changed.
        fewest: a dev split with fewer pairs is too small.
    """
    parts, dev = data.of_kind("pairs"), data.evaluation["pairs"].get("validation")
    present = len(dev) if dev else 0
    if present >= fewest:
        return
    train = concatenate_datasets(list(parts.values()))
    total = len(train) + present
    wanted = min(max(total // 10, ENOUGH), total // 5)
    is_moved = _select_threads(train, wanted - present)
    if not is_moved.any():
        return
    moved = train.select(np.flatnonzero(is_moved))
    logger.info(
        "pairs: the dev split has %d pairs, which is too few to select a checkpoint; %d of the %d training pairs are "
        "moved to it, in whole threads",
        present, len(moved), len(train),
    )  # fmt: skip
    ends = np.cumsum([len(rows) for rows in parts.values()])
    for (name, rows), is_moved_part in zip(parts.items(), np.split(is_moved, ends[:-1]), strict=True):
        data.training[name] = rows.select(np.flatnonzero(~is_moved_part))
    completed = concatenate_datasets([dev, moved]) if dev else moved
    data.evaluation["pairs"] = DatasetDict({**data.evaluation["pairs"], "validation": completed})


def thread_numbers(pairs: Dataset) -> np.ndarray:
    """Number the threads in the order of a hash of their names: (rows,); a pair without a thread is one of its own."""
    names = [f"row {row}" if thread is None else f"thread {thread}" for row, thread in enumerate(pairs["thread"])]
    ordered = sorted(set(names), key=lambda name: hashlib.sha256(name.encode(errors="surrogatepass")).digest())
    number = {name: position for position, name in enumerate(ordered)}
    return np.array([number[name] for name in names], dtype=np.int64)


def _select_threads(pairs: Dataset, wanted: int) -> np.ndarray:
    """(rows,) whether a pair is in one of the first threads with `wanted` pairs in total; too long ones are left."""
    numbers = thread_numbers(pairs)
    sizes = np.bincount(numbers)
    selected, count = np.zeros(len(sizes), dtype=bool), 0
    for thread, size in enumerate(sizes):
        if count < wanted and count + size <= wanted + ENOUGH // 2 and size < len(pairs):
            selected[thread] = True
            count += size
    return selected[numbers]
