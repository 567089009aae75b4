"""Word-overlap baselines, which rank the same candidates as the encoders: BM25 and TF-IDF."""

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np
from tqdm import tqdm

TOKEN_PATTERN = r"(?u)\b\w+\b"


def bm25_scores(queries: Sequence[str], documents: Sequence[str], candidates: np.ndarray) -> np.ndarray:
    """BM25 (Lucene's, k1 1.5, b 0.75; no stop words, no stemming) over `documents`.

    Args:
        queries: the text of each query.
        documents: the texts to rank; term statistics come from these.
        candidates: (queries, k) positions in `documents`.

    Returns:
        Scores (queries, k), float32, 0 if no word is shared.
    """
    index = _import_bm25s().BM25()
    index.index(_words(documents), show_progress=False)
    scores = np.zeros(candidates.shape, dtype=np.float32)
    for row, words in enumerate(tqdm(_words(queries), desc="BM25", unit=" queries", leave=False, delay=1)):
        if words:  # bm25s rejects a query without words
            scores[row] = index.get_scores(words)[candidates[row]]
    return scores


def tfidf_scores(queries: Sequence[str], documents: Sequence[str], candidates: np.ndarray) -> np.ndarray:
    """Cosine of TF-IDF vectors (sublinear term frequency); arguments and result as of `bm25_scores`."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(token_pattern=TOKEN_PATTERN, sublinear_tf=True, dtype=np.float32)
    document_vectors = vectorizer.fit_transform(documents)
    query_vectors = vectorizer.transform(queries)
    scores = np.empty(candidates.shape, dtype=np.float32)
    for row in tqdm(range(len(scores)), desc="TF-IDF", unit=" queries", leave=False, delay=1):
        scores[row] = (document_vectors[candidates[row]] @ query_vectors[row].T).toarray()[:, 0]
    return scores


def _words(texts: Sequence[str]) -> list[list[str]]:
    return _import_bm25s().tokenize(
        list(texts), token_pattern=TOKEN_PATTERN, stopwords=None, return_ids=False, show_progress=False
    )


def _import_bm25s() -> Any:
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)  # the import turns its debug messages on
    return bm25s


BASELINES = {"bm25": bm25_scores, "tfidf": tfidf_scores}
LABELS = {"bm25": "BM25", "tfidf": "TF-IDF"}  # for people
