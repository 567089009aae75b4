"""The protocol of sentence encoders, which evaluations, distillation and exports rely on."""

from collections.abc import Iterable
from typing import Protocol

import numpy as np

from modeling_convsim.encoding.loading import Side as Side


class SentenceEncoder(Protocol):
    """Encodes texts; `modeling_convsim.encoding.Encoder` is one.

    The score of a response for an input is the dot product of their vectors on the sides "response" and "query".
    Vectors of the side "input" are for similarity. Most models return the same vectors for "input" and "query".
    """

    def encode(self, texts: Iterable[str], side: Side = "input") -> np.ndarray:
        """Return the vectors (texts, dimensions), float32, of `texts` on a side."""
        ...
