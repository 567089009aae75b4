"""How many texts and candidates an index reads at a time, and the defaults of its calibration."""

from types import SimpleNamespace

import numpy as np
import pytest

from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex, search
from modeling_convsim.suggestion.search import Int8Vectors, quantize
from tests.modeling_convsim.suggestion.test_suggestion import QUERIES, make_texts
from tests.modeling_convsim.tiny_models import build


@pytest.fixture
def encoder(tiny_tokenizer):
    return Encoder(build("dan_input_network"), tiny_tokenizer)


def test_calibration_requires_a_precision_of_90_percent_among_100_candidates_by_default(encoder):
    texts = make_texts(60)
    index = ReplyIndex.build(encoder, texts, duplicate_cosine=1)
    seen = []
    index.encoder = SimpleNamespace(
        encode=lambda texts, side, **_: seen.append(side) or np.eye(60, 8)[: len(texts)] * 9
    )
    calibration = index.calibrate(texts[:8] * 3, texts[:8] * 3)
    assert (calibration.min_precision, calibration.candidates, calibration.pairs) == (0.9, 100, 24)
    assert index.calibration is calibration and seen == ["query", "response"]
    for inputs, candidates, message in (
        (1, 100, "1 inputs and 2 expected texts, expected the same"),
        (2, 1, "is 1, exp"),
    ):
        with pytest.raises(ValueError, match=message):
            index.calibrate(texts[:inputs], texts[:2], candidates=candidates)


def test_queries_are_searched_in_blocks(encoder, monkeypatch):
    many = ReplyIndex.build(encoder, make_texts(60), duplicate_cosine=1)
    monkeypatch.setattr("modeling_convsim.suggestion.reply_index.BLOCK", 3)
    sizes, encode = [], encoder.encode
    monkeypatch.setattr(
        encoder, "encode", lambda texts, *args, **named: sizes.append(len(texts)) or encode(texts, *args, **named)
    )
    expected = [[one.text for one in many.suggest(query, 2)] for query in QUERIES]
    sizes.clear()
    found = many.suggest_many(QUERIES, 2)
    assert [[one.text for one in suggestions] for suggestions in found] == expected and sizes == [3, 1]


def test_more_candidates_are_searched_only_if_duplicates_leave_too_few(encoder, monkeypatch):
    index = ReplyIndex.build(encoder, make_texts(300), duplicate_cosine=0.8)
    counts, search_all = [], index.search
    monkeypatch.setattr(index, "search", lambda queries, k: counts.append((len(queries), k)) or search_all(queries, k))
    index.duplicate_cosine = 1
    index.suggest_many(QUERIES, 2)
    assert counts == [(4, 8)]
    counts.clear()
    index.duplicate_cosine = 1e-9  # all are near-duplicates of the best
    index.suggest_many(QUERIES, 2)
    assert counts == [(4, 8), (4, 128)]
    counts.clear()
    assert index.suggest_many(QUERIES, 2, threshold=np.inf) == [[]] * 4  # more candidates score less
    assert counts == [(4, 8)]
    few = index.only(index.replies.texts[:8])
    monkeypatch.setattr(
        few, "search", lambda queries, k: counts.append((len(queries), k)) or type(few).search(few, queries, k)
    )
    assert [len(found) for found in few.suggest_many(QUERIES, 2)] == [1] * 4 and counts == [(4, 8)] * 2


@pytest.mark.parametrize("show", [True, False])
def test_a_large_index_is_quantized_once_with_a_progress_bar_on_request(encoder, monkeypatch, show):
    shown = []
    monkeypatch.setattr(search, "INT8_FROM", 20)
    monkeypatch.setattr(search, "tqdm", lambda steps, label, **options: shown.append((label, options)) or steps)
    ReplyIndex.build(encoder, make_texts(60), show_progress=show)
    assert shown == [("quantizing", {"delay": 1, "disable": not show})]


