"""Encodes windows of texts, in several threads or not, and yields their vectors in the order of the texts."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import chain, islice

import numpy as np

from modeling_convsim.encoding.batch_tokenizer import TextError

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


def follow(parts: Iterable[np.ndarray], total: int | None, show_progress: bool) -> Iterator[np.ndarray]:
    """Yields the vectors of windows, with texts per second, and with their number so far in the position of an error.

    Raises:
        TextError: A text cannot be encoded.
    """
    from tqdm import tqdm

    rows = 0
    with tqdm(
        total=total, desc="encoding", delay=1, unit="text", unit_scale=True, disable=not show_progress
    ) as progress:
        try:
            for vectors in parts:
                rows += len(vectors)
                progress.update(len(vectors))
                yield vectors
        except TextError as error:  # its position is counted in its window
            raise TextError(rows + error.position, error.reason) from None


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
