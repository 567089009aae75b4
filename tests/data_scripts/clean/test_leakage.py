import random
import string

import pytest
from datasets import Dataset

from data_scripts.clean import leakage
from data_scripts.clean.leakage import remove_leaked
from data_scripts.clean.text import normalize_text
from data_scripts.public.captions import load_captions, one_caption_a_row


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
def test_texts_that_differ_only_in_form_are_equal(one, other):
    assert normalize_text(one) == normalize_text(other)


def test_removed_rows_equal_those_of_a_brute_force_comparison():
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


def test_all_rows_of_a_group_are_removed_with_one_that_leaks(monkeypatch):
    monkeypatch.setattr(leakage, "BATCH", 2)  # rows of a group are in several tables
    rows = Dataset.from_dict({"group": list("abacb"), "caption": ["A dog.", "One.", "A cat.", "Two.", "Three."]})
    left, counts = remove_leaked(rows, ["caption"], {"dev": ["a cat"], "test": ["two", "A CAT"]}, "group")
    assert left["caption"] == ["One.", "Three."]
    assert counts == {"dev": 1, "test": 2, "removed": 3}


def test_an_evaluation_text_without_words_matches_nothing():
    rows = Dataset.from_dict({"input": ["", "?!", "words"]})
    kept, counts = remove_leaked(rows, ["input"], {"set": ["...", ""]})
    assert len(kept) == 3
    assert counts == {"set": 0, "removed": 0}


def test_removed_images_of_real_captions_equal_those_of_a_plain_reader(data_dir):
    images = load_captions(str(data_dir / "captions" / "multi30k"))["train"]
    texts = []
    for name in ("dev", "test"):
        for line in (data_dir / "stsb" / f"sts-{name}.csv").read_text(encoding="utf-8").split("\n")[:-1]:
            texts += line.split("\t")[5:7]
    captions = Dataset(one_caption_a_row(images.with_format("arrow")[:]))
    left, _ = remove_leaked(captions, ["caption"], {"stsb": texts}, "group")
    sentences = set(map(normalize_text, texts))
    expected = [row["group"] for row in images if not sentences & {normalize_text(text) for text in row["captions"]}]
    assert list(dict.fromkeys(left["group"])) == expected and len(images) - len(expected) == 504
