"""The vectors of an index's rows, in float16."""

import numpy as np

from modeling_convsim.encoding.encoder import Encoder
from modeling_convsim.suggestion.deduplication import Replies
from modeling_convsim.suggestion.storage import IndexSide


def encode_rows(
    encoder: Encoder,
    replies: Replies,
    side: IndexSide,
    has_messages: bool,
    show_progress: bool = False,
    processes: int = 1,
) -> np.ndarray:
    """Encodes rows, and the messages that their replies answered: (rows, dimensions), float16."""
    vectors = _encode_halves(encoder, replies.texts, side, show_progress, processes)
    if not has_messages or replies.companions is None:
        return vectors
    return np.hstack([vectors, _encode_halves(encoder, replies.companions, "input", show_progress, processes)])


def _encode_halves(
    encoder: Encoder, texts: list[str], side: IndexSide, show_progress: bool, processes: int
) -> np.ndarray:
    """Encodes texts in float16: (texts, dimensions). Raises ValueError if float16 cannot hold a vector."""
    vectors = np.empty((len(texts), encoder.vector_size(side)), np.float16)
    row = 0
    for part in encoder.stream(texts, side, show_progress=show_progress, processes=processes):
        with np.errstate(over="ignore"):  # such a value becomes infinite, which is refused below
            halves = vectors[row : row + len(part)] = part.astype(np.float16)
        if len(damaged := np.flatnonzero(~np.isfinite(halves).all(axis=1))):
            problem = "the model gives a vector that is not finite, or too large for float16"
            raise ValueError(f"{texts[row + int(damaged[0])]!r}: {problem}")
        row += len(part)
    return vectors
