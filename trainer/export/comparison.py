"""Compares an exported encoder with the model in torch: vectors, speed, and scores on STS-B."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, get_args

import numpy as np
from datasets import Dataset

from data_scripts.files.errors import InputError
from data_scripts.sample.generate import make_nli, read_premises
from modeling_convsim.encoding import Encoder
from trainer.encoders.protocol import SentenceEncoder, Side
from trainer.evaluation.stsb import evaluate_stsb
from trainer.export.formats import OUTPUTS, ExportedEncoder
from trainer.publish.verify import CHECK_TEXTS

TOLERANCE = 1e-4  # float32: the largest difference of a value, for L2-normalized vectors
LOWEST_COSINE = {"float16": 0.9999, "int8": 0.99}  # between a vector and that of the model
LONG_TEXT = " ".join(CHECK_TEXTS[:2] * 40)
# Batches of one text and of several, of similar and of different lengths, with unknown words and without any words.
CHECK_BATCHES = (CHECK_TEXTS, *((text,) for text in CHECK_TEXTS), ("", ""), (*CHECK_TEXTS[:2], LONG_TEXT) * 3)
PASSES = 3  # over the texts when measuring speed; the fastest counts


class Difference(NamedTuple):
    """How much the exported vectors differ from those of the model.

    Args:
        texts: the number of texts that were compared, on every side that both have.
        largest: the largest difference of a value, divided by the norm of the model's vector if that is above one.
        lowest_cosine: the lowest cosine between a vector and that of the model; 1 if both are zero.
    """

    texts: int
    largest: float
    lowest_cosine: float


def measure_difference(exported: ExportedEncoder, encoder: Encoder, batches: Sequence[Sequence[str]]) -> Difference:
    """Compare the vectors of some batches of texts, each encoded by itself, on every exported side."""
    largest, lowest = 0.0, 1.0
    for side in (side for side in get_args(Side) if OUTPUTS[side] in exported.sizes):
        for batch in batches:
            vectors, expected = (source.encode(batch, side).astype(np.float64) for source in (exported, encoder))
            norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(expected, axis=1)
            both_zero = (np.abs(vectors).max(1) == 0) & (np.abs(expected).max(1) == 0)
            cosines = np.where(both_zero, 1.0, (vectors * expected).sum(1) / np.where(norms > 0, norms, 1.0))
            scale = np.maximum(1, np.linalg.norm(expected, axis=1, keepdims=True))
            # `np.maximum` propagates NaN, which `verify_vectors` refuses.
            largest = float(np.maximum(largest, np.abs((vectors - expected) / scale).max()))
            lowest = float(np.minimum(lowest, cosines.min()))
    return Difference(sum(map(len, batches)), largest, lowest)


def verify_vectors(difference: Difference, precision: str) -> None:
    """Refuse vectors that are not those of the model.

    Raises:
        InputError: float32 differs by more than 1e-4, or a cosine of a lower precision is below `LOWEST_COSINE`.
    """
    # The comparisons are negated so that NaN is refused too.
    if precision == "float32" and not difference.largest <= TOLERANCE:
        raise InputError(
            f"not exported: the vectors differ from the model's by up to {difference.largest:.3g}; expected at most "
            f"{TOLERANCE:g}"
        )
    if precision != "float32" and not difference.lowest_cosine >= LOWEST_COSINE[precision]:
        raise InputError(
            f"not exported: in {precision}, a vector has a cosine of {difference.lowest_cosine:.4f} to the model's; "
            f"expected at least {LOWEST_COSINE[precision]}. Try --precision float32 --embeddings int8, or float16"
        )


def measure_speed(exported: SentenceEncoder, encoder: SentenceEncoder, texts: Sequence[str]) -> dict[str, float]:
    """Sentences per second of both, including tokenization, measured in alternation; the fastest pass counts."""
    sources = {"exported": exported, "torch": encoder}
    seconds = dict.fromkeys(sources, float("inf"))
    for _ in range(PASSES):
        for name, source in sources.items():
            started = time.perf_counter()
            source.encode(texts)
            seconds[name] = min(seconds[name], time.perf_counter() - started)
    return {name: len(texts) / fastest for name, fastest in seconds.items()}


def compare_on_stsb(
    exported: SentenceEncoder, encoder: SentenceEncoder, splits: Mapping[str, Dataset]
) -> dict[str, dict[str, Any]]:
    """Pearson's r of both on each split of STS-B: split -> "exported", "torch", "pairs"."""
    scores = {"exported": evaluate_stsb(exported, splits), "torch": evaluate_stsb(encoder, splits)}
    return {
        split: {**{name: each[split]["all"]["pearson"] for name, each in scores.items()}, "pairs": len(rows)}
        for split, rows in splits.items()
    }


def sample_texts() -> list[str]:
    """The distinct sentences of the sample corpus that ships with the project."""
    rows = make_nli(*read_premises())["train"]
    return list(dict.fromkeys([*rows["premise"][:], *rows["hypothesis"][:]]))
