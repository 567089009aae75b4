"""`JointEncoder`: two models whose scores are added, as one encoder."""

import hashlib
import json
import operator
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from modeling_convsim.encoding.batch_tokenizer import refuse_single_string
from modeling_convsim.encoding.threads import follow, split_windows
from modeling_convsim.files.json_files import read_object

CHUNK = 16_384  # texts that `stream` encodes by one model, then by the other
FILE, SECOND = "joint.json", "second"  # in the folder of the first model: the share, and the folder of the second one


class JointEncoder:
    """Two models whose vectors are concatenated, so that a dot product is the weighted mean of those of both.

    It encodes as an `Encoder` does. `Encoder.from_pretrained` opens one that was saved.

    Attributes:
        first: An encoder.
        second: Another one.
        share: The weight of the second encoder; that of the first one is 1 - share.
    """

    def __init__(self, first: Any, second: Any, share: float) -> None:
        """Combines two encoders.

        Args:
            first: An `Encoder`, which this module does not import, because its `from_pretrained` opens what is here.
            second: Another one.
            share: Above 0 and below 1.

        Raises:
            ValueError: The share is out of range.
        """
        if not 0 < share < 1:
            raise ValueError(f"share is {share}, expected a number above 0 and below 1")
        self.first, self.second, self.share = first, second, share
        self._parts = ((first, (1 - share) ** 0.5), (second, share**0.5))

    @property
    def name(self) -> str:
        """As in `Encoder`: the folder of both."""
        return self.first.name

    @property
    def description(self) -> str:
        """As in `Encoder`, of both."""
        return f"{self.first.description}, beside {self.second.description}"

    def digest(self) -> str:
        """As in `Encoder`, of both models and the share."""
        parts = f"{self.first.digest()} {self.second.digest()} {self.share:g}"
        return hashlib.sha256(parts.encode()).hexdigest()

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

    def vector_size(self, side: str) -> int:
        """Dimensions of a vector of a side."""
        return sum(encoder.vector_size(side) for encoder, _ in self._parts)

    def knows(self, texts: list[str]) -> np.ndarray:
        """As in `Encoder`, by either model."""
        return np.logical_or(*(encoder.knows(texts) for encoder, _ in self._parts))

    def encode(self, texts: Iterable[str], side: str = "input", *args: Any, **options: Any) -> np.ndarray:
        """As `Encoder.encode`; each model has its own `context_weights`."""
        texts = texts if isinstance(texts, str) else list(texts)
        parts = [weight * encoder.encode(texts, side, *args, **options) for encoder, weight in self._parts]
        return np.concatenate(parts, axis=1)

    def stream(
        self,
        texts: Iterable[str],
        side: str = "input",
        batch_size: int | None = None,
        show_progress: bool = False,
    ) -> Iterator[np.ndarray]:
        """As `Encoder.stream`."""
        refuse_single_string(texts, "stream([text])")
        parts = (self.encode(chunk, side, batch_size) for chunk in split_windows(texts, CHUNK, 1))
        return follow(parts, operator.length_hint(texts) or None, show_progress)


def read_share(folder: Path) -> float | None:
    """The share of the second model in a folder of two; None in that of a single one."""
    return read_object(folder / FILE)["share"] if (folder / FILE).is_file() else None


def write_share(folder: Path, share: float) -> None:
    """Makes a folder one of two models, of which the second one is in its folder `SECOND`."""
    (folder / FILE).write_text(json.dumps({"share": share}) + "\n", encoding="utf-8")
