"""Captions, paraphrases and inference as rows of texts that say the same, or are judged how much they do.

A set's texts stand once in a column `text`; a row of a task names them by their place in it.
"""

from dataclasses import dataclass

import numpy as np
from datasets import Dataset
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

PARTNERS = 2  # others of its image that a caption is paired with
ENTAILMENT, CONTRADICTION = 0, 2


@dataclass(frozen=True)
class SimilarTexts:
    """Rows of two texts that say the same.

    Attributes:
        texts: the distinct texts, column `text`.
        first: (rows,) a text's place in `texts`.
        second: (rows,) a text that says the same.
        negative: (rows,) one that looks alike and does not, or -1.
        groups: (rows,) equal for rows whose texts may all say the same.
    """

    texts: Dataset
    first: np.ndarray
    second: np.ndarray
    negative: np.ndarray
    groups: np.ndarray

    def __len__(self) -> int:
        return len(self.first)


@dataclass(frozen=True)
class ScoredTexts:
    """Rows of two texts, by their places `first`, `second` (rows,) in `texts`.

    `scores` (rows,), 0 to 1, says how alike they were judged.
    """

    texts: Dataset
    first: np.ndarray
    second: np.ndarray
    scores: np.ndarray

    def __len__(self) -> int:
        return len(self.first)


def from_captions(captions: Dataset, seed: int) -> SimilarTexts:
    """Each caption with `PARTNERS` others of its image (fewer where it has fewer), drawn from the seed.

    Args:
        captions: columns `group` (the image) and `caption`, in any order.
    """
    texts, places = _distinct([captions["caption"]])
    _, images = np.unique(np.asarray(captions["group"], dtype=str), return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(images))
    order = order[np.argsort(images[order], kind="stable")]  # by image, within an image in a drawn order
    images, (captions_in_order,) = images[order], [places[0][order]]
    starts = np.flatnonzero(np.r_[True, images[1:] != images[:-1]])
    sizes = np.diff(np.r_[starts, len(images)])
    start, size = np.repeat(starts, sizes), np.repeat(sizes, sizes)
    number = np.arange(len(images)) - start
    first, second, groups = [], [], []
    for shift in range(1, PARTNERS + 1):
        rows = np.flatnonzero(size > shift)
        first.append(captions_in_order[rows])
        second.append(captions_in_order[(start + (number + shift) % size)[rows]])
        groups.append(images[rows])
    pairs = np.concatenate(first), np.concatenate(second)
    return SimilarTexts(texts, *pairs, np.full(len(pairs[0]), -1), np.concatenate(groups))


def from_paraphrases(pairs: Dataset, seed: int) -> SimilarTexts:
    """The pairs that say the same: those of the set's highest score, or all where it judges nothing.

    A pair of a lower score gives a hard negative to the pairs that hold its first or second sentence.

    Args:
        pairs: columns `sentence1`, `sentence2` and `score` (None: not judged).
    """
    texts, (first, second) = _distinct([pairs["sentence1"], pairs["sentence2"]])
    scores = _unit_scores(pairs)
    same, different = (scores == 1) & (first != second), np.flatnonzero(scores < 1)
    different = np.random.default_rng(seed).permutation(different)
    negative_of = np.full(len(texts), -1)
    negative_of[second[different]] = first[different]
    negative_of[first[different]] = second[different]
    first, second = first[same], second[same]
    return SimilarTexts(texts, first, second, negative_of[first], _components(len(texts), first, second)[first])


def from_nli(pairs: Dataset, seed: int) -> SimilarTexts:
    """Premises with what they entail; the hard negative contradicts the same premise (Gao et al., 2021, SimCSE).

    Args:
        pairs: columns `premise`, `hypothesis` and `label` (0 entailment, 1 neutral, 2 contradiction).
    """
    texts, (premises, hypotheses) = _distinct([pairs["premise"], pairs["hypothesis"]])
    labels = np.asarray(pairs["label"])
    negative_of = np.full(len(texts), -1)
    contradicting = np.random.default_rng(seed).permutation(np.flatnonzero(labels == CONTRADICTION))
    negative_of[premises[contradicting]] = hypotheses[contradicting]
    entailed = (labels == ENTAILMENT) & (premises != hypotheses)
    first, second = premises[entailed], hypotheses[entailed]
    return SimilarTexts(texts, first, second, negative_of[first], first)


def scored_paraphrases(pairs: Dataset) -> ScoredTexts | None:
    """The judged pairs with their scores over the set's highest; None where all are judged alike or not at all."""
    texts, (first, second) = _distinct([pairs["sentence1"], pairs["sentence2"]])
    scores = _unit_scores(pairs)
    return ScoredTexts(texts, first, second, scores) if len(np.unique(scores)) > 1 else None


def scored_nli(pairs: Dataset) -> ScoredTexts | None:
    """Entailment as 1, neutral as 0.5, contradiction as 0; None where all pairs have one label."""
    texts, (first, second) = _distinct([pairs["premise"], pairs["hypothesis"]])
    scores = 1 - np.asarray(pairs["label"]) / 2
    return ScoredTexts(texts, first, second, scores) if len(np.unique(scores)) > 1 else None


def _distinct(columns: list[list[str]]) -> tuple[Dataset, list[np.ndarray]]:
    """The distinct texts of some columns, and for each column the places (rows,) of its texts among them."""
    place: dict[str, int] = {}
    places = [np.fromiter((place.setdefault(text, len(place)) for text in column), np.int64) for column in columns]
    return Dataset.from_dict({"text": list(place)}), places


def _unit_scores(pairs: Dataset) -> np.ndarray:
    """Scores (rows,) over the highest; 1 where a pair is not judged."""
    scores = np.array([np.nan if score is None else score for score in pairs["score"]], dtype=np.float64)
    highest = np.nanmax(scores, initial=0.0)
    return np.nan_to_num(scores / highest if highest > 0 else scores, nan=1.0)


def _components(size: int, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """For each of `size` texts the number (size,) of the set of texts that it is linked with, directly or not."""
    links = coo_array((np.ones(len(first), dtype=bool), (first, second)), shape=(size, size))
    return connected_components(links, directed=False)[1].astype(np.int64)
