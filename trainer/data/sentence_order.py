"""Sentences in order, as rows that predict their neighbours (Siamese CBOW: Kenter et al., 2016, section 2.1)."""

import logging
from dataclasses import dataclass

import numpy as np
from datasets import Dataset

from data_scripts.errors import InputError
from trainer.data.token_cache import TokenColumn

ORDERED, PAIRED = ("book", "position", "sentence"), ("input", "response")
NONE = -1

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class OrderedSentences:
    """Sentences with their places.

    `texts` has a column `text` of all sentences; `documents` and `positions` (sentences,) say where each stands. Two
    are neighbours if their document is one and their positions differ by one.
    """

    texts: Dataset
    documents: np.ndarray
    positions: np.ndarray


@dataclass(frozen=True)
class Neighbours:
    """Sentences with a neighbour, by their places in a column of sentences.

    `sentences` (rows,), `before` and `after` (rows,), -1 where there is none; `others` holds the places of all
    sentences that may be drawn as negatives.
    """

    sentences: np.ndarray
    before: np.ndarray
    after: np.ndarray
    others: np.ndarray

    def __len__(self) -> int:
        return len(self.sentences)


def order_sentences(rows: Dataset, place: str) -> OrderedSentences:
    """The sentences of a set of books (`book`, `position`, `sentence`), or of pairs, each a document of two.

    Raises:
        InputError: it has neither's columns; the message begins with `place`.
    """
    names = set(rows.column_names)
    if names.issuperset(ORDERED):
        places = rows.select_columns(["book", "position"]).with_format("arrow")[:]
        documents = places["book"].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
        texts = rows.select_columns(["sentence"]).rename_column("sentence", "text")
        return OrderedSentences(texts, documents.astype(np.int64), places["position"].to_numpy().astype(np.int64))
    if names.issuperset(PAIRED):
        texts = Dataset.from_dict({"text": [text for name in PAIRED for text in rows[name][:]]})
        documents, positions = np.tile(np.arange(len(rows)), 2), np.repeat([0, 1], len(rows))
        return OrderedSentences(texts, documents, positions)
    raise InputError(
        f"{place}: expected sentences in order (columns {', '.join(ORDERED)}, as `python -m data_scripts books` writes "
        f"them) or pairs ({', '.join(PAIRED)}), found {', '.join(rows.column_names)}"
    )


def find_neighbours(sentences: OrderedSentences, column: TokenColumn, unk_token_id: int, place: str) -> Neighbours:
    """The rows of the task; a sentence without a known word is none, nobody's neighbour and no negative.

    Raises:
        InputError: no sentence has a neighbour; the message begins with `place`.
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
        raise InputError(f"{place}: no sentence has a neighbour with a known word")
    logger.info(
        "%s: %d of %d sentences have a neighbour; %d have no known word and are left out",
        place, len(chosen), len(known), (~known).sum(),
    )  # fmt: skip
    return Neighbours(chosen, before[chosen], after[chosen], np.flatnonzero(known))
