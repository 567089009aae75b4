"""Finds the texts of evaluation datasets among others: texts that are equal when both are normalized."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data_scripts.clean.text import normalize_text


def _letter_codes() -> np.ndarray:
    codes = np.zeros(256, np.uint64)
    samples = np.random.default_rng(0).integers(2**64, size=256, dtype=np.uint64)
    for letter in range(128):
        if chr(letter).isalnum():
            codes[letter] = samples[ord(chr(letter).lower())]
    return codes


_LETTER_CODES = _letter_codes()  # byte -> a random number for letters and digits, the same for a and A; else 0


class EvaluationTexts:
    """The normalized sentences of evaluation datasets, held in memory, among which texts are looked up.

    Args:
        evaluation: name of an evaluation dataset -> its sentences. One that is empty when normalized matches nothing.
    """

    def __init__(self, evaluation: Mapping[str, Iterable[str]]) -> None:
        self.names_of: defaultdict[str, set[str]] = defaultdict(set)
        for name, sentences in evaluation.items():
            for sentence in sentences:
                self.names_of[normalize_text(sentence)].add(name)
        self.names_of.pop("", None)
        ascii_forms = pa.array([form for form in self.names_of if form.isascii()], pa.large_string())
        self.letter_sums = np.unique(np.append(_letter_sums(ascii_forms), np.uint64(0)))

    def find(self, texts: pa.Array) -> Iterator[tuple[int, str, set[str]]]:
        """(index, text, names of the evaluation datasets) of each leaked text; `texts` are strings or null."""
        texts = texts.cast(pa.large_string())
        # Normalizing is slow. ASCII texts that are equal after it have the same letters, and few others do.
        sums = _letter_sums(texts)
        positions = np.searchsorted(self.letter_sums, sums)
        suspects = self.letter_sums[np.minimum(positions, len(self.letter_sums) - 1)] == sums
        suspects |= ~pc.fill_null(pc.string_is_ascii(texts), True).to_numpy(zero_copy_only=False)
        for index in np.flatnonzero(suspects).tolist():
            text = texts[index].as_py()
            names = self.names_of.get(normalize_text(text)) if text else None
            if names:
                yield index, text, names

    def find_rows(self, table: pa.Table, columns: list[str]) -> Iterator[tuple[int, str, set[str]]]:
        """(row, text, names of the evaluation datasets) of each leaked text in a table's columns of texts or lists.

        A row occurs once for each of its texts that leaks.
        """
        for rows, texts in text_arrays(table, columns):
            for index, text, names in self.find(texts):
                yield rows[index].as_py() if rows is not None else index, text, names


def text_arrays(table: pa.Table, columns: list[str]) -> Iterator[tuple[pa.Array | None, pa.Array]]:
    """(row of each text, texts) of each column; the rows are None where a column has one text a row, not a list."""
    for name in columns:
        column = table[name].combine_chunks()
        if pa.types.is_list(column.type) or pa.types.is_large_list(column.type):
            yield pc.list_parent_indices(column), pc.list_flatten(column)
        else:
            yield None, column


def _letter_sums(texts: pa.LargeStringArray) -> np.ndarray:
    """The sum of the codes of each text's ASCII letters and digits, modulo 2^64: (texts,) uint64."""
    if not len(texts):
        return np.zeros(0, np.uint64)
    _, offset_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64, len(texts) + 1, 8 * texts.offset)
    data = np.frombuffer(data_buffer or b"", np.uint8)[offsets[0] : offsets[-1]]
    sums = np.zeros(len(data) + 1, np.uint64)
    np.cumsum(_LETTER_CODES[data], out=sums[1:])
    ends = offsets - offsets[0]
    return sums[ends[1:]] - sums[ends[:-1]]
