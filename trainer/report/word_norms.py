"""Section 4.4 of Siamese CBOW (Kenter et al., 2016): norms and neighbors of word vectors."""

from collections.abc import Sequence
from functools import partial
from typing import Any, cast

import numpy as np
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

from modeling_convsim import ConvSimForMultitask
from modeling_convsim.encoding import Encoder
from trainer.report.labels import AVERAGES, NEIGHBORS
from trainer.report.measurements import Measurements
from trainer.report.page import Cell, Page
from trainer.report.systems import System

COMMON_WORDS = 1_000  # the most frequent words, whose norms are compared
CANDIDATE_WORDS = 20_000  # the most frequent words, among which neighbors are searched
LISTED_WORDS = 10


def write_word_norms(page: Page, measurements: Measurements, systems: Sequence[System], published: Any) -> None:
    """The norms of Siamese CBOW's words, and neighbors of words beside word2vec's; nothing without Siamese CBOW."""
    ours = next((each for each in systems if each.trained_on == NEIGHBORS and each.encoder == AVERAGES), None)
    if ours is None:
        return
    page.heading(3, "Section 4.4: norms and neighbors of words")
    _norms(page, measurements, ours, published)
    word2vec = [each for each in systems if each.method in ("skip_gram", "cbow") and each.sources == ours.sources]
    _neighbors(page, measurements, [ours, *word2vec], published)


def _norms(page: Page, measurements: Measurements, system: System, published: Any) -> None:
    norms = measurements.cached(system, "norms_of_words", lambda: _measure_norms(measurements.encoder(system)))
    page.text(f"Of the {COMMON_WORDS:,} most frequent words, `{system.name}`:")
    rows: list[list[Cell]] = [
        [kind, ", ".join(norms[kind]), ", ".join(published[f"{kind}_norms"])] for kind in ("smallest", "largest")
    ]
    values = {**norms, "paper_smallest": published["smallest_norms"]}
    page.table("norms", ["norm", "ours", "the paper"], rows, values)


def _measure_norms(encoder: Any) -> dict[str, Any]:
    """The words with the `smallest` and the `largest` norms, and the share of `stop_words` among all compared words."""
    words, vectors = word_vectors(encoder)
    common = [index for index, word in enumerate(words) if word.isalpha()][:COMMON_WORDS]
    order = np.argsort(np.linalg.norm(vectors[common], axis=1), kind="stable")
    by_norm = [words[common[index]] for index in order]
    stop_words = sum(word in ENGLISH_STOP_WORDS for word in by_norm) / len(by_norm)
    return {"smallest": by_norm[:LISTED_WORDS], "largest": by_norm[-LISTED_WORDS:], "stop_words": stop_words}


def _neighbors(page: Page, measurements: Measurements, systems: Sequence[System], published: Any) -> None:
    threshold = published["similarity_above"]
    rows: list[list[Cell]] = []
    values: dict[str, dict[str, list[str]]] = {}
    for word, published_neighbors in published["neighbors"].items():
        values[word] = {}
        for system in systems:
            measure = partial(_measure_neighbors, measurements, system, word, threshold)
            values[word][system.name] = neighbors = measurements.cached(system, f"near {word}", measure)
            rows.append([word, system.label, ", ".join(neighbors) or "none"])
        rows += [[word, f"the paper: {name}", ", ".join(words)] for name, words in published_neighbors.items()]
    page.text(f"The nearest words with a cosine above {threshold:g}, {LISTED_WORDS} at most:")
    page.table("neighbors", ["word", "system", "neighbors"], rows, values)


def _measure_neighbors(measurements: Measurements, system: System, word: str, threshold: float) -> list[str]:
    """The nearest words with their cosines, nearest first; none for a word without a vector."""
    words, vectors = word_vectors(measurements.encoder(system))  # type: ignore[arg-type]
    words, vectors = words[:CANDIDATE_WORDS], vectors[:CANDIDATE_WORDS]
    if word not in words:
        return []
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)  # (words, dimensions)
    cosines = unit @ unit[words.index(word)]  # (words,)
    order = [index for index in np.argsort(-cosines, kind="stable") if words[index] != word]
    near = [f"{words[index]} {cosines[index]:.2f}" for index in order if cosines[index] > threshold]
    return near[:LISTED_WORDS]


def word_vectors(encoder: Encoder) -> tuple[list[str], np.ndarray]:
    """An encoder's words in the order of their ids, most frequent first, and their vectors (words, dimensions).

    Special tokens and words without a vector are left out.
    """
    model = encoder.model.encoder if isinstance(encoder.model, ConvSimForMultitask) else encoder.model
    matrix = model.get_parameter("embed_tokens.weight").detach().float().numpy()
    special = set(encoder.tokenizer.all_special_ids)
    ids = [index for index in range(len(matrix)) if index not in special and matrix[index].any()]
    return cast(list[str], encoder.tokenizer.convert_ids_to_tokens(ids)), matrix[ids]
