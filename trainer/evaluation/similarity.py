"""The similarity of two sentences: the cosine, and the angle that the paper prefers (Yang et al. 2018, section 4.3)."""

from collections.abc import Sequence

import numpy as np

from trainer.encoders.protocol import SentenceEncoder


def encode_pairs(
    encoder: SentenceEncoder, first: Sequence[str], second: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Vectors (pairs, dimensions) of the first and the second texts, as inputs; each distinct text is encoded once."""
    position = {text: index for index, text in enumerate(dict.fromkeys([*first, *second]))}
    vectors = encoder.encode(list(position), side="input")
    return vectors[[position[text] for text in first]], vectors[[position[text] for text in second]]


def cosine(u: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Cosine (pairs,), float64, -1 to 1, of the rows of `u` and `v` (both (pairs, dimensions)); 0 for a zero vector."""
    # float64: near 1, the arc cosine turns a float32 rounding error of 1e-7 into an angle of 5e-4.
    u, v = (np.asarray(vectors, np.float64) for vectors in (u, v))
    norms = np.linalg.norm(u, axis=1) * np.linalg.norm(v, axis=1)
    return np.clip(np.einsum("pd,pd->p", u, v) / np.where(norms > 0, norms, 1), -1, 1)


def angular(cosines: np.ndarray) -> np.ndarray:
    """The paper's score, -arccos(cos(u, v)): -pi (opposite) to 0 (same direction)."""
    return -np.arccos(cosines)


def to_gold_scale(angular_scores: np.ndarray) -> np.ndarray:
    """`angular` scores mapped to the range of STS labels: 5 (1 - arccos(cos) / pi), 0 to 5 (the axis of figure 7)."""
    return 5 * (1 + angular_scores / np.pi)
