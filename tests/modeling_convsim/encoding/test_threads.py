"""Threads that share the texts."""

from itertools import chain

import pytest

from modeling_convsim.encoding.threads import split_windows


@pytest.mark.parametrize(
    ("count", "size", "threads", "lengths"),
    [
        (0, 100, 4, []),
        (10, 100, 4, [10]),
        (200, 100, 4, [64, 64, 64, 8]),
        (300, 100, 4, [75, 75, 75, 75]),
        (399, 100, 4, [100, 100, 100, 99]),
        (450, 100, 4, [100, 100, 100, 100, 50]),
        (10, 4, 2, [4, 4, 2]),
    ],
)
def test_few_texts_are_divided_among_all_threads(count, size, threads, lengths):
    texts = [str(number) for number in range(count)]
    for source in (texts, iter(texts)):
        windows = list(split_windows(source, size, threads))
        assert [len(window) for window in windows] == lengths and [*chain(*windows)] == texts
