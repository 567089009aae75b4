from collections import Counter

import numpy as np
import pytest
from datasets import Dataset

from trainer.data.positive_pairs import (
    PARTNERS,
    PositivePairs,
    caption_pairs,
    entailment_pairs,
    paraphrase_pairs,
    scored_nli_pairs,
    scored_paraphrase_pairs,
)


def rows_of(similar: PositivePairs) -> list[tuple[str, str, str | None]]:
    texts = similar.texts["text"][:]
    return [
        (texts[first], texts[second], texts[negative] if negative >= 0 else None)
        for first, second, negative in zip(similar.first, similar.second, similar.negative, strict=True)
    ]


def groups_of(similar: PositivePairs, *texts: str) -> list[int]:
    """The groups of some texts, numbered in the order of the texts."""
    place = {text: index for index, text in enumerate(similar.texts["text"][:])}
    numbers: dict[int, int] = {}
    return [numbers.setdefault(int(similar.groups[place[text]]), len(numbers)) for text in texts]


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
    captions = [f"{images[place]} {place}" for place in shuffled]
    similar = caption_pairs(Dataset.from_dict({"group": [images[p] for p in shuffled], "caption": captions}), seed=1)
    seen: Counter[str] = Counter()
    for first, second, negative in rows_of(similar):
        assert first[0] == second[0] and first != second and negative is None
        seen[first] += 1
    assert seen == {c: min(sizes[c[0]] - 1, PARTNERS) for c in captions if sizes[c[0]] > 1}
    groups = similar.groups[similar.first].tolist()
    pairs = {(first[0], group) for (first, *_), group in zip(rows_of(similar), groups, strict=True)}
    assert len(pairs) == len(set(groups)) == 3


def test_partners_of_a_caption_are_chosen_with_the_seed_among_all_captions_of_its_image():
    captions = Dataset.from_dict({"group": ["i"] * 5, "caption": list("abcde")})
    partners = [{(first, second) for first, second, _ in rows_of(caption_pairs(captions, seed))} for seed in range(30)]
    assert partners[0] == {(first, second) for first, second, _ in rows_of(caption_pairs(captions, 0))}
    assert set().union(*partners) == {(first, second) for first in "abcde" for second in "abcde" if first != second}
    assert all(len(pairs) == 5 * 2 for pairs in partners)


@pytest.mark.parametrize("side", ["first", "second"])
def test_a_hard_negative_is_chosen_with_the_seed_among_all_of_a_text(side):
    pairs = [(text, "a") if side == "second" else ("a", text) for text in "xyz"]
    rated = paraphrases(("a", "b", 1.0), *((*pair, 0.2) for pair in pairs))
    chosen = [rows_of(paraphrase_pairs(rated, seed)) for seed in range(30)]
    assert chosen[0] == rows_of(paraphrase_pairs(rated, 0))
    assert {row for rows in chosen for row in rows} == {("a", "b", negative) for negative in "xyz"}


def test_a_contradicting_hypothesis_is_chosen_with_the_seed_among_all_of_a_premise():
    pairs = nli(("p", "e", 0), ("p", "n", 1), *(("p", text, 2) for text in "xyz"))
    chosen = [rows_of(entailment_pairs(pairs, seed)) for seed in range(30)]
    assert chosen[0] == rows_of(entailment_pairs(pairs, 0))
    assert {row for rows in chosen for row in rows} == {("p", "e", negative) for negative in "xyz"}


def test_hard_negatives_belong_to_the_first_text_of_a_pair_and_neutral_hypotheses_are_none():
    pairs = nli(("p", "e", 0), ("e", "c", 2), ("q", "f", 0), ("q", "n", 1), ("r", "r", 0))
    assert rows_of(entailment_pairs(pairs, 0)) == [("p", "e", None), ("q", "f", None)]
    rated = paraphrases(("a", "b", 1.0), ("b", "x", 0.0), ("c", "d", 1.0), ("y", "c", 0.5))
    assert rows_of(paraphrase_pairs(rated, 0)) == [("a", "b", None), ("c", "d", "y")]
    assert paraphrase_pairs(rated, 0).negative[0] == entailment_pairs(pairs, 0).negative[0] == -1


