"""Positive pairs, written out by hand, and neighboring sentences, against a loop over books."""

from collections import Counter

import numpy as np
import pytest
from datasets import Dataset

from modeling_convsim.files.errors import InputError
from trainer.data.examples import (
    NONE,
    PARTNERS,
    PositivePairs,
    caption_pairs,
    entailment_pairs,
    find_neighbors,
    order_sentences,
    paraphrase_pairs,
)
from trainer.data.token_cache import TokenColumn


def rows_of(pairs: PositivePairs) -> list[tuple[str, str, str | None]]:
    texts = pairs.texts["text"][:]
    return [
        (texts[first], texts[second], texts[negative] if negative >= 0 else None)
        for first, second, negative in zip(pairs.first, pairs.second, pairs.negative, strict=True)
    ]


def groups_of(pairs: PositivePairs, texts: str) -> list[int]:
    """The groups of some texts of one letter, numbered in the order of the texts."""
    index = {text: row for row, text in enumerate(pairs.texts["text"][:])}
    numbers: dict[int, int] = {}
    return [numbers.setdefault(int(pairs.groups[index[text]]), len(numbers)) for text in texts]


def paraphrases(*rows: tuple[str, str, float | None]) -> Dataset:
    sentence1, sentence2, score = zip(*rows, strict=True)
    return Dataset.from_dict({"sentence1": sentence1, "sentence2": sentence2, "score": score})


def nli(*rows: tuple[str, str, int]) -> Dataset:
    premise, hypothesis, label = zip(*rows, strict=True)
    return Dataset.from_dict({"premise": premise, "hypothesis": hypothesis, "label": label})


def test_a_caption_is_paired_only_with_captions_of_its_image():
    sizes = {"a": 1, "b": 2, "c": 3, "d": 7}
    images = [image for image, size in sizes.items() for _ in range(size)]
    shuffled = np.random.default_rng(0).permutation(len(images))
    captions = [f"{images[row]} {row}" for row in shuffled]
    pairs = caption_pairs(Dataset.from_dict({"group": [images[p] for p in shuffled], "caption": captions}), seed=1)
    seen: Counter[str] = Counter()
    for first, second, negative in rows_of(pairs):
        assert first[0] == second[0] and first != second and negative is None
        seen[first] += 1
    assert seen == {c: min(sizes[c[0]] - 1, PARTNERS) for c in captions if sizes[c[0]] > 1}
    assert len(set(pairs.groups[pairs.first].tolist())) == 3
    shared = {"group": ["i", "i", "k", "k", "l", "l"], "caption": ["a", "b", "b", "c", "d", "e"]}
    assert groups_of(caption_pairs(Dataset.from_dict(shared), seed=0), "abcde") == [0, 0, 0, 1, 1]


def test_partners_and_hard_negatives_are_chosen_with_the_seed_among_all():
    captions = Dataset.from_dict({"group": ["i"] * 5, "caption": list("abcde")})
    partners = [{(first, second) for first, second, _ in rows_of(caption_pairs(captions, seed))} for seed in range(30)]
    assert partners[0] == {(first, second) for first, second, _ in rows_of(caption_pairs(captions, 0))}
    assert set().union(*partners) == {(first, second) for first in "abcde" for second in "abcde" if first != second}
    first_side = paraphrases(("p", "e", 1.0), *(("p", text, 0.2) for text in "xyz"))
    second_side = paraphrases(("p", "e", 1.0), *((text, "p", 0.2) for text in "xyz"))
    contradictions = nli(("p", "e", 0), ("p", "n", 1), *(("p", text, 2) for text in "xyz"))
    for rows, pair in (
        (first_side, paraphrase_pairs), (second_side, paraphrase_pairs), (contradictions, entailment_pairs),
    ):  # fmt: skip
        chosen = [rows_of(pair(rows, seed)) for seed in range(30)]
        assert chosen[0] == rows_of(pair(rows, 0))
        assert {row for each in chosen for row in each} == {("p", "e", negative) for negative in "xyz"}


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([("a", "b", 1), ("b", "c", 1), ("d", "e", 1), ("d", "x", 0), ("f", "g", 0), ("h", "h", 1)],
         [("a", "b", None), ("b", "c", None), ("d", "e", "x")]),
        # A hard negative belongs to the first text of a pair.
        ([("a", "b", 1), ("b", "x", 0), ("c", "d", 1), ("y", "c", 0.5)], [("a", "b", None), ("c", "d", "y")]),
        # A pair without a score is a paraphrase; the highest score is that of paraphrases, unless it is zero.
        ([("a", "b", 4), ("c", "d", None), ("e", "f", 2)], [("a", "b", None), ("c", "d", None)]),
        ([("a", "b", None), ("c", "d", None)], [("a", "b", None), ("c", "d", None)]),
        ([("a", "b", 0), ("c", "d", 0)], []),
    ],
)  # fmt: skip
def test_paraphrases_have_the_highest_score_and_lower_ones_are_hard_negatives(rows, expected):
    assert rows_of(paraphrase_pairs(paraphrases(*rows), seed=0)) == expected


def test_an_entailed_hypothesis_is_the_positive_and_a_contradicting_one_the_hard_negative():
    pairs = entailment_pairs(
        nli(("p", "e", 0), ("p", "n", 1), ("p", "c", 2), ("p", "f", 0), ("q", "g", 0), ("g", "x", 2), ("r", "r", 0)), 0
    )
    assert rows_of(pairs) == [("p", "e", "c"), ("p", "f", "c"), ("q", "g", None)]
    assert groups_of(pairs, "pefqgcn") == [0, 0, 0, 1, 1, 2, 3]


def test_texts_that_are_linked_in_any_direction_are_one_group():
    # a -> b <- c and d -> b: no text is reached from every other by following the pairs' direction.
    rows = (("a", "b", 1), ("c", "b", 1), ("d", "b", 1), ("e", "f", 1))
    assert groups_of(paraphrase_pairs(paraphrases(*rows), seed=0), "abcdef") == [0, 0, 0, 0, 1, 1]
    rows = (("p", "e", 0), ("q", "e", 0), ("q", "p", 2), ("r", "q", 0), ("s", "t", 0), ("s", "e", 1), ("t", "s", 0))
    assert groups_of(entailment_pairs(nli(*rows), 0), "peqrst") == [0, 0, 0, 0, 1, 1]


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
    selected = Dataset.from_list(rows).select(order)  # as of `remove_leaked`
    sentences, *places = order_sentences(selected, "books")
    rows, texts = [rows[row] for row in order], [texts[row] for row in order]
    assert sentences["text"][:] == [row["sentence"] for row in rows]
    neighbors = find_neighbors(*places, tokens(texts), UNKNOWN, "books")
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
    sentences, *places = order_sentences(pairs, "pairs")
    assert sentences["text"][:] == ["i0", "i1", "i2", "i3", "r0", "r1", "r2", "r3"]
    neighbors = find_neighbors(*places, tokens([[5], [5], [UNKNOWN], [6], [7], [8], [9], []]), UNKNOWN, "pairs")
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
        find_neighbors(*order_sentences(apart, "documents/x")[1:], tokens([[5], [6]]), UNKNOWN, "documents/x")
