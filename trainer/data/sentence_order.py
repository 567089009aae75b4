"""Sentences in order and their neighbors (Siamese CBOW: Kenter et al., 2016, section 2.1)."""

import logging
from dataclasses import dataclass

import numpy as np
from datasets import Dataset

from data_scripts.files.errors import InputError
from trainer.data.token_cache import TokenColumn

ORDERED, PAIRED = ("book", "position", "sentence"), ("input", "response")
NONE = -1

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class OrderedSentences:
    """Sentences with their positions; neighbors are adjacent sentences of the same document.

    Attributes:
        texts: the sentences, column `text`.
        documents: (sentences,) the document of each.
        positions: (sentences,) the position of each in its document.
    """

    texts: Dataset
    documents: np.ndarray
    positions: np.ndarray


@dataclass(frozen=True)
class Neighbors:
    """Sentences that have a neighbor, as indices in a column of sentences.

    Attributes:
        sentences: (examples,) the sentences.
        before: (examples,) the sentence before each, or -1.
        after: (examples,) the sentence after each, or -1.
        others: (candidates,) the sentences from which negatives are sampled.
    """

    sentences: np.ndarray
    before: np.ndarray
    after: np.ndarray
    others: np.ndarray

    def __len__(self) -> int:
        return len(self.sentences)


def order_sentences(rows: Dataset, name: str) -> OrderedSentences:
    """Order the sentences of books (`book`, `position`, `sentence`), or of pairs, which are documents of two sentences.

    Raises:
        InputError: the dataset has neither kind of columns; the message begins with `name`.
    """
    columns = set(rows.column_names)
    if columns.issuperset(ORDERED):
        order = rows.select_columns(["book", "position"]).with_format("arrow")[:]
        documents = np.asarray(order["book"].combine_chunks().dictionary_encode().indices)
        texts = rows.select_columns(["sentence"]).rename_column("sentence", "text")
        return OrderedSentences(texts, documents, order["position"].to_numpy())
    if columns.issuperset(PAIRED):
        texts = Dataset.from_dict({"text": [text for side in PAIRED for text in rows[side][:]]})
        documents, positions = np.tile(np.arange(len(rows)), 2), np.repeat([0, 1], len(rows))
        return OrderedSentences(texts, documents, positions)
    raise InputError(
        f"{name}: expected sentences in order (columns {', '.join(ORDERED)}, as `python -m data_scripts books` writes "
        f"them) or pairs ({', '.join(PAIRED)}), found {', '.join(rows.column_names)}"
    )


def find_neighbors(sentences: OrderedSentences, column: TokenColumn, unk_token_id: int, name: str) -> Neighbors:
    """Return the examples of the task; a sentence without a known word is not an example, a neighbor or a negative.

    Raises:
        InputError: no sentence has a neighbor; the message begins with `name`.
    """
    counts = np.concatenate([[0], np.cumsum(column.ids != unk_token_id)])
    known = counts[column.offsets[1:]] > counts[column.offsets[:-1]]
    order = np.lexsort((sentences.positions, sentences.documents))
    documents, positions = sentences.documents[order], sentences.positions[order]
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
    return Neighbors(chosen, before[chosen], after[chosen], np.flatnonzero(known))
