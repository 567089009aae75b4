"""Removes training rows whose text occurs in an evaluation set."""

import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterable

from datasets import Dataset
from tqdm import tqdm

BATCH = 10_000
_NOT_WORDS = re.compile(r"[\W_]+")


def normalise(text: str) -> str:
    """What two texts share that differ only in form: NFKC, case folded, punctuation out, white space folded.

    Punctuation separates, so that "it's" equals the tokenised "it 's".
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _NOT_WORDS.sub(" ", text.casefold()).strip()


def remove_leaked(
    dataset: Dataset, columns: list[str], evaluation: dict[str, Iterable[str]]
) -> tuple[Dataset, dict[str, int]]:
    """Drop the rows in which a column, normalised, is the whole of an evaluation sentence.

    Args:
        dataset: the rows to train on.
        columns: the columns of text to look at.
        evaluation: name of an evaluation set -> its sentences. One that is empty when normalised matches nothing.

    Returns:
        The rows that are left, in their order, and the number of rows hit by each evaluation set (a row may be hit by
        more than one) with the number of rows dropped as "removed".
    """
    sets_of: defaultdict[str, set[str]] = defaultdict(set)
    for name, sentences in evaluation.items():
        for sentence in sentences:
            sets_of[normalise(sentence)].add(name)
    sets_of.pop("", None)
    counts = dict.fromkeys([*evaluation, "removed"], 0)
    kept: list[int] = []
    texts_only = dataset.select_columns(columns)
    with tqdm(total=len(dataset), delay=1, unit="row", unit_scale=True, desc="leakage") as bar:
        for start in range(0, len(dataset), BATCH):
            batch = texts_only[start : start + BATCH]
            rows = zip(*(batch[column] for column in columns), strict=True)
            for index, texts in enumerate(rows, start=start):
                hit = set().union(*(sets_of.get(normalise(text), ()) for text in texts))
                if not hit:
                    kept.append(index)
                    continue
                counts["removed"] += 1
                for name in hit:
                    counts[name] += 1
            bar.update(min(BATCH, len(dataset) - start))
    return dataset.select(kept), counts
