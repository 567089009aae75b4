"""Search: exact, and with faiss."""

import numpy as np
import pytest

from modeling_convsim.suggestion import search
from modeling_convsim.suggestion.search import build_faiss, exact_search, faiss_search


def test_exact_search_in_parts_agrees_with_a_full_sort(monkeypatch):
    monkeypatch.setattr("modeling_convsim.suggestion.search.CHUNK", 7)
    generator = np.random.default_rng(0)
    vectors, queries = generator.standard_normal((50, 6)), generator.standard_normal((4, 6)).astype(np.float32)
    scores, rows = exact_search(vectors, queries, 12)
    expected = np.argsort(-(queries @ vectors.T), axis=1)[:, :12]
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_allclose(scores, np.take_along_axis(queries @ vectors.T, expected, 1), rtol=1e-5)


def test_of_equal_scores_the_smaller_row_is_first(monkeypatch):
    monkeypatch.setattr("modeling_convsim.suggestion.search.CHUNK", 4)
    vectors, queries = np.ones((10, 3), np.float32), np.ones((1, 3), np.float32)
    vectors[6] *= 2
    scores, rows = exact_search(vectors, queries, 10)
    assert rows.tolist() == [[6, 0, 1, 2, 3, 4, 5, 7, 8, 9]] and scores.tolist() == [[6] + [3] * 9]


@pytest.mark.parametrize("dimensions", [24, 96])
def test_faiss_finds_the_best_vectors_and_their_exact_scores(dimensions, monkeypatch):
    """The mean of the vectors is far from zero, and the smallest components are not searched."""
    monkeypatch.setattr(search, "CHUNK", 700)
    generator = np.random.default_rng(0)
    scales = np.linspace(3, 0.1, dimensions)
    vectors = (generator.standard_normal((6000, dimensions)) * scales + 2 * generator.random(dimensions)).astype(
        np.float16
    )
    queries = generator.standard_normal((50, dimensions)).astype(np.float32)
    queries[::2] *= 1000
    scores, rows = faiss_search(build_faiss(vectors), vectors, queries, 10)
    products = queries.astype(np.float64) @ vectors.astype(np.float64).T
    np.testing.assert_allclose(scores, np.take_along_axis(products, rows, 1), rtol=1e-3, atol=1e-2)
    assert (np.diff(scores) <= 0).all()
    tenth = -np.sort(-products)[:, 9:10]
    assert (scores >= tenth - 1e-3 * np.abs(tenth)).mean() > 0.99


def test_faiss_returns_all_vectors_if_fewer_are_asked_for_than_candidates():
    vectors = np.random.default_rng(0).standard_normal((300, 4)).astype(np.float16)
    _, rows = faiss_search(build_faiss(vectors), vectors, vectors[:2].astype(np.float32), 300)
    assert [sorted(row) for row in rows.tolist()] == [[*range(300)]] * 2
    assert faiss_search(build_faiss(vectors), vectors, np.zeros((0, 4), np.float32), 3)[1].shape == (0, 3)