def test_the_int8_search_uses_the_threads_of_torch(monkeypatch):
    numbers, pool = [], search.single_threaded_pool
    monkeypatch.setattr(search, "single_threaded_pool", lambda threads: numbers.append(threads) or pool(threads))
    monkeypatch.setattr("torch.get_num_threads", lambda: 3)
    vectors = np.ones((5, 4), np.float32)
    Int8Vectors(quantize(vectors)).search(vectors, vectors[:1], 3)
    assert numbers == [3]


def test_a_zero_query_or_index_is_searched_in_int8_without_a_division_by_zero():
    vectors = np.random.default_rng(0).standard_normal((30, 4)).astype(np.float16)
    scores, rows = Int8Vectors(quantize(vectors)).search(vectors, np.zeros((1, 4), np.float32), 3)
    assert scores.tolist() == [[0, 0, 0]] and len(set(rows[0].tolist())) == 3
    zeros = np.zeros_like(vectors)
    assert Int8Vectors(quantize(zeros)).search(zeros, np.ones((1, 4), np.float32), 3)[0].tolist() == [[0, 0, 0]]


@pytest.mark.parametrize(
    ("compared", "candidates", "queries_at_a_time"),
    [(2048, 2**17, [7]), (500, 2**17, [1] * 7), (2048, 600, [2, 2, 2, 1]), (263, 2**17, [1] * 7)],
)
def test_the_int8_search_compares_the_exact_scores_of_the_8_k_plus_240_best_a_few_queries_at_a_time(
    compared, candidates, queries_at_a_time, monkeypatch
):
    monkeypatch.setattr(search, "RESCORED", compared)
    monkeypatch.setattr(search, "CANDIDATES", candidates)
    sizes, compare = [], search._compare
    monkeypatch.setattr(search, "_compare", lambda *arguments: sizes.append(arguments[2].shape) or compare(*arguments))
    vectors = np.random.default_rng(0).standard_normal((600, 4)).astype(np.float32)
    queries = np.random.default_rng(1).standard_normal((7, 4)).astype(np.float32)
    scores, rows = Int8Vectors(quantize(vectors)).search(vectors, queries, 3)
    assert sizes == [(number, 264) for number in queries_at_a_time]
    np.testing.assert_allclose(scores, np.take_along_axis(queries @ vectors.T, rows, 1), rtol=1e-5)
    assert Int8Vectors(quantize(vectors)).search(vectors, queries[:2], 3)[0].shape == (2, 3)


def test_the_int8_search_of_no_queries_returns_none(monkeypatch):
    monkeypatch.setattr(search, "CHUNK", 200)  # so that later chunks are compared with the best of the first
    vectors = np.random.default_rng(0).standard_normal((600, 4)).astype(np.float32)
    scores, rows = Int8Vectors(quantize(vectors)).search(vectors, np.zeros((0, 4), np.float32), 3)
    assert scores.shape == rows.shape == (0, 3)


def test_a_large_index_is_not_quantized_again_when_it_is_saved(encoder, monkeypatch, tmp_path):
    monkeypatch.setattr(search, "INT8_FROM", 20)
    index = ReplyIndex.build(encoder, make_texts(60))
    monkeypatch.delattr("modeling_convsim.suggestion.reply_index.quantize")
    index.save(tmp_path / "index")
    loaded = ReplyIndex.load(tmp_path / "index", encoder)
    assert loaded.suggest("hello") == index.suggest("hello")


def test_single_strings_are_refused_with_the_right_call(encoder):
    index = ReplyIndex.build(encoder, make_texts(5))
    with pytest.raises(TypeError, match=r"(?<!X)suggest_many\(\[text\]\)"):
        index.suggest_many("a text")
    with pytest.raises(TypeError, match=r"(?<!X)build\(encoder, \[text\], answers=\[answer\]\)"):
        ReplyIndex.build(encoder, ["a"], "input", "answer")
