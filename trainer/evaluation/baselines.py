"""Word-overlap baselines, which rank the same responses as the encoders: BM25 and TF-IDF."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

ScoreTexts = Callable[[Sequence[str]], np.ndarray]  # texts -> float32 scores of all documents, (texts, documents)
TOKEN_PATTERN = r"(?u)\b\w+\b"


def bm25(documents: Sequence[str]) -> ScoreTexts:
    """BM25 (Lucene's, k1 1.5, b 0.75; no stop words, no stemming): the scores of documents, 0 if no word is shared."""
    index = _import_bm25s().BM25()
    index.index(_words(documents), show_progress=False)

    def score(texts: Sequence[str]) -> np.ndarray:
        scores = np.zeros((len(texts), len(documents)), dtype=np.float32)
        for row, words in zip(scores, _words(texts), strict=True):
            if words:  # bm25s rejects a query without words
                row[:] = index.get_scores(words)
        return scores

    return score


def tfidf(documents: Sequence[str]) -> ScoreTexts:
    """Cosine of TF-IDF vectors (sublinear term frequency); term statistics come from the documents."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(token_pattern=TOKEN_PATTERN, sublinear_tf=True, dtype=np.float32)
    document_vectors = vectorizer.fit_transform(documents)
    return lambda texts: (vectorizer.transform(texts) @ document_vectors.T).toarray()


def _words(texts: Sequence[str]) -> list[list[str]]:
    return _import_bm25s().tokenize(
        list(texts), token_pattern=TOKEN_PATTERN, stopwords=None, return_ids=False, show_progress=False
    )


def _import_bm25s() -> Any:
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)  # the import turns its debug messages on
    return bm25s


BASELINES = {"bm25": bm25, "tfidf": tfidf}
LABELS = {"bm25": "BM25", "tfidf": "TF-IDF"}  # for people
