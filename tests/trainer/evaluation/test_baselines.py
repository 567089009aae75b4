"""BM25 and TF-IDF against their formulas in float64, written out."""

import math
import re
from collections import Counter

import numpy as np
import pytest

from trainer.evaluation.baselines import BASELINES

DOCUMENTS = [
    "The cat sleeps on the red mat.",
    "A dog barks, and a dog runs after the cat!",
    "Is it going to rain tomorrow?",
    "rain rain rain",
    "?!",
    "I like it.",
]
QUERIES = ["Does the cat sleep, or does the dog?", "rain, rain: go away", "nothing shared whatsoever", "…", "I"]


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def bm25(query: str, document: str, k1: float = 1.5, b: float = 0.75) -> float:
    """sum over query words of ln(1 + (N - df + 1/2) / (df + 1/2)) tf / (tf + k1 (1 - b + b |d| / mean |d|))."""
    counts = Counter(words(document))
    mean_length = sum(len(words(other)) for other in DOCUMENTS) / len(DOCUMENTS)
    norm = k1 * (1 - b + b * len(words(document)) / mean_length)
    total = 0.0
    for word in words(query):
        frequency = sum(word in words(other) for other in DOCUMENTS)
        idf = math.log(1 + (len(DOCUMENTS) - frequency + 0.5) / (frequency + 0.5))
        total += idf * counts[word] / (counts[word] + norm)
    return total


def tfidf_vector(text: str) -> np.ndarray:
    """(1 + ln tf) (ln((1 + N) / (1 + df)) + 1) for each word of the documents, L2-normalized."""
    documents = [words(document) for document in DOCUMENTS]
    counts = Counter(words(text))
    vector = np.zeros(len(vocabulary := sorted({word for document in documents for word in document})))
    for column, word in enumerate(vocabulary):
        if counts[word]:
            frequency = sum(word in document for document in documents)
            vector[column] = (1 + np.log(counts[word])) * (np.log((1 + len(documents)) / (1 + frequency)) + 1)
    return vector / (np.linalg.norm(vector) or 1)


def tfidf(query: str, document: str) -> float:
    return float(tfidf_vector(query) @ tfidf_vector(document))


@pytest.mark.parametrize(("name", "formula"), [("bm25", bm25), ("tfidf", tfidf)])
def test_scores_equal_the_formula(name, formula) -> None:  # type: ignore[no-untyped-def]
    expected = [[formula(query, document) for document in DOCUMENTS] for query in QUERIES]
    assert np.count_nonzero(expected) == 5
    found = BASELINES[name](DOCUMENTS)(QUERIES)
    assert found == pytest.approx(np.array(expected), abs=1e-6) and found.dtype == np.float32


@pytest.mark.parametrize("name", BASELINES)
def test_documents_with_the_same_words_tie_exactly(name: str) -> None:
    documents = ["the cat eats", "eats the cat?", "a dog"]
    scores = BASELINES[name](documents)(["what eats the cat"])[0]
    assert scores[0] == scores[1] > scores[2] == 0
