import random
import string

import pytest
from datasets import Dataset

from data_scripts.leakage import normalise, remove_leaked


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("A Man, is  riding!", "a man is riding"),
        ("It's raining", "it 's raining ."),
        ("ﬁne ｔｅｘｔ", "fine text"),
        ("STRASSE", "straße"),
        ("snake_case\tand\nlines", "snake case and lines"),
    ],
)
def test_texts_that_differ_in_form_only_are_equal(one, other):
    assert normalise(one) == normalise(other)


def test_texts_of_other_words_differ():
    assert normalise("a man is riding") != normalise("a man was riding")


def test_rows_dropped_are_those_of_a_brute_force_comparison():
    draw = random.Random(0)

    def sentence() -> str:
        words = (draw.choice(["a cat", "A dog", "the bird"]), draw.choice(["runs", "SLEEPS", "eats fish"]))
        return " ".join(words) + draw.choice([".", " !", "", "?!"])

    def plain(text: str) -> str:
        return "".join(letter for letter in text.lower() if letter not in string.punctuation).strip()

    rows = [{"input": sentence(), "response": sentence(), "source": str(number)} for number in range(300)]
    evaluation = {"one": ["A cat runs", "the bird eats fish."], "two": ["a dog sleeps", "a cat runs!"]}
    plain_sets = {name: list(map(plain, texts)) for name, texts in evaluation.items()}
    hits = [
        {name for name, texts in plain_sets.items() if plain(row["input"]) in texts or plain(row["response"]) in texts}
        for row in rows
    ]
    kept, counts = remove_leaked(Dataset.from_list(rows), ["input", "response"], evaluation)
    assert kept.to_list() == [row for row, hit in zip(rows, hits, strict=True) if not hit]
    assert counts == {
        "one": sum("one" in hit for hit in hits),
        "two": sum("two" in hit for hit in hits),
        "removed": sum(map(bool, hits)),
    }
    assert 0 < counts["removed"] < 300


def test_only_the_columns_named_are_looked_at():
    rows = Dataset.from_dict({"input": ["so it is"], "source": ["leaked"]})
    assert len(remove_leaked(rows, ["input"], {"set": ["leaked"]})[0]) == 1


def test_a_sentence_inside_a_longer_text_is_no_leak():
    rows = Dataset.from_dict({"input": ["they say a cat runs fast"]})
    assert len(remove_leaked(rows, ["input"], {"set": ["a cat runs"]})[0]) == 1


def test_an_evaluation_text_without_words_matches_nothing():
    rows = Dataset.from_dict({"input": ["", "?!", "words"]})
    kept, counts = remove_leaked(rows, ["input"], {"set": ["...", ""]})
    assert len(kept) == 3
    assert counts == {"set": 0, "removed": 0}
