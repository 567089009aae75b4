import io
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet

from modeling_convsim.encoding import Encoder
from modeling_convsim.encoding.hardware import has_int8_products
from modeling_convsim.suggestion import ReplyIndex, reply_index, search
from modeling_convsim.suggestion.__main__ import main
from modeling_convsim.suggestion.calibration import (
    MIN_SUGGESTIONS,
    best_of_sample,
    choose_threshold,
    tabulate_thresholds,
)
from modeling_convsim.suggestion.deduplication import (
    canonical_form,
    deduplicate,
    drop_near_duplicates,
    select_diverse,
)
from modeling_convsim.suggestion.search import Int8Vectors, exact_search, quantize
from tests.conftest import WORDS
from tests.modeling_convsim.tiny_models import build

REPLIES = ["Yes, please!", "yes please", "yes please", "no", "No.", "I like the dog", "a big house", "see you tomorrow"]
QUERIES = ["How old are you?", "do you like the dog", "where is the cat", "thanks"]


@pytest.fixture(scope="module")
def folder(tiny_tokenizer, tmp_path_factory):
    return save_model("dan_input_network", tiny_tokenizer, tmp_path_factory.mktemp("model"))


def save_model(kind: str, tokenizer, path: Path) -> Path:
    build(kind).save_pretrained(path)
    tokenizer.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def encoder(folder):
    return Encoder.from_pretrained(folder, "cpu")


def make_texts(count: int, seed: int = 0) -> list[str]:
    """Makes distinct texts of known words."""
    generator = np.random.default_rng(seed)
    words = [word for word in WORDS if word.isalpha()]
    return list(dict.fromkeys(" ".join(generator.choice(words, 5)) for _ in range(count)))


@pytest.fixture(scope="module")
def many(encoder):
    """An index of many replies, without near-duplicate removal."""
    return ReplyIndex.build(encoder, make_texts(500), duplicate_cosine=1)


def brute_force_best(encoder: Encoder, replies: list[str], query: str, k: int) -> list[tuple[str, float]]:
    """The k best replies and their scores u' . v', in float64."""
    u = encoder.encode([query], side="query")[0].astype(np.float64)
    v = encoder.encode(replies, side="response").astype(np.float64)
    return sorted(((text, float(u @ row)) for text, row in zip(replies, v, strict=True)), key=lambda p: -p[1])[:k]


def test_suggestions_agree_with_a_brute_force_search_in_float64(encoder, many):
    replies = many.replies.texts
    for query, suggestions in zip(QUERIES, many.suggest_many(QUERIES, 5), strict=True):
        expected = brute_force_best(encoder, replies, query, 5)
        np.testing.assert_allclose([one.score for one in suggestions], [score for _, score in expected], rtol=2e-3)
        assert suggestions[0].text == expected[0][0]
    assert many.suggest(QUERIES[0], 5) == many.suggest_many(QUERIES[:1], 5)[0]


def test_questions_are_found_by_the_cosine_of_sentence_embeddings(encoder):
    texts = make_texts(50)
    index = ReplyIndex.build(encoder, texts, "input", [f"answer to {text}" for text in texts], duplicate_cosine=1)
    [best] = index.suggest(texts[7], 1)
    assert (best.text, best.answer) == (texts[7], f"answer to {texts[7]}")
    u, v = encoder.encode(["the dog", texts[7]]).astype(np.float64)
    assert best.score == pytest.approx(1, abs=2e-3)
    [score] = [one.score for one in index.suggest("the dog", 50) if one.text == texts[7]]
    assert score == pytest.approx(u @ v, abs=2e-3)


def test_exact_search_in_parts_agrees_with_a_full_sort(monkeypatch):
    monkeypatch.setattr("modeling_convsim.suggestion.search.CHUNK", 7)
    generator = np.random.default_rng(0)
    vectors, queries = generator.standard_normal((50, 6)), generator.standard_normal((4, 6)).astype(np.float32)
    scores, rows = exact_search(vectors, queries, 12)
    expected = np.argsort(-(queries @ vectors.T), axis=1)[:, :12]
    np.testing.assert_array_equal(rows, expected)
    np.testing.assert_allclose(scores, np.take_along_axis(queries @ vectors.T, expected, 1), rtol=1e-5)


@pytest.fixture(params=["torch", "numkong"])
def int8_kernel(request, monkeypatch):
    """The library that multiplies int8, whatever the processor; torch by an exact product in float64."""
    monkeypatch.setattr("modeling_convsim.suggestion.search.has_int8_products", lambda: request.param == "torch")
    if not has_int8_products():
        monkeypatch.setattr("torch._int_mm", lambda left, right: (left.double() @ right.double()).int())
    return request.param


