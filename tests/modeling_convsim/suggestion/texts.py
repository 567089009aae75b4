"""Texts of the tests of indexes, and a brute-force search."""

import numpy as np

from modeling_convsim.encoding import Encoder
from tests.conftest import WORDS

REPLIES = ["Yes, please!", "yes please", "yes please", "no", "No.", "I like the dog", "a big house", "see you tomorrow"]
QUERIES = ["How old are you?", "do you like the dog", "where is the cat", "thanks"]


def make_texts(count: int, seed: int = 0) -> list[str]:
    """Makes distinct texts of known words."""
    generator = np.random.default_rng(seed)
    words = [word for word in WORDS if word.isalpha()]
    return list(dict.fromkeys(" ".join(generator.choice(words, 5)) for _ in range(count)))


def brute_force_best(encoder: Encoder, replies: list[str], query: str, k: int) -> list[tuple[str, float]]:
    """The k best replies and their scores u' . v', in float64."""
    u = encoder.encode([query], side="query")[0].astype(np.float64)
    v = encoder.encode(replies, side="response").astype(np.float64)
    return sorted(((text, float(u @ row)) for text, row in zip(replies, v, strict=True)), key=lambda p: -p[1])[:k]
