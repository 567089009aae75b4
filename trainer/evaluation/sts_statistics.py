"""What the papers say of the STS sets themselves, and of the difference of two systems on one."""

import re
from collections.abc import Iterator, Mapping

import numpy as np
from datasets import Dataset
from scipy import stats

from data_scripts.clean.text import normalize_text
from trainer.evaluation.sts_sets import StsSets

_PUNCTUATION_AROUND = re.compile(r"^[\W_]+|[\W_]+$")


def sts_set_statistics(sets: StsSets) -> dict[str, dict[str, dict[str, float]]]:
    """Length and lexical overlap of each set's sentences: year -> set -> name of the figure -> figure.

    "pairs"; "length" and "length_deviation", mean and standard deviation of a sentence's words, split at white space:
    those of Kenter et al. (2016), section 4.2.1. "overlap", mean of `lexical_overlap`, 0 to 1: their section 4.1 does
    not define its percentages. Over all pairs of the files this gives FNWN 7.0 (theirs 7), answ-forums 7.1 (7), belief
    12.0 (11) and MSRpar 44.3 (14, which no definition tried comes near). Pairs with a gold score, the only ones judged,
    overlap more: answ-forums 9.7, belief 19.6.
    """
    return {
        year: {name: _statistics(pairs["sentence1"][:], pairs["sentence2"][:]) for name, pairs in names.items()}
        for year, names in sets.items()
    }


def _statistics(first: list[str], second: list[str]) -> dict[str, float]:
    lengths = [len(sentence.split()) for sentence in [*first, *second]]
    return {
        "pairs": len(first),
        "length": float(np.mean(lengths)),
        "length_deviation": float(np.std(lengths)),
        "overlap": float(np.mean([lexical_overlap(*pair) for pair in zip(first, second, strict=True)])),
    }


def lexical_overlap(first: str, second: str) -> float:
    """Jaccard index, 0 to 1, of the sentences' distinct words: split at white space, lower case, punctuation off ends.

    0 where neither has a word.
    """
    words, others = (
        {_PUNCTUATION_AROUND.sub("", word) for word in text.lower().split()} - {""} for text in (first, second)
    )
    return len(words & others) / max(1, len(words | others))


def wilcoxon(scores: np.ndarray, others: np.ndarray) -> float:
    """p of the signed-rank test over the scores (pairs,) that two systems give the same pairs, two-sided.

    Kenter et al. (2016), section 3.3, call two systems different below 0.0001. 1 where all scores are equal.
    """
    if np.array_equal(scores, others):
        return 1.0
    return float(stats.wilcoxon(scores, others).pvalue)


def snli_overlap(stsb: Mapping[str, Dataset], snli_train: Dataset) -> dict[str, dict[str, int]]:
    """How much of STS-B's dev and test sets is in SNLI's training set (Yang et al. 2018, footnote 9: 4 and 5 pairs).

    Sentences are compared as `data_scripts.clean.text.normalize_text` leaves them.

    Args:
        stsb: splits with `sentence1` and `sentence2`; those that are not there are left out.
        snli_train: rows with `premise` and `hypothesis`.

    Returns:
        "dev" and "test" -> "pairs", those that are one row's premise and hypothesis, in either order; "sentences", the
        pairs of which a sentence, or both, is any row's; "of", all pairs.
    """
    rows = set(_normalised_pairs(snli_train, "premise", "hypothesis"))
    sentences = {sentence for row in rows for sentence in row}
    overlap = {}
    for name, split in (("dev", "validation"), ("test", "test")):
        if split in stsb:
            pairs = list(_normalised_pairs(stsb[split], "sentence1", "sentence2"))
            overlap[name] = {
                "pairs": sum(pair in rows for pair in pairs),
                "sentences": sum(not sentences.isdisjoint(pair) for pair in pairs),
                "of": len(pairs),
            }
    return overlap


def _normalised_pairs(rows: Dataset, first: str, second: str) -> Iterator[tuple[str, ...]]:
    """The two texts of each row, normalised, in alphabetical order."""
    for pair in zip(rows[first], rows[second], strict=True):
        yield tuple(sorted(map(normalize_text, pair)))
