import random

import pyarrow as pa
import pytest

from data_scripts.clean.near_duplicates import NearDuplicates, sample_long_texts, similarity

WORDS = "rain walked garden table seven under bright answer winter letters because finally someone paper".split()


def brute_force_similarity(one, other):
    """Jaccard, from counts of every 5-gram in either text."""
    both = {text[start : start + 5] for text in (one, other) for start in range(len(text) - 4)}
    return sum(gram in one and gram in other for gram in both) / len(both)


@pytest.fixture(scope="module")
def texts():
    """(sentences, variants of them with words replaced, inserted or swapped), most of them near the threshold."""
    draw = random.Random(0)
    sentences = [" ".join(draw.choices(WORDS, k=draw.randrange(3, 14))) for _ in range(80)]
    variants = []
    for sentence in sentences:
        words = sentence.split()
        for _ in range(draw.randrange(3)):
            words[draw.randrange(len(words))] = draw.choice(WORDS)
        words.insert(draw.randrange(len(words)), draw.choice(WORDS))
        variants.append(" ".join(words))
    return sentences, variants


def test_near_duplicates_equal_those_of_a_brute_force_comparison(texts):
    sentences, variants = texts
    expected = {}
    for row, variant in enumerate(variants):
        values = {sentence: brute_force_similarity(sentence, variant) for sentence in sentences}
        near = {s: v for s, v in values.items() if v >= 0.7 and len(s) > 20 and len(variant) > 20 and s != variant}
        if near:
            expected[row] = pytest.approx(near)
    assert dict(NearDuplicates(sentences).find(pa.array(variants))) == expected
    assert 10 < len(expected) < 70


def test_the_similarity_is_the_share_of_common_5_grams():
    assert similarity("abcdefgh", "abcdefgX") == pytest.approx(3 / 5)
    assert similarity("abcdefgh", "abcdefgh") == 1
    assert similarity("aaaaaaaa", "aaaaa") == 1  # sets: how often a 5-gram occurs does not matter


def test_texts_are_compared_in_their_normalized_form():
    near = NearDuplicates(["the parcel arrived on tuesday morning"])
    texts = ["The PARCEL, arrived on Tuesday -- morning!", "The parcel arrived on Tuesday MORNING, ok", None]
    [(index, found)] = near.find(pa.array(texts))  # the first is equal, hence no near-duplicate
    assert index == 1
    assert found == {"the parcel arrived on tuesday morning": pytest.approx(33 / 36)}


@pytest.mark.parametrize(("length", "expected"), [(20, 0), (21, 1)])
def test_a_text_of_at_most_20_characters_has_no_near_duplicates(length, expected):
    long = "we will be home at six o clock"
    sentence, text = long[:length], long[: length + 2].strip()
    for one, other in ((sentence, text), (text, sentence)):
        assert len(list(NearDuplicates([one]).find(pa.array([other])))) == expected


def test_a_sample_of_texts_does_not_depend_on_their_order():
    texts = [f"Sentence number {number}, which is long." for number in range(500)]
    sample = sample_long_texts([*texts, "Too short.", *texts], 50)
    assert sample_long_texts(reversed(texts), 50) == sample
    assert len(set(sample)) == 50 and all(text.startswith("sentence number ") for text in sample)
    numbers = sorted(int(text.split()[2]) for text in sample)
    assert numbers[0] < 50 and numbers[-1] > 450
    assert set(sample_long_texts(texts, 40)) < set(sample)
    assert len(sample_long_texts([*texts, *texts], 1_000)) == 500
