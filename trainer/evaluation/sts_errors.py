"""Errors of an encoder on the STS Benchmark by kind of pair; simple rules assign the kinds.

The rules look at words rather than at meaning, and a pair can be of several kinds. A word is a run of letters and
digits, lowercased, without `'s`; the overlap of two sentences is the proportion of their distinct words in both.

| kind | the rule |
|---|---|
| negation | only one sentence has a negation word (`NEGATIONS`, or a word that ends in n't) |
| numbers | the sets of numbers differ: digits (1,000 is 1000, 4.20 is 4.2) and the words two to twelve |
| names | a capitalized word within one sentence is not a word of the other; I is not a name |
| length | one sentence is at least 1.5 times as long and 4 words longer |
| word_order | both have the same words, in another order |
| high_overlap_low_gold | overlap of 1/2 or more, gold 2 or less |
| low_overlap_high_gold | overlap of 1/3 or less, gold 4 or more |
| rest | none of these |
"""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np
from datasets import Dataset

from trainer.encoders.protocol import SentenceEncoder
from trainer.evaluation.metrics.sts_correlation.sts_correlation import sts_correlation
from trainer.evaluation.similarity import Similarity
from trainer.evaluation.stsb import untuned_scores

NEGATIONS = frozenset(
    "no not never none nobody nothing nowhere neither nor cannot without hardly barely scarcely".split()
)
# Not "one", which is a pronoun more often than a number.
NUMBER_WORDS = {
    word: float(number)
    for number, word in enumerate("two three four five six seven eight nine ten eleven twelve".split(), start=2)
}
LONGER, MORE_WORDS = 1.5, 4
HIGH_OVERLAP, LOW_GOLD = 1 / 2, 2.0
LOW_OVERLAP, HIGH_GOLD = 1 / 3, 4.0
WORST = 10  # pairs that are printed
KINDS = ("negation", "numbers", "names", "length", "word_order", "high_overlap_low_gold", "low_overlap_high_gold",
         "rest")  # fmt: skip

WORD = re.compile(r"\w+(?:'\w+)*")
NUMBER = re.compile(r"\b\d+(?:,\d{3})*(?:\.\d+)?")
SENTENCE_END = re.compile(r"(?:^|[.!?:…])[\s\"'(\[]*$")


def words(text: str) -> list[str]:
    """The words of `text` in order, lowercased, without `'s`."""
    return [word.lower().removesuffix("'s") for word in WORD.findall(text)]


def has_negation(text: str) -> bool:
    """Whether one of the words is a negation."""
    return any(word in NEGATIONS or word.endswith("n't") for word in words(text))


def numbers(text: str) -> set[float]:
    """The numbers in `text`, written in digits or as one of the words two to twelve."""
    written = {float(number.replace(",", "")) for number in NUMBER.findall(text)}
    return written | {NUMBER_WORDS[word] for word in words(text) if word in NUMBER_WORDS}


def names(text: str) -> set[str]:
    """The capitalized words of `text`, lowercased, except those that begin a sentence and I, I'm, I've, …"""
    return {
        match.group().lower().removesuffix("'s")
        for match in WORD.finditer(text)
        if match.group()[0].isupper()
        and match.group().partition("'")[0] != "I"
        and not SENTENCE_END.search(text[: match.start()])
    }


def kinds(first: str, second: str, gold: float) -> list[str]:
    """The kinds of a pair with the score `gold` (0 to 5), in the order of `KINDS`; `rest` if no rule applies."""
    first, second = (text.replace("’", "'") for text in (first, second))
    one, other = words(first), words(second)
    short, long = sorted((len(one), len(other)))
    overlap = len({*one} & {*other}) / max(1, len({*one} | {*other}))
    applies = (
        has_negation(first) != has_negation(second),
        numbers(first) != numbers(second),
        # Compared with all words of the other sentence, which may begin with the name.
        bool(names(first) - {*other} or names(second) - {*one}),
        long >= LONGER * short and long - short >= MORE_WORDS,
        one != other and sorted(one) == sorted(other),
        gold <= LOW_GOLD and overlap >= HIGH_OVERLAP,
        gold >= HIGH_GOLD and overlap <= LOW_OVERLAP,
    )
    return [kind for kind, is_one in zip(KINDS, applies, strict=False) if is_one] or ["rest"]


def errors_by_kind(predicted: np.ndarray, gold: np.ndarray, kinds_of_pairs: list[list[str]]) -> dict[str, dict]:
    """The part of results.json for one split: kind -> "pairs", "pearson", "error", "absolute_error".

    Args:
        predicted: (pairs,), in the range of gold.
        gold: (pairs,), 0 to 5.
        kinds_of_pairs: the kinds of each pair.

    Returns:
        For every kind that occurs: the number of pairs; Pearson's r (None if it is undefined because one side is
        constant); the mean of predicted minus gold ("error", above 0 if the model overestimates similarity); and the
        mean of its absolute value.
    """
    result: dict[str, dict] = {}
    for kind in KINDS:
        rows = np.array([kind in kinds_of_pair for kinds_of_pair in kinds_of_pairs])
        if not rows.any():
            continue
        difference = predicted[rows] - gold[rows]
        both_vary = np.ptp(predicted[rows]) > 0 and np.ptp(gold[rows]) > 0
        result[kind] = {
            "pairs": int(rows.sum()),
            "pearson": sts_correlation(predicted[rows], gold[rows])["pearson"] if both_vary else None,
            "error": float(difference.mean()),
            "absolute_error": float(np.abs(difference).mean()),
        }
    return result


def evaluate_sts_errors(
    encoder: SentenceEncoder, splits: Mapping[str, Dataset], similarity: Similarity = "angular"
) -> dict[str, dict]:
    """Print the errors by kind on each of `splits`, and the worst pairs of dev; nobody should look at test pairs.

    The scores are mapped to the range of gold by linear least squares.

    Args:
        encoder: the model, untuned.
        splits: name in results.json -> pairs.
        similarity: the score.

    Returns:
        `errors_by_kind` of each split.
    """
    results = {}
    for name, pairs in splits.items():
        first, second, gold = pairs["sentence1"][:], pairs["sentence2"][:], np.asarray(pairs["score"], np.float64)
        scores = untuned_scores(encoder, pairs, similarity)
        slope, intercept = np.polyfit(scores, gold, 1)
        predicted = slope * scores + intercept
        kinds_of_pairs = [kinds(*pair) for pair in zip(first, second, gold, strict=True)]
        results[name] = errors_by_kind(predicted, gold, kinds_of_pairs)
        print(f"\nSTS-B {name}: predicted minus gold\n{format_errors(results[name])}")
        if name != "dev":
            continue
        for row in np.argsort(-np.abs(predicted - gold), kind="stable")[:WORST]:
            print(f"\n  predicted {predicted[row]:5.2f}  gold {gold[row]:4.2f}  {', '.join(kinds_of_pairs[row])}")
            print(f"    {first[row]}\n    {second[row]}")
    return results


def format_errors(kinds_with_errors: Mapping[str, Mapping[str, Any]]) -> str:
    """A table with one line for each kind of `errors_by_kind`; a missing correlation is blank."""
    lines = [f"  {'kind':<21} {'pairs':>6} {'pearson':>8} {'error':>7} {'absolute':>9}"]
    for kind, values in kinds_with_errors.items():
        pearson = "" if values["pearson"] is None else f"{values['pearson']:.3f}"
        lines.append(
            f"  {kind:<21} {values['pairs']:>6,} {pearson:>8} {values['error']:>+7.2f} {values['absolute_error']:>9.2f}"
        )
    return "\n".join(lines)
