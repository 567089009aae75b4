"""Finds near-duplicates: texts that share most of their character 5-grams, by MinHash and locality-sensitive hashing.

Two texts are near-duplicates if they differ when normalized, both have more than 20 characters then, and the Jaccard
similarity of their sets of character 5-grams (the 5-grams in both, over those in either) is 0.7 or more. At 0.7, a text
with a few words added or an edited word is found, and one that says something else with the same phrase is not. Words
are too coarse for sentences: one replaced word of ten changes three of eight word 3-grams. Shorter texts ("what do you
mean") are said again by chance.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator

import pyarrow as pa
from rensa import RMinHash, RMinHashLSH
from xxhash import xxh3_64_intdigest

from data_scripts.clean.text import normalize_text

SIMILARITY = 0.7
GRAM = 5  # characters
SHORT = 20  # characters of a normalized text; no longer ones have no near-duplicates
# Of 32 bands of 4 hashes, one is equal in both texts with a probability of .9998 at a similarity of .7, .87 at .5.
HASHES, BANDS = 128, 32


def grams(form: str) -> list[str]:
    """The character 5-grams of a normalized text, in order."""
    return [form[start : start + GRAM] for start in range(len(form) - GRAM + 1)]


def similarity(one: str, other: str) -> float:
    """The Jaccard similarity of the character 5-grams of two normalized texts of 5 or more characters."""
    first, second = set(grams(one)), set(grams(other))
    shared = len(first & second)
    return shared / (len(first) + len(second) - shared)


class NearDuplicates:
    """The normalized sentences of evaluation datasets, held in memory, among which near-duplicates are looked up.

    MinHash finds candidates, whose similarity is then computed, so that none is reported that is not one; of those with
    a similarity of 0.7, one in 5,000 is missed.

    Args:
        sentences: normalized.
    """

    def __init__(self, sentences: Iterable[str]) -> None:
        self.forms = [form for form in sentences if len(form) > SHORT]
        self._index = RMinHashLSH(threshold=SIMILARITY, num_perm=HASHES, num_bands=BANDS)
        for start in range(0, len(self.forms), 1000):  # signatures of all at once would take another 1 KB each
            self._index.insert_many(_signatures(self.forms[start : start + 1000]), start_key=start)

    def find(self, texts: pa.Array) -> Iterator[tuple[int, dict[str, float]]]:
        """(index, near-duplicate -> similarity) of each text that has some; near-duplicates are normalized."""
        forms = [normalize_text(text) if text else "" for text in texts.to_pylist()]
        found = self._find(list(dict.fromkeys(form for form in forms if len(form) > SHORT)))
        for index, form in enumerate(forms):
            if form in found:
                yield index, found[form]

    def _find(self, forms: list[str]) -> dict[str, dict[str, float]]:
        found = {}
        for form, keys in zip(forms, self._index.query_all(_signatures(forms)), strict=True):
            near = {other: similarity(form, other) for key in keys if (other := self.forms[key]) != form}
            if near := {other: value for other, value in near.items() if value >= SIMILARITY}:
                found[form] = near
        return found


def _signatures(forms: list[str]) -> list[RMinHash]:
    return RMinHash.from_token_sets([grams(form) for form in forms], num_perm=HASHES, seed=0)


def sample_long_texts(texts: Iterable[str], size: int) -> list[str]:
    """At most `size` of the distinct normalized texts that can have near-duplicates: those with the smallest hashes.

    The sample does not depend on the order of the texts. Memory holds twice as many.
    """
    chosen: dict[int, str] = {}
    largest = 1 << 64
    for text in texts:
        form = normalize_text(text)
        if len(form) <= SHORT or (number := xxh3_64_intdigest(form.encode())) >= largest:
            continue
        chosen[number] = form
        if len(chosen) > 2 * size:
            chosen = dict(heapq.nsmallest(size, chosen.items()))
            largest = max(chosen)
    return [form for _, form in heapq.nsmallest(size, chosen.items())]
