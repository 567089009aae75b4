"""Masks personal data in texts; `personal_data` lists the kinds and finds them."""

from collections import Counter
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from data_scripts.clean.personal_data import DEFAULT_REGIONS, KINDS, Kind, find_urls, plain

_SUSPECT = "|".join(dict.fromkeys(kind.suspect for kind in KINDS))


def find_personal_data(
    text: str, regions: tuple[str, ...] = DEFAULT_REGIONS, kinds: Sequence[Kind] = KINDS
) -> list[tuple[int, int, Kind]]:
    """What is to be masked in a text: start, end and kind, in order and without overlap.

    Spans that overlap become one, of the kind that comes first in `KINDS`.
    """
    normalized = plain(text)
    urls = find_urls(normalized)
    found = sorted(
        (start, end, KINDS.index(kind)) for kind in kinds for start, end in kind.find(normalized, urls, regions)
    )
    merged: list[tuple[int, int, int]] = []
    for start, end, kind in found:
        if merged and start < merged[-1][1]:
            first, last, other = merged[-1]
            merged[-1] = first, max(last, end), min(kind, other)
        else:
            merged.append((start, end, kind))
    return [(start, end, KINDS[kind]) for start, end, kind in merged]


def mask_personal_data(
    texts: pa.StringArray, regions: tuple[str, ...] = DEFAULT_REGIONS
) -> tuple[pa.StringArray, dict[str, int]]:
    """Replace personal data by masks such as [EMAIL].

    Args:
        texts: a text or null each.
        regions: the countries (ISO 3166) whose phone numbers are found in national form, too.

    Returns:
        The texts, and how many of each kind were masked.
    """
    counts = dict.fromkeys((kind.name for kind in KINDS), 0)
    # Most texts cannot hold any of these and are skipped.
    suspects = pc.match_substring_regex(texts, _SUSPECT)
    if not suspects.true_count:
        return texts, counts
    suspected = texts.filter(suspects)
    flags = zip(*(pc.match_substring_regex(suspected, kind.suspect).to_pylist() for kind in KINDS), strict=True)
    masked = []
    for text, possible in zip(suspected.to_pylist(), flags, strict=True):
        kinds = [kind for kind, flag in zip(KINDS, possible, strict=True) if flag]
        masked.append(_mask(text, regions, kinds, counts))
    return pc.replace_with_mask(texts, suspects, pa.array(masked, texts.type)), counts


def mask_text(text: str, regions: tuple[str, ...] = DEFAULT_REGIONS) -> str:
    """`mask_personal_data` for one text, without the search for suspects, whose patterns take long to compile."""
    return _mask(text, regions, KINDS, Counter())


def _mask(text: str, regions: tuple[str, ...], kinds: Sequence[Kind], counts: dict[str, int]) -> str:
    # Again after a mask, which separates what adjoins it: the second name of "@alice@bob" follows no letter any more.
    while found := find_personal_data(text, regions, kinds):
        parts, position = [], 0
        for start, end, kind in found:
            parts += [text[position:start], kind.mask]
            position = end
            counts[kind.name] += 1
        text = "".join([*parts, text[position:]])
    return text
