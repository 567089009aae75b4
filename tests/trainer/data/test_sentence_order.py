"""Which sentences are next to each other, against a loop over books."""

import re

import numpy as np
import pytest
from datasets import Dataset

from data_scripts.errors import InputError
from trainer.data.sentence_order import NONE, OrderedSentences, find_neighbors, order_sentences
from trainer.data.token_cache import TokenColumn

UNKNOWN = 1


def tokens(texts: list[list[int]]) -> TokenColumn:
    """Texts of token ids as a column."""
    ends = np.cumsum([0, *map(len, texts)])
    ids = np.array([token for text in texts for token in text], dtype=np.uint16)
    return TokenColumn(ids, ends, np.arange(len(texts)))


def books() -> tuple[list[dict], list[list[int]]]:
    """Rows in any order of books with gaps, and their words: some texts have none, or unknown ones only."""
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
    found = find_neighbors(sentences, tokens(texts), UNKNOWN, "books")
    known = {(row["book"], row["position"]): place for place, row in enumerate(rows) if set(texts[place]) - {UNKNOWN}}
    expected = []
    for place, row in enumerate(rows):
        if (row["book"], row["position"]) in known:
            around = [known.get((row["book"], row["position"] + step), NONE) for step in (-1, 1)]
            if around != [NONE, NONE]:
                expected.append((place, *around))
    assert list(zip(found.sentences, found.before, found.after, strict=True)) == expected
    assert sorted(known.values()) == found.others.tolist()
    # The sample has rows with two neighbors, with the one before and with the one after, and sentences with none.
    kinds = {(before != NONE, after != NONE) for _, before, after in expected}
    assert len(kinds) == 3 and len(found) == len(expected) < len(known) < len(rows)


def test_a_books_first_and_last_sentences_are_no_neighbors_of_another_books():
    rows = [{"book": book, "position": position, "sentence": "x"} for book in "ab" for position in (0, 1)]
    rows += [{"book": "c", "position": position, "sentence": "x"} for position in (2, 4)]
    found = find_neighbors(order_sentences(Dataset.from_list(rows), "books"), tokens([[5]] * 6), UNKNOWN, "books")
    assert found.sentences.tolist() == [0, 1, 2, 3]
    assert found.before.tolist() == [NONE, 0, NONE, 2] and found.after.tolist() == [1, NONE, 3, NONE]
    assert found.others.tolist() == list(range(6))  # those of c have no neighbor, and may be drawn


def test_a_sentence_of_unknown_words_parts_those_around_it():
    rows = [{"book": "a", "position": position, "sentence": "x"} for position in range(5)]
    texts = tokens([[5], [6], [UNKNOWN], [7], [8]])
    found = find_neighbors(order_sentences(Dataset.from_list(rows), "books"), texts, UNKNOWN, "books")
    assert list(zip(found.sentences, found.before, found.after, strict=True)) == [
        (0, NONE, 1), (1, 0, NONE), (3, NONE, 4), (4, 3, NONE),
    ]  # fmt: skip
    assert 2 not in found.others


def test_a_pair_is_a_document_of_two():
    pairs = Dataset.from_list([{"input": f"i{n}", "response": f"r{n}", "thread": "t"} for n in range(4)])
    sentences = order_sentences(pairs, "pairs")
    assert sentences.texts["text"][:] == ["i0", "i1", "i2", "i3", "r0", "r1", "r2", "r3"]
    found = find_neighbors(sentences, tokens([[5], [5], [UNKNOWN], [6], [7], [8], [9], []]), UNKNOWN, "pairs")
    # Of the third the input is unknown, of the last the response is empty.
    assert list(zip(found.sentences, found.before, found.after, strict=True)) == [
        (0, NONE, 4), (1, NONE, 5), (4, 0, NONE), (5, 1, NONE),
    ]  # fmt: skip
    assert found.others.tolist() == [0, 1, 3, 4, 5, 6]


def test_books_are_told_apart_whatever_the_order_of_rows_left():
    # What remove_leaked leaves is a selection: places are those of the selection.
    rows, texts = books()
    kept = np.flatnonzero(np.random.default_rng(1).random(len(rows)) < 0.7)
    selected = order_sentences(Dataset.from_list(rows).select(kept), "books")
    alone = order_sentences(Dataset.from_list([rows[place] for place in kept]), "books")
    column = tokens([texts[place] for place in kept])
    found, expected = (find_neighbors(each, column, UNKNOWN, "books") for each in (selected, alone))
    for name in ("sentences", "before", "after", "others"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_rows_that_are_neither_books_nor_pairs_are_refused_with_their_columns():
    rows = Dataset.from_list([{"book": "a", "sentence": "x"}])
    with pytest.raises(InputError, match=re.escape("documents/x: expected sentences in order (columns book, position")):
        order_sentences(rows, "documents/x")
    with pytest.raises(InputError, match=r"found book, sentence$"):
        order_sentences(rows, "documents/x")


def test_a_set_without_neighbors_is_refused():
    texts = Dataset.from_dict({"text": ["x", "y"]})
    apart = OrderedSentences(texts, np.array([0, 0]), np.array([0, 2]))
    with pytest.raises(InputError, match=r"^documents/x: no sentence has a neighbor with a known word$"):
        find_neighbors(apart, tokens([[5], [6]]), UNKNOWN, "documents/x")
