"""Neighboring sentences, against a loop over books."""

import re

import numpy as np
import pytest
from datasets import Dataset

from data_scripts.errors import InputError
from trainer.data.sentence_order import NONE, OrderedSentences, find_neighbors, order_sentences
from trainer.data.token_cache import TokenColumn

UNKNOWN = 1


def tokens(texts: list[list[int]]) -> TokenColumn:
    """Return texts of token ids as a column."""
    ends = np.cumsum([0, *map(len, texts)])
    ids = np.array([token for text in texts for token in text], dtype=np.uint16)
    return TokenColumn(ids, ends, np.arange(len(texts)))


def books() -> tuple[list[dict], list[list[int]]]:
    """Return shuffled rows of books with gaps, and their words: some texts have no known words."""
    generator = np.random.default_rng(0)
    rows, texts = [], []
    for book in ("a", "b", "c", "10", "9"):
        for position in sorted(generator.choice(60, generator.integers(2, 50), replace=False)):
            words = [[], [UNKNOWN], [UNKNOWN, UNKNOWN]] if generator.random() < 0.2 else [[5], [UNKNOWN, 6], [7, 8, 9]]
            rows.append({"book": book, "position": int(position), "sentence": f"{book} {position}"})
            texts.append(words[generator.integers(3)])
    order = generator.permutation(len(rows))
    return [rows[place] for place in order], [texts[place] for place in order]


def test_neighbors_of_books_with_gaps_against_a_loop():
    rows, texts = books()
    sentences = order_sentences(Dataset.from_list(rows), "books")
    assert sentences.texts["text"][:] == [row["sentence"] for row in rows]
    neighbors = find_neighbors(sentences, tokens(texts), UNKNOWN, "books")
    known = {(row["book"], row["position"]): place for place, row in enumerate(rows) if set(texts[place]) - {UNKNOWN}}
    expected = []
    for place, row in enumerate(rows):
        if (row["book"], row["position"]) in known:
            around = [known.get((row["book"], row["position"] + step), NONE) for step in (-1, 1)]
            if around != [NONE, NONE]:
                expected.append((place, *around))
    assert list(zip(neighbors.sentences, neighbors.before, neighbors.after, strict=True)) == expected
    assert sorted(known.values()) == neighbors.others.tolist()
    # The sample has rows with two neighbors, with the one before and with the one after, and sentences with none.
    kinds = {(before != NONE, after != NONE) for _, before, after in expected}
    assert len(kinds) == 3 and len(neighbors) == len(expected) < len(known) < len(rows)


def test_sentences_of_different_books_are_not_neighbors():
    rows = [{"book": book, "position": position, "sentence": "x"} for book in "ab" for position in (0, 1)]
    rows += [{"book": "c", "position": position, "sentence": "x"} for position in (2, 4)]
    neighbors = find_neighbors(order_sentences(Dataset.from_list(rows), "books"), tokens([[5]] * 6), UNKNOWN, "books")
    assert neighbors.sentences.tolist() == [0, 1, 2, 3]
    assert neighbors.before.tolist() == [NONE, 0, NONE, 2] and neighbors.after.tolist() == [1, NONE, 3, NONE]
    assert neighbors.others.tolist() == list(range(6))  # the sentences of c have no neighbor, but may be negatives


def test_a_sentence_of_unknown_words_separates_its_neighbors():
    rows = [{"book": "a", "position": position, "sentence": "x"} for position in range(5)]
    texts = tokens([[5], [6], [UNKNOWN], [7], [8]])
    neighbors = find_neighbors(order_sentences(Dataset.from_list(rows), "books"), texts, UNKNOWN, "books")
    assert list(zip(neighbors.sentences, neighbors.before, neighbors.after, strict=True)) == [
        (0, NONE, 1), (1, 0, NONE), (3, NONE, 4), (4, 3, NONE),
    ]  # fmt: skip
    assert 2 not in neighbors.others


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


def test_neighbors_are_found_in_a_selection_of_rows():
    # `remove_leaked` returns a selection of rows; indices are those of the selection.
    rows, texts = books()
    indices = np.flatnonzero(np.random.default_rng(1).random(len(rows)) < 0.7)
    selected = order_sentences(Dataset.from_list(rows).select(indices), "books")
    alone = order_sentences(Dataset.from_list([rows[index] for index in indices]), "books")
    column = tokens([texts[index] for index in indices])
    neighbors, expected = (find_neighbors(each, column, UNKNOWN, "books") for each in (selected, alone))
    for name in ("sentences", "before", "after", "others"):
        np.testing.assert_array_equal(getattr(neighbors, name), getattr(expected, name))


def test_rows_with_other_columns_are_refused():
    rows = Dataset.from_list([{"book": "a", "sentence": "x"}])
    with pytest.raises(InputError, match=re.escape("documents/x: expected sentences in order (columns book, position")):
        order_sentences(rows, "documents/x")
    with pytest.raises(InputError, match=r"found book, sentence$"):
        order_sentences(rows, "documents/x")


def test_a_dataset_without_neighbors_is_refused():
    texts = Dataset.from_dict({"text": ["x", "y"]})
    apart = OrderedSentences(texts, np.array([0, 0]), np.array([0, 2]))
    with pytest.raises(InputError, match=r"^documents/x: no sentence has a neighbor with a known word$"):
        find_neighbors(apart, tokens([[5], [6]]), UNKNOWN, "documents/x")
