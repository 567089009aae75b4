"""Measures many texts of Reddit at once, as `clean.filters.measure` does one."""

import functools
import sys

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data_scripts.clean.filters import PAPER, Filters
from data_scripts.clean.text import strip_markdown, unescape

_ASCII_LETTERS = np.array([byte < 128 and chr(byte).isalpha() for byte in range(256)])


def measure_column(texts: pa.StringArray, filters: Filters = PAPER) -> tuple[pa.StringArray, np.ndarray, np.ndarray]:
    """`filters.measure` for many texts, which are unescaped; none is null.

    Returns:
        The cleaned texts, and characters and letters, each (texts,) int32.
    """
    texts = _unescape_column(texts)
    if filters.markdown:
        marked = pc.match_substring_regex(texts, r"\]\(|(?m)^[ \t]{0,3}>")
        stripped = pa.array(map(strip_markdown, texts.filter(marked).to_pylist()), pa.string())
        texts = pc.replace_with_mask(texts, marked, stripped)
    _, offsets_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    # Most texts are ASCII, where letters are counted by byte; in the others they are counted by code point.
    alphabetic = _segment_sums(_ASCII_LETTERS[np.frombuffer(data_buffer or b"", np.uint8)], offsets)
    characters = pc.utf8_length(texts).to_numpy()
    others = np.flatnonzero(np.diff(offsets) != characters)
    if len(others):
        codes = np.frombuffer("".join(texts.take(pa.array(others)).to_pylist()).encode("utf-32-le"), np.uint32)
        alphabetic[others] = _segment_sums(_unicode_letters()[codes], np.append(0, np.cumsum(characters[others])))
    return texts, characters, alphabetic


def _unescape_column(texts: pa.StringArray) -> pa.StringArray:
    """`unescape` for many texts. Nearly all texts with an `&` hold only Reddit's three entities."""
    escaped = pc.match_substring(texts, "&")
    if not escaped.true_count:
        return texts
    originals = texts.filter(escaped)
    plain, without = originals, originals
    for entity, character in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):  # & last: "&amp;lt;" is "&lt;"
        plain = pc.replace_substring(plain, entity, character)
        without = pc.replace_substring(without, entity, "")
    others = pc.match_substring_regex(without, "&(#[0-9]+|#[xX][0-9a-fA-F]+|[A-Za-z][0-9A-Za-z]+);")
    if others.true_count:
        unescaped = pa.array(map(unescape, originals.filter(others).to_pylist()))
        plain = pc.replace_with_mask(plain, others, unescaped)
    return pc.replace_with_mask(texts, escaped, plain)


@functools.cache
def _unicode_letters() -> np.ndarray:
    """Whether each code point of Unicode is a letter, (1,114,112,) bool."""
    return np.array([chr(code).isalpha() for code in range(sys.maxunicode + 1)])


def _segment_sums(flags: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """The number of true flags between consecutive `offsets`, (len(offsets) - 1,) int32."""
    sums = np.zeros(len(offsets) - 1, np.int32)
    nonempty = np.flatnonzero(np.diff(offsets))  # `reduceat` gives an empty segment the flag that follows it
    if len(nonempty):
        sums[nonempty] = np.add.reduceat(flags[: offsets[-1]], offsets[nonempty], dtype=np.int32)
    return sums
