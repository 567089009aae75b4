"""A model to evaluate whose vectors are known."""

import zlib
from collections.abc import Iterable

import numpy as np


class FakeEncoder:
    """A random unit vector for each text, always the same; as an input, a text of `answers` has its answer's."""

    def __init__(self, answers: dict[str, str] | None = None, size: int = 8) -> None:
        self.answers, self.size = answers or {}, size
        self.calls: list[tuple[str, list[str]]] = []

    def encode(self, texts: Iterable[str], side: str = "input", contexts: object = None) -> np.ndarray:
        texts = list(texts)
        self.calls.append((side, texts))
        if side != "response":
            texts = [self.answers.get(text, text) for text in texts]
        rows = [np.random.RandomState(zlib.crc32(text.encode())).randn(self.size) for text in texts]
        return np.array([row / np.linalg.norm(row) for row in rows], dtype=np.float32)


class Multitask(FakeEncoder):
    """Knows the labels of the first 20 of the 30 pairs that `invented_data.snli` has."""

    def nli_logits(self, premises: Iterable[str], hypotheses: Iterable[str]) -> np.ndarray:
        numbers = [int(text.split()[-1]) for text in hypotheses]
        return np.eye(3)[[(number + (number >= 20)) % 3 for number in numbers]]
