"""Examples of the tasks on similarity: positive pairs with hard negatives, and neighboring sentences.

The column `text` has the distinct texts of a dataset; a pair refers to them by index.
"""

import logging
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from datasets import Dataset
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from modeling_convsim.files.errors import InputError
from trainer.data.token_cache import TokenColumn

PARTNERS = 2  # number of captions of the same image that a caption is paired with
ENTAILMENT, CONTRADICTION = 0, 2
ORDERED, PAIRED = ("book", "position", "sentence"), ("input", "response")
NONE = -1

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class PositivePairs:
    """Pairs of semantically equivalent texts.

    Attributes:
        texts: the distinct texts, column `text`.
        first: (pairs,) index of a text in `texts`.
        second: (pairs,) index of a semantically equivalent text.
        negative: (pairs,) index of a hard negative, or -1.
        groups: (texts,) equal for texts that may be equivalent because pairs link them: the connected component of
            each text. Texts of the same group are not used as negatives of each other.
    """

    texts: Dataset
    first: np.ndarray
    second: np.ndarray
    negative: np.ndarray
    groups: np.ndarray

    def __len__(self) -> int:
        return len(self.first)

    @classmethod
    def linked(cls, texts: Dataset, first: np.ndarray, second: np.ndarray, negative: np.ndarray) -> "PositivePairs":
        """Build the pairs, with their texts grouped by connected components."""
        links = coo_array((np.ones(len(first), dtype=bool), (first, second)), shape=(len(texts), len(texts)))
        groups = connected_components(links, directed=False)[1].astype(np.int64)
        return cls(texts, first, second, negative, groups)


def caption_pairs(captions: Dataset, seed: int) -> PositivePairs:
    """Pair each caption with up to `PARTNERS` other captions of its image, chosen at random.

    Args:
        captions: columns `group` (the image) and `caption`, in any order.
        seed: seed of the choice.
    """
    texts, indices = _distinct_texts([captions["caption"]])
    _, images = np.unique(np.asarray(captions["group"], dtype=str), return_inverse=True)
    order = np.random.default_rng(seed).permutation(len(images))
    order = order[np.argsort(images[order], kind="stable")]  # sorted by image, in random order within an image
    images, captions_in_order = images[order], indices[0][order]
    starts = np.flatnonzero(np.r_[True, images[1:] != images[:-1]])
    sizes = np.diff(np.r_[starts, len(images)])
    start, size = np.repeat(starts, sizes), np.repeat(sizes, sizes)
    number = np.arange(len(images)) - start
    first, second = [], []
    for shift in range(1, PARTNERS + 1):
        rows = np.flatnonzero(size > shift)
        first.append(captions_in_order[rows])
        second.append(captions_in_order[(start + (number + shift) % size)[rows]])
    pairs = np.concatenate(first), np.concatenate(second)
    return PositivePairs.linked(texts, *pairs, np.full(len(pairs[0]), -1))


def paraphrase_pairs(pairs: Dataset, seed: int) -> PositivePairs:
    """Return the paraphrases: pairs with the dataset's highest score, or all pairs if it has no scores.

    A pair with a lower score is a hard negative of the paraphrases that have its first or second sentence.

    Args:
        pairs: columns `sentence1`, `sentence2` and `score` (None: no score).
        seed: selects among several hard negatives.
    """
    texts, (first, second) = _distinct_texts([pairs["sentence1"], pairs["sentence2"]])
    scores = np.array([np.nan if score is None else score for score in pairs["score"]], dtype=np.float64)
    highest = np.nanmax(scores, initial=0.0)
    scores = np.nan_to_num(scores / highest if highest > 0 else scores, nan=1.0)  # 1 for a pair without a score
    same, different = (scores == 1) & (first != second), np.flatnonzero(scores < 1)
    different = np.random.default_rng(seed).permutation(different)
    negative_of = np.full(len(texts), -1)
    negative_of[second[different]] = first[different]
    negative_of[first[different]] = second[different]
    first, second = first[same], second[same]
    return PositivePairs.linked(texts, first, second, negative_of[first])


def entailment_pairs(pairs: Dataset, seed: int) -> PositivePairs:
    """Pair premises with entailed hypotheses; hard negatives are contradictions (SimCSE, Gao et al., 2021).

    Args:
        pairs: columns `premise`, `hypothesis` and `label` (0 entailment, 1 neutral, 2 contradiction).
        seed: selects among several hard negatives.
    """
    texts, (premises, hypotheses) = _distinct_texts([pairs["premise"], pairs["hypothesis"]])
    labels = np.asarray(pairs["label"])
    negative_of = np.full(len(texts), -1)
    contradicting = np.random.default_rng(seed).permutation(np.flatnonzero(labels == CONTRADICTION))
    negative_of[premises[contradicting]] = hypotheses[contradicting]
    entailed = (labels == ENTAILMENT) & (premises != hypotheses)
    first, second = premises[entailed], hypotheses[entailed]
    return PositivePairs.linked(texts, first, second, negative_of[first])


def _distinct_texts(columns: list[list[str]]) -> tuple[Dataset, list[np.ndarray]]:
    """Return the distinct texts of some columns, and for each column the indices (rows,) of its texts among them."""
    index_of: dict[str, int] = {}
    indices = [
        np.fromiter((index_of.setdefault(text, len(index_of)) for text in column), np.int64) for column in columns
    ]
    return Dataset.from_dict({"text": list(index_of)}), indices


