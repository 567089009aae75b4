"""Statistics of the STS datasets that the papers report, and the significance of a difference between systems."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np
from datasets import Dataset
from scipy import stats

from data_scripts.clean.text import normalize_text

if TYPE_CHECKING:
    from trainer.evaluation.sts_sets import StsSets

_PUNCTUATION_AROUND = re.compile(r"^[\W_]+|[\W_]+$")


def sts_set_statistics(sets: StsSets) -> dict[str, dict[str, float]]:
    """Length and lexical overlap of the sentences of each dataset: "YEAR NAME" -> statistic -> value.

    "pairs"; "length" and "length_deviation", mean and standard deviation of the number of words in a sentence,
    split at whitespace, as in Kenter et al. (2016), section 4.2.1. "overlap", mean of `lexical_overlap`, 0 to 1: their
    section 4.1 does not define its percentages. On all pairs of the files this gives FNWN 7.0 (theirs: 7), answ-forums
    7.1 (7), belief 12.0 (11) and MSRpar 44.3 (14, which no definition that was tried comes near). Pairs with a gold
    score, which alone are evaluated, overlap more: answ-forums 9.7, belief 19.6.
    """
    statistics = {}
    for key, rows in ((f"{year} {name}", rows) for year, names in sets.items() for name, rows in names.items()):
        first, second = rows["sentence1"][:], rows["sentence2"][:]
        lengths = [len(sentence.split()) for sentence in [*first, *second]]
        statistics[key] = {
            "pairs": len(first),
            "length": float(np.mean(lengths)),
            "length_deviation": float(np.std(lengths)),
            "overlap": float(np.mean([lexical_overlap(*pair) for pair in zip(first, second, strict=True)])),
        }
    return statistics


def lexical_overlap(first: str, second: str) -> float:
    """Jaccard index, 0 to 1, of the distinct words, split at whitespace, lowercased, without outer punctuation.

    0 if neither has a word.
    """
    words, others = (
        {_PUNCTUATION_AROUND.sub("", word) for word in text.lower().split()} - {""} for text in (first, second)
    )
    return len(words & others) / max(1, len(words | others))


def wilcoxon(scores: np.ndarray, others: np.ndarray) -> float:
    """p of the two-sided signed-rank test on the scores (pairs,) that two systems give to the same pairs.

    Kenter et al. (2016), section 3.3, call two systems different below 0.0001. 1 if all scores are equal.
    """
    if np.array_equal(scores, others):
        return 1.0
    return float(stats.wilcoxon(scores, others).pvalue)


def snli_overlap(stsb: Mapping[str, Dataset], snli_train: Dataset) -> dict[str, dict[str, int]]:
    """Count the pairs of STS-B's dev and test splits that are in SNLI's training split.

    Yang et al. (2018), footnote 9, count 4 and 5 pairs. Sentences are compared after
    `data_scripts.clean.text.normalize_text`.

    Args:
        stsb: splits with `sentence1` and `sentence2`; missing splits are omitted.
        snli_train: rows with `premise` and `hypothesis`.

    Returns:
        "dev" and "test" -> "pairs": those that are the premise and hypothesis of one row, in either order; "sentences":
        those with at least one sentence in any row; "of": all pairs.
    """
    rows = set(_normalized_pairs(snli_train, "premise", "hypothesis"))
    sentences = {sentence for row in rows for sentence in row}
    overlap = {}
    for name, split in (("dev", "validation"), ("test", "test")):
        if split in stsb:
            pairs = list(_normalized_pairs(stsb[split], "sentence1", "sentence2"))
            overlap[name] = {
                "pairs": sum(pair in rows for pair in pairs),
                "sentences": sum(not sentences.isdisjoint(pair) for pair in pairs),
                "of": len(pairs),
            }
    return overlap


def _normalized_pairs(rows: Dataset, first: str, second: str) -> Iterator[tuple[str, ...]]:
    """The two texts of each row, normalized, in alphabetical order."""
    for pair in zip(rows[first], rows[second], strict=True):
        yield tuple(sorted(map(normalize_text, pair)))
