"""Encodes windows of texts in several threads, and yields their vectors in the order of the texts."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice

import numpy as np

MIN_TEXTS_PER_THREAD = 64  # starting a thread takes as long as encoding a few texts


def split_windows(texts: Iterable[str], size: int, threads: int) -> Iterator[list[str]]:
    """Yields lists of `size` consecutive texts, reading texts as they are needed; divides few texts among all threads.

    The last list may be shorter.
    """
    remaining = iter(texts)
    first = list(islice(remaining, size * threads))
    if len(first) < size * threads:
        size = min(size, max(-(-len(first) // threads), MIN_TEXTS_PER_THREAD))
    remaining = chain(first, remaining)
    return iter(lambda: list(islice(remaining, size)), [])


def encode_in_threads(
    encode: Callable[[list[str]], np.ndarray], windows: Iterable[list[str]], threads: int
) -> Iterator[np.ndarray]:
    """Yields the vectors of each window, in order; at most two windows a thread are encoded ahead."""
    if threads == 1:
        yield from map(encode, windows)
        return
    waiting: deque[Future[np.ndarray]] = deque()
    with ThreadPoolExecutor(threads) as executor:
        try:
            for window in windows:
                waiting.append(executor.submit(encode, window))
                if len(waiting) > 2 * threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # the caller or an error may have stopped early
            executor.shutdown(cancel_futures=True)