@dataclass(frozen=True)
class Neighbors:
    """Sentences that have a neighbor, as indices in a column of sentences.

    Attributes:
        sentences: (examples,) the sentences.
        before: (examples,) the sentence before each, or -1.
        after: (examples,) the sentence after each, or -1.
        others: (candidates,) the sentences from which negatives are sampled.
        keys: (sentences of the column,) equal for equal texts.
    """

    sentences: np.ndarray
    before: np.ndarray
    after: np.ndarray
    others: np.ndarray
    keys: np.ndarray

    def __len__(self) -> int:
        return len(self.sentences)

    @cached_property
    def observed(self) -> np.ndarray:
        """Sorted `_pair_codes` of the texts that occur more than once and each neighbor of any occurrence."""
        _, numbers, counts = np.unique(self.keys[self.sentences], return_inverse=True, return_counts=True)
        repeats = counts[numbers] > 1
        sides = [(repeats & (side != NONE), side) for side in (self.before, self.after)]
        codes = [_pair_codes(self.keys[self.sentences[rows]], self.keys[side[rows]]) for rows, side in sides]
        return np.unique(np.concatenate(codes))

    def can_be_negatives(self, rows: np.ndarray, sampled: np.ndarray) -> np.ndarray:
        """Whether sampled sentences, (rows, n), are negatives for the examples `rows`: (rows, n).

        One that has the text of the sentence is not, nor one that was observed next to any occurrence of that text
        (Kenter et al., 2016, section 2.1).
        """
        sentences = self.sentences[rows][:, None]
        neighbors = np.stack([self.before[rows], self.after[rows]], axis=1)  # (rows, 2)
        around = self.keys[np.concatenate([sentences, np.where(neighbors == NONE, sentences, neighbors)], axis=1)]
        differ = (self.keys[sampled][:, :, None] != around[:, None, :]).all(axis=2)
        codes = _pair_codes(self.keys[sentences], self.keys[sampled])
        places = np.searchsorted(self.observed, codes)
        return differ & (np.append(self.observed, np.uint64(0))[places] != codes) if len(self.observed) else differ


def _pair_codes(sentences: np.ndarray, neighbors: np.ndarray) -> np.ndarray:
    """A hash, uint64, of each pair of keys; the order of the two matters."""
    return sentences.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + neighbors.astype(np.uint64)


def order_sentences(rows: Dataset, name: str) -> tuple[Dataset, np.ndarray, np.ndarray]:
    """Order the sentences of books (`book`, `position`, `sentence`), or of pairs, which are documents of two sentences.

    Returns:
        The sentences, column `text`; the document of each (sentences,); and its position in the document (sentences,).
        Neighbors are adjacent sentences of the same document.

    Raises:
        InputError: the dataset has neither kind of columns; the message begins with `name`.
    """
    columns = set(rows.column_names)
    if columns.issuperset(ORDERED):
        order = rows.select_columns(["book", "position"]).with_format("arrow")[:]
        documents = np.asarray(order["book"].combine_chunks().dictionary_encode().indices)
        texts = rows.select_columns(["sentence"]).rename_column("sentence", "text")
        return texts, documents, order["position"].to_numpy()
    if columns.issuperset(PAIRED):
        texts = Dataset.from_dict({"text": [text for side in PAIRED for text in rows[side][:]]})
        return texts, np.tile(np.arange(len(rows)), 2), np.repeat([0, 1], len(rows))
    raise InputError(
        f"{name}: expected sentences in order (columns {', '.join(ORDERED)}, as `convsim data books` writes "
        f"them) or pairs ({', '.join(PAIRED)}), found {', '.join(rows.column_names)}"
    )


def find_neighbors(
    documents: np.ndarray, positions: np.ndarray, column: TokenColumn, unk_token_id: int, name: str
) -> Neighbors:
    """Return the examples of the task; a sentence without a known word is not an example, a neighbor or a negative.

    Raises:
        InputError: no sentence has a neighbor; the message begins with `name`.
    """
    counts = np.concatenate([[0], np.cumsum(column.ids != unk_token_id)])
    known = counts[column.offsets[1:]] > counts[column.offsets[:-1]]
    order = np.lexsort((positions, documents))
    documents, positions = documents[order], positions[order]
    follows = (documents[1:] == documents[:-1]) & (positions[1:] == positions[:-1] + 1)
    follows &= known[order[1:]] & known[order[:-1]]
    before, after = np.full(len(order), NONE), np.full(len(order), NONE)
    before[order[1:][follows]] = order[:-1][follows]
    after[order[:-1][follows]] = order[1:][follows]
    chosen = np.flatnonzero((before != NONE) | (after != NONE))
    if not len(chosen):
        raise InputError(f"{name}: no sentence has a neighbor with a known word")
    logger.info(
        "%s: %d of %d sentences have a neighbor; %d sentences without a known word are not used",
        name, len(chosen), len(known), (~known).sum(),
    )  # fmt: skip
    return Neighbors(chosen, before[chosen], after[chosen], np.flatnonzero(known), column.keys)
