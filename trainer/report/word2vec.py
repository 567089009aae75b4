"""Word vectors by gensim, the papers' baselines: word2vec, fastText, PV-DBOW, and SIF weighting."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from data_scripts.files.errors import InputError

# Libraries that take seconds to import are imported in the functions that need them, so that `--help` is fast.
if TYPE_CHECKING:
    from gensim.models import Word2Vec
    from transformers import PreTrainedTokenizerFast

    from trainer.data.token_cache import TokenColumn

# Name -> class in `gensim.models`, and its settings.
METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "skip_gram": ("Word2Vec", {"sg": 1, "window": 5}),
    "cbow": ("Word2Vec", {"sg": 0, "window": 5}),
    "fasttext": ("FastText", {"sg": 1, "window": 5}),
    "pv_dbow": ("Doc2Vec", {"dm": 0, "dbow_words": 1, "window": 15}),
}
SETTINGS = {"hs": 0, "negative": 5, "sample": 1e-5}
SIF_SENTENCES = 50_000  # from which the common direction is computed


def train_gensim(
    method: str, texts: TokenColumn, tokenizer: PreTrainedTokenizerFast, *, size: int, min_count: int, epochs: int,
    seed: int,
) -> Word2Vec:  # fmt: skip
    """Train a gensim model.

    Args:
        method: one of `METHODS`.
        texts: the texts without unknown words.
        tokenizer: names the tokens.
        size: dimensions of a vector.
        min_count: a word with fewer occurrences has no vector.
        epochs: passes over the texts.
        seed: of the random numbers; gensim runs one thread, so that a seed always gives the same vectors.

    Raises:
        InputError: no word occurs often enough.
    """
    import gensim.models

    from trainer.data.word_vectors import fit

    class_name, settings = METHODS[method]
    model = getattr(gensim.models, class_name)(
        vector_size=size, min_count=min_count, epochs=epochs, seed=seed, workers=1, **SETTINGS, **settings
    )
    try:
        fit(model, [texts], tokenizer.convert_ids_to_tokens(list(range(len(tokenizer)))))
    except RuntimeError as error:  # gensim has no word to train
        raise InputError(f"no word occurs {min_count} times in the texts: lower --min_count") from error
    return model


def embedding_matrix(model: Word2Vec, tokenizer: PreTrainedTokenizerFast) -> np.ndarray:
    """gensim's vectors by token id, (tokens, size) float32; zeros for special tokens and words without a vector.

    fastText gives rare and unseen words a vector, from their character n-grams.
    """
    matrix = np.zeros((len(tokenizer), model.vector_size), dtype=np.float32)
    for word, row in tokenizer.get_vocab().items():
        if row not in (tokenizer.pad_token_id, tokenizer.unk_token_id) and word in model.wv:
            matrix[row] = model.wv.get_vector(word)
    return matrix


def sif_matrix(matrix: np.ndarray, texts: TokenColumn, known: TokenColumn) -> np.ndarray:
    """The embedding matrix whose averages are Arora et al.'s (2017, algorithm 1) sentence vectors.

    Both steps are linear in the words' vectors, so they can be applied to the matrix: each word's vector is weighted by
    a / (a + p(w)), and its projection on the first principal component (not centered) of the training sentences'
    averages is subtracted. Arora et al. compute that component on the sentences they evaluate; here it is fixed, and a
    sentence's vector depends on that sentence alone.

    Args:
        matrix: (tokens, size).
        texts: the training texts, for p(w).
        known: the same without unknown words; `SIF_SENTENCES` of them, evenly spaced, give the component.

    Returns:
        (tokens, size), with the type of `matrix`.
    """
    from scipy.sparse import csr_array

    from trainer.data.token_weights import sif_weights

    weighted = sif_weights([texts], len(matrix))[:, None] * matrix.astype(np.float64)
    rows = np.flatnonzero(np.diff(known.offsets))  # the texts with a known word
    if len(rows) > SIF_SENTENCES:
        rows = rows[np.arange(SIF_SENTENCES) * len(rows) // SIF_SENTENCES]
    ids, offsets = known.gather(rows)
    lengths = np.diff(offsets)
    shares = csr_array((np.repeat(1 / lengths, lengths), ids, offsets), shape=(len(rows), len(matrix)))
    averages = shares @ weighted  # (texts, size)
    component = np.linalg.eigh(averages.T @ averages).eigenvectors[:, -1]  # (size,)
    return (weighted - np.outer(weighted @ component, component)).astype(matrix.dtype)
