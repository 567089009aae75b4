"""Vectors of texts in their conversation, in which earlier turns count too.

After the turns c1, c2, … (the newest first), a text has the vector u + w1 u1 + w2 u2 + …, scaled to the length of u:
the cosine or score of another text with it is a weighted mean of those with the text and with the turns.
"""

from collections.abc import Callable, Sequence
from itertools import chain

import numpy as np

from modeling_convsim.encoding.batch_tokenizer import refuse_single_string
from modeling_convsim.modeling_averaging import sum_rows


def encode_in_context(
    encode: Callable[[list[str]], np.ndarray],
    texts: Sequence[str],
    contexts: Sequence[Sequence[str]],
    weights: Sequence[float],
) -> np.ndarray:
    """Encodes texts in their contexts: (texts, dimensions), float32. Each distinct turn is encoded once.

    Args:
        encode: Encodes texts.
        texts: The texts.
        contexts: (texts,), the earlier turns of each, the newest first. Blank turns, and those without a weight, are
            ignored.
        weights: Of the turns, the newest first.

    Raises:
        ValueError: The numbers of texts and contexts differ.
        TypeError: A context is a single string.
    """
    turns = select_turns(texts, contexts, len(weights))
    number = {turn: row for row, turn in enumerate(dict.fromkeys(chain.from_iterable(turns)), start=len(texts))}
    vectors = encode([*texts, *number])
    if not number:
        return vectors
    bags = [[row, *map(number.__getitem__, each)] for row, each in enumerate(turns)]
    sizes = np.fromiter(map(len, bags), np.int64, count=len(bags))
    offsets = np.concatenate([[0], sizes.cumsum()])
    rows = np.fromiter(chain.from_iterable(bags), np.int64, count=offsets[-1])
    weight_of = np.array([1, *weights], np.float32)[np.arange(len(rows)) - np.repeat(offsets[:-1], sizes)]
    sums = sum_rows(vectors, rows, offsets, weight_of)
    lengths, own_lengths = (np.linalg.norm(each, axis=1, keepdims=True) for each in (sums, vectors[: len(texts)]))
    return sums * (own_lengths / np.where(lengths > 0, lengths, 1))


def select_turns(texts: Sequence[str], contexts: Sequence[Sequence[str]], count: int) -> list[list[str]]:
    """(texts,): the newest turns of each context that are not blank, up to `count`.

    Raises:
        ValueError: The numbers of texts and contexts differ.
        TypeError: A context is a single string.
    """
    if len(texts) != len(contexts):
        raise ValueError(f"{len(texts)} texts and {len(contexts)} contexts, expected the same number")
    selected = []
    for context in contexts:
        refuse_single_string(context, "contexts=[[turn, …], …]")
        selected.append([turn for turn in context if turn.strip()][:count])
    return selected