def test_a_link_in_either_direction_joins_the_groups():
    # a -> b <- c and d -> b: no text is reached from every other by following the pairs' direction.
    similar = paraphrase_pairs(paraphrases(("a", "b", 1), ("c", "b", 1), ("d", "b", 1), ("e", "f", 1)), seed=0)
    assert groups_of(similar, "a", "b", "c", "d", "e", "f") == [0, 0, 0, 0, 1, 1]


def test_a_pair_without_a_score_among_scored_pairs_is_a_paraphrase():
    similar = paraphrase_pairs(paraphrases(("a", "b", 4), ("c", "d", None), ("e", "f", 2)), seed=0)
    assert rows_of(similar) == [("a", "b", None), ("c", "d", None)]
    scored = scored_paraphrase_pairs(paraphrases(("a", "b", 4), ("c", "d", None), ("e", "f", 2)))
    assert scored is not None and scored.scores.tolist() == [1, 1, 0.5] and len(scored) == 3


def test_pairs_whose_scores_are_all_zero_are_no_paraphrases():
    rated = paraphrases(("a", "b", 0), ("c", "d", 0))
    assert len(paraphrase_pairs(rated, 0)) == 0 and scored_paraphrase_pairs(rated) is None


def test_connected_paraphrases_are_one_group_and_pairs_with_lower_scores_are_hard_negatives():
    similar = paraphrase_pairs(
        paraphrases(("a", "b", 1), ("b", "c", 1), ("d", "e", 1), ("d", "x", 0), ("f", "g", 0), ("h", "h", 1)), seed=0
    )
    assert rows_of(similar) == [("a", "b", None), ("b", "c", None), ("d", "e", "x")]
    assert groups_of(similar, "a", "b", "c", "d", "e", "x", "f") == [0, 0, 0, 1, 1, 2, 3]


def test_images_with_the_same_caption_are_one_group():
    captions = {"group": ["i", "i", "k", "k", "l", "l"], "caption": ["a", "b", "b", "c", "d", "e"]}
    similar = caption_pairs(Dataset.from_dict(captions), seed=0)
    assert groups_of(similar, "a", "b", "c", "d", "e") == [0, 0, 0, 1, 1]


def test_premises_that_entail_the_same_are_one_group():
    similar = entailment_pairs(
        nli(("p", "e", 0), ("q", "e", 0), ("q", "p", 2), ("r", "q", 0), ("s", "t", 0), ("s", "e", 1), ("t", "s", 0)), 0
    )
    assert groups_of(similar, "p", "e", "q", "r", "s", "t") == [0, 0, 0, 0, 1, 1]


def test_all_pairs_without_scores_are_paraphrases():
    assert len(paraphrase_pairs(paraphrases(("a", "b", None), ("c", "d", None)), seed=0)) == 2
    assert scored_paraphrase_pairs(paraphrases(("a", "b", None), ("c", "d", None))) is None


def test_an_entailed_hypothesis_is_the_positive_and_a_contradicting_one_the_hard_negative():
    similar = entailment_pairs(
        nli(("p", "e1", 0), ("p", "n", 1), ("p", "c", 2), ("p", "e2", 0), ("q", "e3", 0)), seed=0
    )
    assert rows_of(similar) == [("p", "e1", "c"), ("p", "e2", "c"), ("q", "e3", None)]
    assert groups_of(similar, "p", "e1", "e2", "q", "e3", "c", "n") == [0, 0, 0, 1, 1, 2, 3]


def test_scores_are_divided_by_the_highest():
    scored = scored_paraphrase_pairs(paraphrases(("a", "b", 5), ("a", "c", 2.5), ("d", "a", 0)))
    assert scored is not None and scored.scores.tolist() == [1, 0.5, 0]
    texts = scored.texts["text"][:]
    assert [(texts[i], texts[j]) for i, j in zip(scored.first, scored.second, strict=True)] == [
        ("a", "b"),
        ("a", "c"),
        ("d", "a"),
    ]


def test_inference_is_ranked_entailment_neutral_contradiction():
    scored = scored_nli_pairs(nli(("p", "e", 0), ("p", "n", 1), ("p", "c", 2)))
    assert scored is not None and scored.scores.tolist() == [1, 0.5, 0]
    assert scored_nli_pairs(nli(("p", "e", 0), ("q", "f", 0))) is None
