"""`JointEncoder`: two models whose scores are added, as one encoder."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from tqdm import tqdm

from modeling_convsim.encoding.encoder import Encoder, Side

CHUNK = 16_384  # texts that `stream` encodes by one model, then by the other


class JointEncoder(Encoder):
    """Two models whose vectors are concatenated, so that a dot product is the weighted mean of those of both.

    Attributes:
        second: The second encoder; `model` and `tokenizer` are those of the first one.
        share: The weight of the second encoder; that of the first one is 1 - share.
    """

    def __init__(self, first: Encoder, second: Encoder, share: float) -> None:
        """Combines two encoders.

        Args:
            first: An encoder.
            second: Another one.
            share: Above 0 and below 1.

        Raises:
            ValueError: The share is out of range.
        """
        super().__init__(first.model, first.tokenizer)
        if not 0 < share < 1:
            raise ValueError(f"share is {share}, expected a number above 0 and below 1")
        self.second, self.share = second, share
        self._parts = ((first, (1 - share) ** 0.5), (second, share**0.5))

    @property
    def embedding_size(self) -> int:
        """Dimensions of a sentence embedding: those of both."""
        return sum(encoder.embedding_size for encoder, _ in self._parts)

    @property
    def has_query_vectors(self) -> bool:
        """As in `Encoder`, of either model."""
        return any(encoder.has_query_vectors for encoder, _ in self._parts)

    @property
    def uses_context(self) -> bool:
        """As in `Encoder`, of either model."""
        return any(encoder.uses_context for encoder, _ in self._parts)

    def vector_size(self, side: Side) -> int:
        """Dimensions of a vector of a side."""
        return sum(encoder.vector_size(side) for encoder, _ in self._parts)

    def knows(self, texts: list[str]) -> np.ndarray:
        """As in `Encoder`, by either model."""
        return np.logical_or(*(encoder.knows(texts) for encoder, _ in self._parts))

    def encode(self, texts: Iterable[str], side: Side = "input", *args: Any, **options: Any) -> np.ndarray:
        """As `Encoder.encode`; each model has its own `context_weights`."""
        texts = texts if isinstance(texts, str) else list(texts)
        parts = [encoder.encode(texts, side, *args, **options) for encoder, _ in self._parts]
        weighted = [weight * part for (_, weight), part in zip(self._parts, parts, strict=True)]
        return np.concatenate(weighted, axis=1)

    def stream(
        self, texts: Iterable[str], side: Side = "input", batch_size: int | None = None, show_progress: bool = False
    ) -> Iterator[np.ndarray]:
        """As `Encoder.stream`."""
        remaining = iter(texts)
        with tqdm(desc="encoding", delay=1, unit="text", unit_scale=True, disable=not show_progress) as progress:
            while chunk := list(islice(remaining, CHUNK)):
                yield self.encode(chunk, side, batch_size)
                progress.update(len(chunk))
