"""Neighboring sentences, against a loop over books."""

import numpy as np
import pytest
from datasets import Dataset

from data_scripts.files.errors import InputError
from trainer.data.sentence_order import NONE, find_neighbors, order_sentences
from trainer.data.token_cache import TokenColumn

UNKNOWN = 1


def tokens(texts: list[list[int]]) -> TokenColumn:
    """Return texts of token ids as a column."""
    ids = np.array([token for text in texts for token in text], dtype=np.uint16)
    return TokenColumn(ids, np.cumsum([0, *map(len, texts)]), np.arange(len(texts)))


def test_neighbors_of_books_with_gaps_against_a_loop():
    generator = np.random.default_rng(0)
    rows, texts = [], []  # some texts have no known words
    for book in ("a", "b", "c", "10", "9"):
        for position in sorted(generator.choice(60, generator.integers(2, 50), replace=False)):
            words = [[], [UNKNOWN], [UNKNOWN, UNKNOWN]] if generator.random() < 0.2 else [[5], [UNKNOWN, 6], [7, 8, 9]]
            rows.append({"book": book, "position": int(position), "sentence": f"{book} {position}"})
            texts.append(words[generator.integers(3)])
    order = generator.permutation(len(rows))[: len(rows) * 9 // 10]
    sentences = order_sentences(Dataset.from_list(rows).select(order), "books")  # a selection, as of `remove_leaked`
    rows, texts = [rows[row] for row in order], [texts[row] for row in order]
    assert sentences.texts["text"][:] == [row["sentence"] for row in rows]
    neighbors = find_neighbors(sentences, tokens(texts), UNKNOWN, "books")
    known = {(row["book"], row["position"]): index for index, row in enumerate(rows) if set(texts[index]) - {UNKNOWN}}
    expected = []
    for index, row in enumerate(rows):
        around = [known.get((row["book"], row["position"] + step), NONE) for step in (-1, 1)]
        if (row["book"], row["position"]) in known and around != [NONE, NONE]:
            expected.append((index, *around))
    assert list(zip(neighbors.sentences, neighbors.before, neighbors.after, strict=True)) == expected
    assert sorted(known.values()) == neighbors.others.tolist()
    # There are rows with two neighbors, with the one before and with the one after, and sentences with none.
    kinds = {(before != NONE, after != NONE) for _, before, after in expected}
    assert len(kinds) == 3 and len(neighbors) == len(expected) < len(known) < len(rows)


def test_a_pair_is_a_document_of_two_sentences():
    pairs = Dataset.from_list([{"input": f"i{n}", "response": f"r{n}", "thread": "t"} for n in range(4)])
    sentences = order_sentences(pairs, "pairs")
    assert sentences.texts["text"][:] == ["i0", "i1", "i2", "i3", "r0", "r1", "r2", "r3"]
    neighbors = find_neighbors(sentences, tokens([[5], [5], [UNKNOWN], [6], [7], [8], [9], []]), UNKNOWN, "pairs")
    # The third input is unknown, and the last response is empty.
    assert list(zip(neighbors.sentences, neighbors.before, neighbors.after, strict=True)) == [
        (0, NONE, 4), (1, NONE, 5), (4, 0, NONE), (5, 1, NONE),
    ]  # fmt: skip
    assert neighbors.others.tolist() == [0, 1, 3, 4, 5, 6]


def test_rows_that_have_no_order_or_no_neighbors_are_refused():
    with pytest.raises(InputError, match=r"documents/x: expected sentences in order .*found book, sentence$"):
        order_sentences(Dataset.from_list([{"book": "a", "sentence": "x"}]), "documents/x")
    apart = Dataset.from_list([{"book": "a", "position": position, "sentence": "x"} for position in (0, 2)])
    with pytest.raises(InputError, match=r"^documents/x: no sentence has a neighbor with a known word$"):
        find_neighbors(order_sentences(apart, "documents/x"), tokens([[5], [6]]), UNKNOWN, "documents/x")