@pytest.mark.parametrize("norms", [(1, 1), (0.5, 2)])
@pytest.mark.parametrize(("chunk", "queries_at_a_time"), [(256, 40), (1024, 128), (2**13, 128), (2**13, 1)])
def test_int8_search_returns_the_best_vectors_and_their_exact_scores(
    norms, chunk, queries_at_a_time, int8_kernel, monkeypatch
):
    monkeypatch.setattr("modeling_convsim.suggestion.search.CHUNK", chunk)
    monkeypatch.setattr("modeling_convsim.suggestion.search.QUERIES", queries_at_a_time)
    generator = np.random.default_rng(0)
    vectors = generator.standard_normal((3000, 24))
    vectors *= generator.uniform(*norms, (3000, 1)) / np.linalg.norm(vectors, axis=1, keepdims=True)
    vectors, queries = vectors.astype(np.float16), generator.standard_normal((100, 24)).astype(np.float32)
    scores, rows = Int8Vectors(quantize(vectors)).search(vectors, queries, 10)
    products = queries.astype(np.float64) @ vectors.astype(np.float64).T
    np.testing.assert_array_equal(np.sort(rows), np.sort(np.argsort(-products)[:, :10]))
    np.testing.assert_allclose(scores, np.take_along_axis(products, rows, 1), rtol=1e-4)
    queries[::2] *= 1000  # the scale of one query does not matter to another, nor to itself
    queries[1::2] /= 1000
    np.testing.assert_array_equal(Int8Vectors(quantize(vectors)).search(vectors, queries, 10)[1], rows)
    few = Int8Vectors(quantize(vectors[:5])).search(vectors[:5], queries[:1], 5)
    np.testing.assert_array_equal(few[1], exact_search(vectors[:5], queries[:1], 5)[1])


@pytest.mark.parametrize(("queries", "calls"), [(60, [(60, 1), (60, 2)]), (130, [(65, 3)] * 2), (300, [(75, 3)] * 4)])
def test_threads_search_a_share_of_the_vectors_or_all_of_them_for_queries_of_their_own(queries, calls, monkeypatch):
    monkeypatch.setattr("modeling_convsim.suggestion.search.CHUNK", 1024)
    generator = np.random.default_rng(0)
    vectors = generator.standard_normal((3000, 24)).astype(np.float32)
    asked = generator.standard_normal((queries, 24)).astype(np.float32)
    called, find_best = [], Int8Vectors._find_best
    monkeypatch.setattr(
        Int8Vectors,
        "_find_best",
        lambda *arguments, **names: (
            called.append((len(arguments[1]), len(arguments[2]))) or find_best(*arguments, **names)
        ),
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        scores, rows = Int8Vectors(quantize(vectors)).search(vectors, asked, 10)
    finally:
        torch.set_num_threads(threads)
    assert sorted(called) == calls  # queries and chunks
    np.testing.assert_array_equal(rows, exact_search(vectors, asked, 10)[1])
    np.testing.assert_allclose(scores, np.take_along_axis(asked @ vectors.T, rows, 1), rtol=1e-4)


def test_quantization_keeps_principal_components_within_half_a_step():
    scales = np.repeat([9, 0.5], 64)
    vectors = (np.random.default_rng(0).standard_normal((500, 128)) * scales + 3).astype(np.float16)
    components, projection = quantize(vectors)
    assert components.dtype == np.int8
    assert projection.shape == (128, 64)  # which have over 99 % of the variance
    np.testing.assert_allclose(projection.T @ projection, np.eye(64), atol=1e-5)
    centered = vectors.astype(np.float64) - vectors.astype(np.float64).mean(axis=0)
    _, _, right = np.linalg.svd(centered, full_matrices=False)
    np.testing.assert_allclose(np.abs(projection.T @ right[:64].T), np.eye(64), atol=1e-3)
    expected = centered @ projection
    step = np.abs(expected).max() / 127
    assert np.abs(components * step - expected).max() <= step * 0.501
    assert not quantize(np.zeros((2, 3), np.float16)).components.any()


def test_quantization_takes_the_fewest_components_that_explain_the_variance():
    vectors = np.zeros((2000, 1000), np.float16)
    vectors[np.arange(2000), np.arange(2000) % 1000] = 30  # about the same variance in all directions
    assert quantize(vectors).projection.shape == (1000, 832)  # 78 % of 1000, as a multiple of 64
    assert quantize(vectors[:, :30]).projection.shape == (30, 30)


def test_int8_search_scores_exactly_what_search_without_the_small_components_misses():
    """Queries that differ from the vectors in what is left out find candidates by the rest."""
    generator = np.random.default_rng(0)
    vectors = (generator.standard_normal((4000, 128)) * np.repeat([1, 0.2], 64)).astype(np.float16)
    queries = generator.standard_normal((50, 128)).astype(np.float32)
    quantized = quantize(vectors)
    assert quantized.projection.shape == (128, 64)
    scores, rows = Int8Vectors(quantized).search(vectors, queries, 10)
    best = np.sort(queries @ vectors.astype(np.float32).T)[:, -10:]
    np.testing.assert_allclose(scores, np.take_along_axis(queries @ vectors.astype(np.float32).T, rows, 1), rtol=1e-4)
    assert (scores[:, ::-1] >= best - 1e-3).mean() > 0.99


@pytest.mark.parametrize("order", ["ascending", "descending"])
@pytest.mark.parametrize("chunk", [64, 512])
def test_int8_search_finds_the_best_vectors_in_any_order_of_many_chunks(order, chunk, int8_kernel, monkeypatch):
    monkeypatch.setattr("modeling_convsim.suggestion.search.CHUNK", chunk)
    values = np.linspace(-1, 1, 2000)[:, None]
    vectors = np.hstack([values, 1 - np.abs(values)]).astype(np.float32)[:: 1 if order == "ascending" else -1].copy()
    queries = np.array([[1, 0], [-1, 0], [0.5, 1]], np.float32)
    scores, rows = Int8Vectors(quantize(vectors)).search(vectors, queries, 40)
    np.testing.assert_allclose(scores, exact_search(vectors, queries, 40)[0], rtol=1e-6)
    np.testing.assert_allclose(scores, np.take_along_axis(queries @ vectors.T, rows, 1), rtol=1e-6)


@pytest.mark.parametrize(
    ("a", "b", "are_equal"),
    [
        ("Thanks!", "thanks", True),
        ("Straße", "STRASSE", True),
        ("Don't  worry", "don’t worry.", True),
        ("Well-known…", "well known", True),
        ("OK", "ｏｋ", True),
        ("It costs 5%", "It costs 5", False),
        ("C++", "C", False),
        ("-1", "1", False),
        ("👍", "👎", False),
        (":)", "?!", False),
    ],
)
def test_canonical_form_ignores_case_punctuation_and_white_space(a, b, are_equal):
    assert (canonical_form(a) == canonical_form(b)) is are_equal


def test_variants_are_merged_into_the_most_frequent_one_with_the_total_count():
    replies = deduplicate([*REPLIES, " ", ""])
    assert replies.texts == ["yes please", "no", "I like the dog", "a big house", "see you tomorrow"]
    assert replies.counts.tolist() == [3, 2, 1, 1, 1]
    assert deduplicate(["A?", "b", "a", "a"], ["1", "2", "3", "4"]).companions == ["3", "2"]


def test_a_suggestion_has_the_number_of_its_occurrences(encoder):
    index = ReplyIndex.build(encoder, REPLIES, duplicate_cosine=1)
    counts = {"yes please": 3, "no": 2, "I like the dog": 1, "a big house": 1, "see you tomorrow": 1}
    assert {one.text: one.count for one in index.suggest(QUERIES[0], 5)} == counts
    assert {one.text: one.count for one in index.only(["NO", "a big house"]).suggest(QUERIES[0], 5)} == {
        "no": 2, "a big house": 1,
    }  # fmt: skip


@pytest.mark.parametrize("side", ["response", "input"])
def test_near_duplicates_are_not_suggested_together(encoder, side):
    texts = make_texts(300)
    index = ReplyIndex.build(encoder, texts, side, duplicate_cosine=0.8)
    vectors = encoder.encode(texts)
    for query in QUERIES:
        remaining: list[np.ndarray] = []
        expected = []
        best = brute_force_best(encoder, texts, query, 64 * 4)
        if side == "input":
            order = np.argsort(-(vectors @ encoder.encode([query])[0]), kind="stable")[: 64 * 4]
            best = [(texts[row], 0.0) for row in order]
        for text, _ in best:
            vector = encoder.encode([text])[0].astype(np.float64)
            if all(vector @ other < 0.8 for other in remaining) and len(remaining) < 4:
                remaining.append(vector)
                expected.append(text)
        assert [one.text for one in index.suggest(query, 4)] == expected


def test_only_allowed_replies_are_suggested(many, encoder):
    allowed = many.replies.texts[10:20]
    suggestions = many.only([allowed[0].upper() + "!", *allowed]).suggest(QUERIES[0], 20)
    assert [one.text for one in suggestions] == [text for text, _ in brute_force_best(encoder, allowed, QUERIES[0], 20)]
    small = ReplyIndex.build(encoder, allowed, duplicate_cosine=0.7)
    small.calibration = choose_threshold(np.ones(20), np.ones(20, bool), 1, None)
    restricted = small.only(allowed[:3])
    assert (restricted.calibration, restricted.duplicate_cosine) == (small.calibration, 0.7)
    with pytest.raises(ValueError, match=r"not in the index: 'zebra 0', .*'zebra 4' and 2 more"):
        many.only([allowed[0], *(f"zebra {number}" for number in range(7))])
    with pytest.raises(
        ValueError, match=r"^not in the index: 'zebra 0', 'zebra 1', 'zebra 2', 'zebra 3', 'zebra 4'; remove"
    ):
        many.only(f"zebra {number}" for number in range(5))
    with pytest.raises(ValueError, match="list of allowed replies is empty"):
        many.only([])


def test_threshold_is_the_lowest_with_the_required_precision():
    generator = np.random.default_rng(0)
    scores = np.round(generator.standard_normal(500), 1).astype(np.float32)
    right = generator.random(500) < 1 / (1 + np.exp(-2 * scores))
    for required in (0.6, 0.75, 0.9):
        calibration = choose_threshold(scores, right, required, 100)
        precise = []
        for threshold in sorted(set(scores.tolist())):
            suggested = [bool(ok) for score, ok in zip(scores.tolist(), right, strict=True) if score >= threshold]
            if len(suggested) >= 20 and sum(suggested) / len(suggested) >= required:
                precise.append((threshold, sum(suggested) / len(suggested), len(suggested) / 500))
        lowest, precision, coverage = precise[0]
        assert (scores >= calibration.threshold).sum() == (scores >= np.float32(lowest)).sum()
        assert (calibration.precision, calibration.coverage) == pytest.approx((precision, coverage))
        assert (calibration.min_precision, calibration.candidates, calibration.pairs) == (required, 100, 500)
    right[scores.argmax()] = False
    reached = [scores >= threshold for threshold in set(scores.tolist())]
    highest = max(right[part].mean() for part in reached if part.sum() >= 20)
    message = rf"no threshold has precision 1 on 500 pairs: the highest, with 20 suggestions or more, is {highest:.3f}$"
    with pytest.raises(ValueError, match=message):
        choose_threshold(scores, right, 1, 100)
    with pytest.raises(ValueError, match="19 held-out pairs, expected 20 or more"):
        choose_threshold(scores[:19], right[:19], 0.5, 100)


def test_a_row_of_the_table_is_the_last_threshold_within_a_coverage():
    generator = np.random.default_rng(0)
    scores = np.round(generator.standard_normal(2500), 2).astype(np.float32)
    right = generator.random(2500) < 1 / (1 + np.exp(-2 * scores))
    rows = []
    for coverage in (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1):
        reached = [scores >= score for score in np.unique(scores)]
        within = [part for part in reached if MIN_SUGGESTIONS <= part.sum() <= coverage * 2500]
        if within:
            rows.append(max(within, key=np.sum))
    table = tabulate_thresholds(scores, right)
    assert len(table) == len(rows) == 9
    for row, part in zip(table, rows, strict=True):
        # not at a score, whose last digits vary
        assert scores[~part].max(initial=-9) < row.threshold < scores[part].min()
        assert (row.precision, row.coverage) == pytest.approx((right[part].mean(), part.mean()))
    assert choose_threshold(scores, right, 0.8, None).table == table
    few = tabulate_thresholds(scores[:30], right[:30])
    assert [MIN_SUGGESTIONS <= round(row.coverage * 30) <= 30 for row in few] == [True] * len(few)
    assert tabulate_thresholds(scores[:19], right[:19]) == []


@pytest.mark.parametrize("candidates", [None, 10])
def test_calibration_agrees_with_a_loop_over_the_pairs(candidates, encoder):
    texts = make_texts(60)
    index = ReplyIndex.build(encoder, texts, duplicate_cosine=1)
    inputs, expected = make_texts(60, seed=1)[:40], texts[:40]
    expected[::2] = [best.text for [best] in index.suggest_many(inputs[::2], 1)]
    sampled_rows = np.random.default_rng(0).integers(len(texts), size=(40, 9))
    scores, right = [], []
    for number, (text, reply) in enumerate(zip(inputs, expected, strict=True)):
        pool = texts if candidates is None else [reply, *(texts[row] for row in sampled_rows[number])]
        [(best, score)] = brute_force_best(encoder, pool, text, 1)
        scores.append(score)
        right.append(best == reply)
    required = sum(right) / 40
    assert 0.4 < required < 1
    calibration = index.calibrate(inputs, expected, required, candidates)
    reference = choose_threshold(np.array(scores), np.array(right), required, candidates)
    assert calibration.threshold == pytest.approx(reference.threshold, rel=2e-3)
    assert (calibration.precision, calibration.coverage) == pytest.approx((reference.precision, reference.coverage))
    assert index.calibrate(inputs, expected, required, candidates) == calibration  # its own threshold does not matter


@pytest.mark.parametrize(("limit", "expected"), [(1, [True, False, False, False]), (0.6, [True, True, False, False])])
def test_the_right_reply_is_a_variant_or_a_near_duplicate_of_the_expected_one(limit, expected):
    vectors = {"Yes!": [1, 0], "yes": [0, 1], "sure": [0.6, 0.8], "no": [0, -1], "right": [1, 0]}
    fake = SimpleNamespace(encode=lambda texts: np.array([vectors[text] for text in texts]))
    index = SimpleNamespace(encoder=fake, duplicate_cosine=limit)
    pairs = [("Yes!", "yes"), ("sure", "right"), ("no", "right"), ("sure", "no")]
    assert ReplyIndex._are_same(index, *zip(*pairs, strict=True)).tolist() == expected


def test_a_score_equal_to_the_threshold_reaches_it(encoder):
    index = ReplyIndex.build(encoder, make_texts(60), duplicate_cosine=1)
    scores = [one.score for one in index.suggest(QUERIES[0], 5)]
    assert [one.score for one in index.suggest(QUERIES[0], 5, scores[2])] == scores[:3]


def test_of_equal_scores_the_smaller_row_is_first(monkeypatch):
    monkeypatch.setattr("modeling_convsim.suggestion.search.CHUNK", 4)
    vectors, queries = np.ones((10, 3), np.float32), np.ones((1, 3), np.float32)
    vectors[6] *= 2
    scores, rows = exact_search(vectors, queries, 10)
    assert rows.tolist() == [[6, 0, 1, 2, 3, 4, 5, 7, 8, 9]] and scores.tolist() == [[6] + [3] * 9]


def test_the_best_of_a_sample_equals_a_loop_and_a_tie_goes_to_the_expected_vector():
    generator = np.random.default_rng(1)
    queries, expected = generator.standard_normal((2, 30, 4)).astype(np.float32)
    vectors = generator.standard_normal((20, 4)).astype(np.float16)
    expected[:5] = 9 * queries[:5]  # the best
    rows, scores = best_of_sample(queries, expected, vectors, 8)
    samples = np.random.default_rng(0).integers(20, size=(30, 7))
    for pair, sample in enumerate(samples):
        pool = [(float(queries[pair] @ expected[pair]), -1)]
        pool += [(float(queries[pair] @ vectors[row].astype(np.float32)), int(row)) for row in sample]
        score, row = max(pool)
        assert rows[pair] == row and scores[pair] == pytest.approx(score, rel=1e-5)
    assert set(rows[:5]) == {-1} and (rows[5:] >= 0).any()
    same = np.ones((3, 4), np.float32)
    assert best_of_sample(same, same, same, 5)[0].tolist() == [-1, -1, -1]


def test_the_first_of_equally_frequent_variants_is_shown_with_its_first_answer():
    replies = deduplicate(["Yes!", "yes", "no", "yes", "Yes!"], ["1", "2", "3", "4", "5"])
    assert (replies.texts, replies.counts.tolist(), replies.companions) == (["Yes!", "no"], [4, 1], ["1", "3"])


def test_embeddings_with_exactly_the_limiting_cosine_are_near_duplicates():
    embeddings = np.array([[1, 0], [0.6, 0.8], [0, 1], [1, 0]], np.float32)
    assert drop_near_duplicates(embeddings, np.float32(0.6)) == [0, 2]
    assert drop_near_duplicates(embeddings, 0.7) == [0, 1]  # 0.6, 0.8 and 0, 1 have a cosine of 0.8
    assert drop_near_duplicates(embeddings[::-1], 0.9) == [0, 1, 2]


@pytest.mark.parametrize("diversity", [0, 0.3, 1])
def test_diverse_texts_agree_with_a_loop_over_marginal_relevance(diversity):
    generator = np.random.default_rng(0)
    embeddings = generator.standard_normal((12, 3))
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    scores = np.sort(generator.random(12))[::-1]
    expected = [0]
    while len(expected) < 5:
        values = {
            row: (1 - diversity) * (scores[row] - scores[-1]) / (scores[0] - scores[-1])
            - diversity * max(float(embeddings[row] @ embeddings[other]) for other in expected)
            for row in range(12)
            if row not in expected
        }
        expected.append(max(values, key=values.__getitem__))
    assert select_diverse(scores, embeddings, 5, diversity) == expected
    assert (expected == [0, 1, 2, 3, 4]) is (diversity == 0)
    assert select_diverse(scores[:2], embeddings[:2], 5, diversity) == [0, 1]
    assert select_diverse(np.ones(4), embeddings[:4], 2, diversity)[0] == 0  # equal scores
    assert select_diverse(scores[:0], embeddings[:0], 5, diversity) == []


def test_diverse_suggestions_differ_more_and_start_with_the_best(encoder, many):
    def similarity(suggestions) -> float:
        vectors = encoder.encode([one.text for one in suggestions])
        return float((vectors @ vectors.T)[np.triu_indices(3, 1)].mean())

    plain, diverse = (many.suggest_many(QUERIES, 3, diversity=diversity) for diversity in (0, 0.9))
    assert [best[0] for best in plain] == [best[0] for best in diverse]
    assert np.mean([*map(similarity, diverse)]) < np.mean([*map(similarity, plain)]) - 0.05
    deduplicated = ReplyIndex.build(encoder, REPLIES, duplicate_cosine=0.95)
    assert {one.text for one in deduplicated.suggest(QUERIES[0], 9, diversity=0.5)} == {
        one.text for one in deduplicated.suggest(QUERIES[0], 9)
    }
    with pytest.raises(ValueError, match=r"diversity is 1.1, expected a number from 0 to 1"):
        many.suggest("hello", diversity=1.1)


@pytest.mark.parametrize(("count", "int8"), [(99_999, False), (100_000, True)])
def test_large_indexes_are_searched_in_int8(count, int8):
    assert search.needs_int8(count) is int8


def test_replies_below_the_threshold_are_not_suggested(encoder):
    index = ReplyIndex.build(encoder, make_texts(60), duplicate_cosine=1)
    scores = [one.score for one in index.suggest(QUERIES[0], 60)]
    middle = (scores[1] + scores[2]) / 2
    assert [one.score for one in index.suggest(QUERIES[0], 5, middle)] == scores[:2]
    assert index.suggest(QUERIES[0], 5, scores[0] + 1) == []
    index.calibration = choose_threshold(np.array([scores[0] + 1] * 20), np.ones(20, bool), 1, None)
    assert index.suggest(QUERIES[0]) == [] and len(index.suggest(QUERIES[0], threshold=-np.inf)) == 3


@pytest.mark.parametrize("int8_from", [1000, 100])
@pytest.mark.parametrize("side", ["response", "input"])
def test_saved_index_gives_the_same_suggestions(int8_from, side, folder, encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(search, "INT8_FROM", int8_from)
    texts = make_texts(200)
    companions = {"answers" if side == "input" else "questions": [text[::-1] for text in texts * 2]}
    index = ReplyIndex.build(encoder, texts * 2, side, duplicate_cosine=0.95, **companions)
    index.calibrate(texts[:30], texts[:30], 0.01)
    index.save(tmp_path / "index")
    opened = ReplyIndex.load(tmp_path / "index", device="cpu")
    assert opened.suggest_many(QUERIES, 4) == index.suggest_many(QUERIES, 4)
    best = opened.suggest(QUERIES[0], threshold=-np.inf)[0]
    expected = (best.text[::-1], None) if side == "input" else (None, best.text[::-1])
    assert (best.answer, best.question) == expected
    assert opened.only([best.text]).suggest(QUERIES[0], threshold=-np.inf)[0].question == best.question
    assert index.calibration.table and opened.calibration == index.calibration and opened.side == side
    assert (tmp_path / "index" / "int8.npy").is_file() is (int8_from == 100)
    opened.save(tmp_path / "index")  # over the files that it reads
    reopened = ReplyIndex.load(tmp_path / "index", encoder)
    assert reopened.suggest_many(QUERIES, 4) == index.suggest_many(QUERIES, 4)
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_index_opens_with_its_model_in_bfloat16(folder, encoder, many, tmp_path):
    many.save(tmp_path / "index")
    assert len(ReplyIndex.load(tmp_path / "index", dtype="bfloat16")) == len(many)


def test_index_of_other_weights_is_refused(folder, encoder, tiny_tokenizer, many, tmp_path):
    many.save(tmp_path / "index")
    other = build("dan_input_network")
    with torch.no_grad():
        other.response_head.layers[0].weight[0, 0] += 0.1
    with pytest.raises(ValueError, match="built with other weights"):
        ReplyIndex.load(tmp_path / "index", Encoder(other, tiny_tokenizer))


def test_index_stores_the_model_name_as_given(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder.parent)
    ReplyIndex.build(Encoder.from_pretrained(folder.name, "cpu"), REPLIES).save(tmp_path / "index")
    assert json.loads((tmp_path / "index" / "index.json").read_text())["model"] == folder.name
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="was built with it; if it has been moved, give its new folder"):
        ReplyIndex.load(tmp_path / "index")


def test_int8_index_gives_the_suggestions_of_a_float32_index(many, encoder, monkeypatch):
    monkeypatch.setattr(search, "INT8_FROM", 100)
    quantized = ReplyIndex.build(encoder, many.replies.texts, duplicate_cosine=1)
    allowed = many.replies.texts[:150]
    for ours, theirs in ((quantized, many), (quantized.only(allowed), many.only(allowed))):
        for suggestions, expected in zip(ours.suggest_many(QUERIES, 5), theirs.suggest_many(QUERIES, 5), strict=True):
            np.testing.assert_allclose([one.score for one in suggestions], [one.score for one in expected], rtol=1e-5)


@pytest.mark.parametrize(
    "broken",
    ["replies.parquet", "vectors.npy", "int8.npy", "projection.npy", "index.json!", "replies.parquet!", "vectors.npy!"],
)
def test_broken_index_is_refused(broken, many, encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(search, "INT8_FROM", 100)
    ReplyIndex(encoder, many.replies, many.vectors.astype(np.float16)).save(tmp_path / "index")
    if broken.endswith("!"):
        (tmp_path / "index" / broken[:-1]).write_text("{ not what it should be")
    else:
        (tmp_path / "index" / broken).unlink()
    with pytest.raises(ValueError, match=r"cannot open the index .*rebuild it"):
        ReplyIndex.load(tmp_path / "index", encoder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"side": "query"}, "side is 'query'"),
        ({"duplicate_cosine": 0}, "duplicate_cosine is 0"),
        ({"texts": ["", " "]}, "no texts to build an index of"),
        ({"answers": REPLIES}, "side is 'response': answers belong to the side 'input', questions to the side"),
        ({"questions": REPLIES, "side": "input"}, "side is 'input': answers belong to the side 'input', questions"),
    ],
)
def test_option_out_of_range_is_refused(options, message, encoder):
    with pytest.raises(ValueError, match=message):
        ReplyIndex.build(encoder, **{"texts": REPLIES} | options)


def test_missing_extra_is_named_where_it_is_needed(encoder, monkeypatch, tmp_path):
    for name in ("numkong", "pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    index = ReplyIndex.build(encoder, REPLIES)
    assert len(index.suggest("hello", 2)) == 2
    with pytest.raises(ValueError, match=r"saving an index needs pyarrow: pip install 'convsim\[suggest\]'"):
        index.save(tmp_path / "index")
    monkeypatch.setattr(search, "INT8_FROM", 3)
    monkeypatch.setattr(reply_index, "has_int8_products", lambda: False)
    named = r"100,000 replies or more on this processor needs numkong: pip install 'convsim\[suggest\]'"
    with pytest.raises(ValueError, match=named):
        ReplyIndex.build(encoder, REPLIES)


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


@pytest.fixture
def pairs(tmp_path):
    path = tmp_path / "pairs.parquet"
    texts = make_texts(40)
    parquet.write_table(pyarrow.table({"input": make_texts(40, seed=1)[: len(texts)], "response": texts}), path)
    return path


def test_command_builds_calibrates_and_suggests(folder, pairs, tmp_path, capsys, monkeypatch):
    assert run("build", folder, pairs, "-o", tmp_path / "index") == 0
    assert "40 distinct replies of 40" in capsys.readouterr().out
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"hello\nthe dog\n")))
    assert run("suggest", tmp_path / "index", "--k", "2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [lines[0], lines[3]] == ["hello", "the dog"] and len(lines) == 6
    assert run("suggest", tmp_path / "index", "hello", "--threshold", "1e6") == 0
    assert capsys.readouterr().out == "hello\n  no suggestion\n"
    assert run("calibrate", tmp_path / "index", pairs, "--precision", "0.1", "--candidates", "2") == 0
    table = capsys.readouterr().out.splitlines()
    assert table[0].split() == ["threshold", "precision", "coverage"] and table[1].endswith("%")
    assert "coverage" in table[-1]
    assert json.loads((tmp_path / "index" / "index.json").read_text())["calibration"]["min_precision"] == 0.1
    (tmp_path / "allowed.txt").write_text(f"{make_texts(40)[3]}\n")
    assert run("suggest", tmp_path / "index", "--threshold=-inf", "--allowed", tmp_path / "allowed.txt", "hello") == 0
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 2 and printed[1].endswith(make_texts(40)[3])


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_command_shows_the_answers_of_questions(folder, pairs, tmp_path, capsys, suffix):
    table = tmp_path / f"faq{suffix}"
    getattr(parquet.read_table(pairs).to_pandas(), f"to_{suffix[1:]}")(table)
    assert run("build", folder, table, "--side", "input", "--answers", "response", "-o", tmp_path / "faq") == 0
    capsys.readouterr()
    assert run("suggest", tmp_path / "faq", make_texts(40, seed=1)[5], "--k", 1) == 0
    assert capsys.readouterr().out.splitlines()[2].strip() == make_texts(40)[5]


def test_command_shows_the_questions_of_replies(folder, pairs, tmp_path, capsys):
    assert run("build", folder, pairs, "--questions", "input", "-o", tmp_path / "index") == 0
    capsys.readouterr()
    assert run("suggest", tmp_path / "index", "hello", "--diversity", "0.5", "--k", "1") == 0
    reply, question = (line.split(maxsplit=1)[1] for line in capsys.readouterr().out.splitlines()[1:])
    rows = parquet.read_table(pairs).to_pylist()
    assert any(row["response"] == reply and question == f"reply to: {row['input']}" for row in rows)


def wrong_commands(folder: Path, pairs: Path, tmp_path: Path) -> dict[str, tuple[list[object], str]]:
    index, text = tmp_path / "index", tmp_path / "some.txt"
    text.write_text("hello\nzebra\n")
    parquet.write_table(pyarrow.table({"text": ["hello"]}), text.with_suffix(".parquet"))
    return {
        "no model": (["build", tmp_path / "nowhere", pairs, "-o", tmp_path / "i"], "no such folder"),
        "no file": (["build", folder, tmp_path / "no.txt", "-o", tmp_path / "i"], "no.txt: file not found"),
        "column": (["build", folder, pairs, "--column", "x", "-o", tmp_path / "i"], "no column 'x', only input"),
        "answers column": (
            ["build", folder, pairs, "--side", "input", "--answers", "x", "-o", tmp_path / "i"],
            "only input, response: choose one with --answers",
        ),
        "other folder": (["build", folder, pairs, "-o", tmp_path], "exists and is not an index"),
        "no index": (["suggest", tmp_path / "nowhere", "hello"], "holds no index.json"),
        "k": (["suggest", index, "hello", "--k", 0], "k is 0, expected 1 or more"),
        "allowed": (["suggest", index, "hello", "--allowed", text], "not in the index: 'hello', 'zebra'"),
        "other model": (["suggest", index, "hello", "--model", tmp_path / "other"], "built with other weights"),
        "pairs": (["calibrate", index, text], "some.txt: expected a table (.parquet, .csv, "),
        "pairs column": (["calibrate", index, text.with_suffix(".parquet")], "no column 'input', only text, expected"),
        "precision": (["calibrate", index, pairs, "--precision", 2], "expected a number above 0, at most 1"),
        "candidates": (["calibrate", index, pairs, "--candidates", 1], "candidates is 1, expected 2 or more"),
    }


WRONG_COMMANDS = (
    "no model, no file, column, answers column, other folder, no index, k, allowed, other model, pairs, pairs column, "
    "precision, candidates"
)


@pytest.mark.parametrize("name", WRONG_COMMANDS.split(", "))
def test_wrong_command_gives_one_line_and_exit_code_2(name, folder, pairs, many, tiny_tokenizer, tmp_path, capsys):
    many.save(tmp_path / "index")
    if name == "other model":
        save_model("dan", tiny_tokenizer, tmp_path / "other")
    arguments, message = wrong_commands(folder, pairs, tmp_path)[name]
    capsys.readouterr()
    assert run(*arguments) == 2
    captured = capsys.readouterr()
    errors = [line for line in captured.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and message in errors[0] and not captured.out
    assert not (tmp_path / "i").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            "build m a.txt -o i --column x",
            "--column x: a.txt has no columns; omit --column or use tables (.parquet, .csv",
        ),
        (
            "build m a.parquet b.txt -o i --side input --answers x",
            "--answers x: b.txt has no columns, expected tables (.parquet",
        ),
        ("build m a.parquet -o i --answers x", "--answers x needs --side input: only questions have answers"),
        (
            "build m a.parquet b.txt -o i --questions x",
            "--questions x: b.txt has no columns, expected tables (.parquet",
        ),
        (
            "build m a.parquet -o i --side input --questions x",
            "--questions x needs --side response: only replies have a past question",
        ),
        ("suggest i hello --alowed a.txt", "unknown argument '--alowed'; did you mean '--allowed'?"),
        ("calibrate i a.parquet --candidates many", "argument --candidates: 'many', expected a number or all"),
    ],
)
def test_wrong_option_gives_one_line_and_exit_code_2(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments.split())
    error = capsys.readouterr().err
    assert error.startswith(f"error: {message}") and error.count("\n") == 1


def test_texts_before_and_after_an_option_are_answered(many, tmp_path, capsys):
    many.save(tmp_path / "index")
    capsys.readouterr()
    assert run("suggest", tmp_path / "index", "hello", "--k", 1, "the dog") == 0
    assert [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")] == ["hello", "the dog"]
