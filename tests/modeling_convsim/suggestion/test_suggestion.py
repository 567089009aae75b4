"""`ReplyIndex` against a brute-force search, and what it refuses."""

import json
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from modeling_convsim.encoding import Encoder
from modeling_convsim.encoding.batch_tokenizer import TextError
from modeling_convsim.suggestion import ReplyIndex, search
from modeling_convsim.suggestion.calibration import choose_threshold, text_cosines
from tests.conftest import WORDS
from tests.modeling_convsim.tiny_models import build

REPLIES = ["Yes, please!", "yes please", "yes please", "no", "No.", "I like the dog", "a big house", "see you tomorrow"]
QUERIES = ["How old are you?", "do you like the dog", "where is the cat", "thanks"]


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
    [score] = [one.score for one in index.suggest("the dog", 50, -np.inf) if one.text == texts[7]]
    assert score == pytest.approx(u @ v, abs=2e-3)


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
        assert [one.text for one in index.suggest(query, 4, -np.inf)] == expected


def test_only_allowed_replies_are_suggested(many, encoder):
    allowed = many.replies.texts[10:20]
    suggestions = many.only([allowed[0].upper() + "!", *allowed]).suggest(QUERIES[0], 20)
    assert [one.text for one in suggestions] == [text for text, _ in brute_force_best(encoder, allowed, QUERIES[0], 20)]
    small = ReplyIndex.build(encoder, allowed, duplicate_cosine=0.7)
    small.calibration = choose_threshold(np.ones(20), np.ones(20, bool), 0.8)
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


def test_the_score_has_the_reply_and_the_best_of_the_messages_that_it_answered(encoder):
    """Against a loop in float64; "Yes" and "yes!" are one reply, which answered three of the messages."""
    messages, replies = make_texts(40), make_texts(40, seed=1)
    replies[:3] = ["yes", "Yes!", "yes"]
    index = ReplyIndex.build(encoder, replies, questions=messages, message_weight=0.7, duplicate_cosine=1)
    assert len(index) == 38 and len(index.vectors) == 40 and index.total == 40
    u, asked = (encoder.encode(QUERIES, side).astype(np.float64) for side in ("query", "input"))
    v = encoder.encode(["yes"] * 3 + replies[3:], "response").astype(np.float64)
    scores = u @ v.T + 0.7 * asked @ encoder.encode(messages).astype(np.float64).T
    for suggestions, row in zip(index.suggest_many(QUERIES, 38), scores, strict=True):
        best = {"yes": row[:3].max(), **dict(zip(replies[3:], row[3:], strict=True))}
        assert {one.text for one in suggestions} == set(best)
        np.testing.assert_allclose([one.score for one in suggestions], sorted(best.values())[::-1], rtol=2e-3)
        answered = {one.text: one.question for one in suggestions}
        assert answered["yes"] == messages[int(row[:3].argmax())] and answered[replies[5]] == messages[5]
    assert index.only(["YES", replies[5]]).suggest(QUERIES[0], 5)[0].count in (1, 3)
    shown = ReplyIndex.build(encoder, replies, questions=messages, message_weight=0, duplicate_cosine=1)
    alone = ReplyIndex.build(encoder, replies, duplicate_cosine=1)
    for with_messages, without in zip(*(one.suggest_many(QUERIES, 5) for one in (shown, alone)), strict=True):
        assert [one.score for one in with_messages] == [one.score for one in without]
        assert {one.question for one in with_messages} <= set(messages)
    index.message_weight = 0.0
    assert [one.text for one in index.suggest(QUERIES[0], 5)] == [one.text for one in alone.suggest(QUERIES[0], 5)]


def test_the_agreement_with_the_best_replies_is_added_to_the_score(encoder):
    """Against a loop in float64: the expected cosine of a reply with one of the 20 best, which exclude the text."""
    replies = [*make_texts(30, seed=1), QUERIES[0]]
    index = ReplyIndex.build(encoder, replies, duplicate_cosine=1)
    plain = index.suggest_many(QUERIES, 31)
    embeddings = dict(zip(replies, encoder.encode(replies).astype(np.float64), strict=True))
    index.consensus_weight = 1.5
    for suggestions, known in zip(index.suggest_many(QUERIES, 31), plain, strict=True):
        assert {one.text for one in suggestions} == {one.text for one in known} and len(known) in (30, 31)
        peers = known[:20]
        weights = np.exp([(one.score - known[0].score) / 0.1 for one in peers])
        expected = {}
        for one in known:
            cosines = [embeddings[one.text] @ embeddings[peer.text] for peer in peers]
            expected[one.text] = one.score + 1.5 * (weights * cosines).sum() / weights.sum()
        for one in suggestions:
            assert one.score == pytest.approx(expected[one.text], abs=1e-4)
        assert [one.score for one in suggestions] == sorted([one.score for one in suggestions], reverse=True)
    few = index.suggest_many(QUERIES, 3)
    for few_of_query, all_of_query in zip(few, index.suggest_many(QUERIES, 31), strict=True):
        assert few_of_query[0].score >= few_of_query[-1].score and few_of_query[0].text in {
            one.text for one in all_of_query
        }
    assert index.only(replies[:5]).consensus_weight == 1.5


def test_a_text_does_not_answer_itself_and_one_without_known_tokens_gets_nothing(encoder):
    index = ReplyIndex.build(encoder, ["The dog!", *make_texts(20)], duplicate_cosine=1)
    assert len(index.suggest("the dog", 30)) == 20 and len(index.suggest("the cat", 30)) == 21
    for nothing in ("", "  ", "\u5317\u4eac"):
        assert index.suggest(nothing, 3, -np.inf) == []
    questions = ReplyIndex.build(encoder, ["The dog!", *make_texts(20)], "input")
    assert questions.suggest("the dog", 1, -np.inf)[0].text == "The dog!"


def test_a_question_that_an_index_lacks_finds_nothing(encoder):
    """Four of five questions, left out in turn, are below the threshold; the same answer is no wrong one."""
    texts = make_texts(60)
    answers = [f"answer {number // 2}" for number in range(len(texts))]
    vectors = encoder.encode(texts).astype(np.float64)
    for known in (answers, None):
        index = ReplyIndex.build(encoder, texts, "input", known, duplicate_cosine=0.95)
        highest = []
        for row in range(len(texts)):
            cosines = vectors @ vectors[row]
            others = np.arange(len(texts)) // 2 != row // 2 if known else cosines < 0.95
            highest.append(cosines[others].max())
        assert np.mean(np.array(highest) < index.threshold) == pytest.approx(0.8, abs=0.02)
        assert index.suggest(texts[3], 1)[0].text == texts[3] and index.threshold < 1
    assert 0 < ReplyIndex.build(encoder, ["the dog"], "input").threshold < 1


def test_the_cosine_of_variants_is_one_and_that_of_no_text_minus_one():
    vectors = {"Yes!": [1, 0], "yes": [0, 1], "sure": [0.6, 0.8], "": [1, 0], "right": [1, 0]}
    judge = SimpleNamespace(encode=lambda texts: np.array([vectors[text] for text in texts]))
    pairs = [("Yes!", "yes"), ("sure", "right"), ("yes", "right"), ("", "right")]
    assert text_cosines(judge, *zip(*pairs, strict=True)) == pytest.approx([1, 0.6, 0, -1])


def test_a_suggestion_is_right_if_it_answers_to_the_same_effect(encoder):
    index = ReplyIndex.build(encoder, ["the dog"], duplicate_cosine=1)
    for cosine, side, limit, expected in ((0.61, "response", 1, True), (0.59, "response", 1, False),
                                          (0.61, "input", 0.9, False), (0.61, "input", 0.6, True)):  # fmt: skip
        vectors = {"the dog": [1, 0], "a cat": [cosine, np.sqrt(1 - cosine**2)]}
        judge = SimpleNamespace(encode=lambda texts, known=vectors: np.array([known[text] for text in texts]))
        index.side, index.duplicate_cosine = side, limit
        assert index.score_pairs(["hello"], ["a cat"], judge)[1].tolist() == [expected]


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


def test_replies_below_the_threshold_are_not_suggested(encoder):
    index = ReplyIndex.build(encoder, make_texts(60), duplicate_cosine=1)
    scores = [one.score for one in index.suggest(QUERIES[0], 60)]
    middle = (scores[1] + scores[2]) / 2
    assert [one.score for one in index.suggest(QUERIES[0], 5, middle)] == scores[:2]
    assert [one.score for one in index.suggest(QUERIES[0], 5, scores[2])] == scores[:3]
    assert index.suggest(QUERIES[0], 5, scores[0] + 1) == []
    index.calibration = choose_threshold(np.array([scores[0] + 1] * 20), np.ones(20, bool), 0.8)
    assert index.suggest(QUERIES[0]) == [] and len(index.suggest(QUERIES[0], threshold=-np.inf)) == 3


def test_an_index_without_a_sufficient_threshold_suggests_nothing_by_default(encoder, tmp_path):
    index = ReplyIndex.build(encoder, make_texts(60))
    assert index.suggest(QUERIES[0])
    index.save(tmp_path / "index")
    with pytest.raises(ValueError, match="no threshold has a precision of 80%"):
        index.set_threshold(np.arange(30.0), np.zeros(30, bool), 0.8)
    index.save_settings(tmp_path / "index")
    opened = ReplyIndex.load(tmp_path / "index", encoder)
    assert opened.suggest(QUERIES[0]) == [] == opened.only([opened.replies.texts[0]]).suggest(QUERIES[0])
    assert len(opened.suggest(QUERIES[0], threshold=-np.inf)) == 3 and "80%" in opened.no_threshold
    index.set_threshold(np.arange(30.0), np.ones(30, bool), 0.8)
    assert index.no_threshold is None and index.threshold == index.calibration.threshold


@pytest.mark.parametrize("faiss_from", [1000, 100])
@pytest.mark.parametrize("side", ["response", "input"])
def test_saved_index_gives_the_same_suggestions(faiss_from, side, folder, encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(search, "FAISS_FROM", faiss_from)
    texts = make_texts(200)
    companions = {"answers" if side == "input" else "questions": [text[::-1] for text in texts * 2]}
    index = ReplyIndex.build(encoder, texts * 2, side, duplicate_cosine=0.95, **companions)
    index.calibration = choose_threshold(np.arange(30.0), np.arange(30) > 3, 0.5)
    index.save(tmp_path / "index")
    opened = ReplyIndex.load(tmp_path / "index", device="cpu")
    assert opened.suggest_many(QUERIES, 4) == index.suggest_many(QUERIES, 4)
    assert len(index.suggest(QUERIES[0], 4, -np.inf)) == 4
    assert opened.suggest_many(QUERIES, 4, -np.inf) == index.suggest_many(QUERIES, 4, -np.inf)
    best = opened.suggest(QUERIES[0], threshold=-np.inf)[0]
    expected = (best.text[::-1], None) if side == "input" else (None, best.text[::-1])
    assert (best.answer, best.question) == expected
    assert opened.only([best.text]).suggest(QUERIES[0], threshold=-np.inf)[0].question == best.question
    assert index.calibration.table and opened.calibration == index.calibration and opened.side == side
    assert (tmp_path / "index" / "replies.faiss").is_file() is (faiss_from == 100)
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


def test_large_index_gives_the_suggestions_of_an_exact_one(many, encoder, monkeypatch):
    monkeypatch.setattr(search, "FAISS_FROM", 100)
    large = ReplyIndex.build(encoder, many.replies.texts, duplicate_cosine=1)
    assert large.vectors.dtype == np.float16 and many.vectors.dtype == np.float32
    allowed = many.replies.texts[:150]
    for ours, theirs in ((large, many), (large.only(allowed), many.only(allowed))):
        for suggestions, expected in zip(ours.suggest_many(QUERIES, 5), theirs.suggest_many(QUERIES, 5), strict=True):
            np.testing.assert_allclose([one.score for one in suggestions], [one.score for one in expected], rtol=1e-5)


@pytest.mark.parametrize("name", ["index.json", "replies.parquet", "vectors.npy", "replies.faiss"])
def test_missing_or_damaged_files_are_refused(name, many, encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(search, "FAISS_FROM", 100)
    ReplyIndex(encoder, many.replies, many.vectors.astype(np.float16)).save(tmp_path / "index")
    path = tmp_path / "index" / name
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    for damaged in (bytes(content), None, b"{ not what it should be"):
        path.unlink()
        if damaged is not None:
            path.write_bytes(damaged)
        if damaged == b"{ not what it should be":
            (tmp_path / "index" / "SHA256SUMS").unlink()
        with pytest.raises(ValueError, match=r"cannot open the index .*rebuild it|holds no index.json"):
            ReplyIndex.load(tmp_path / "index", encoder)
        path.touch()


def test_index_of_another_format_is_refused(encoder, tmp_path):
    ReplyIndex.build(encoder, REPLIES).save(tmp_path / "index")
    settings = json.loads((tmp_path / "index" / "index.json").read_text())
    assert settings.pop("format") == 3
    (tmp_path / "index" / "index.json").write_text(json.dumps(settings))
    with pytest.raises(ValueError, match=r"index was written in format 1, but this version reads format 3: rebuild it"):
        ReplyIndex.load(tmp_path / "index")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"side": "query"}, "side is 'query'"),
        ({"duplicate_cosine": 0}, "duplicate_cosine is 0"),
        ({"message_weight": -1, "questions": REPLIES}, "message_weight is -1, expected 0 or more"),
        ({"texts": ["", " "]}, "no texts to build an index of"),
        ({"answers": REPLIES}, "side is 'response': answers belong to the side 'input', questions to the side"),
        ({"questions": REPLIES, "side": "input"}, "side is 'input': answers belong to the side 'input', questions"),
    ],
)
def test_option_out_of_range_is_refused(options, message, encoder):
    with pytest.raises(ValueError, match=message):
        ReplyIndex.build(encoder, **{"texts": REPLIES} | options)


def test_missing_extra_is_named_where_it_is_needed(encoder, monkeypatch, tmp_path):
    for name in ("faiss", "pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    index = ReplyIndex.build(encoder, REPLIES)
    assert len(index.suggest("hello", 2)) == 2
    with pytest.raises(ValueError, match=r"saving an index needs pyarrow: pip install 'convsim\[suggest\]'"):
        index.save(tmp_path / "index")
    monkeypatch.setattr(search, "FAISS_FROM", 3)
    with pytest.raises(ValueError, match=r"searching 3 replies or more needs faiss-cpu: pip install 'convsim\[suggest"):
        ReplyIndex.build(encoder, REPLIES)


def test_vectors_that_are_not_finite_are_refused(tiny_tokenizer, encoder):
    """They would give no suggestions, without a word."""
    texts, model = make_texts(40), build("dan_input_network")
    built = ReplyIndex.build(encoder, texts)
    damaged = ReplyIndex(encoder, built.replies, np.full_like(built.vectors, np.nan))
    with pytest.raises(ValueError, match=r"the index holds vectors that are damaged \(not finite\): rebuild it"):
        damaged.suggest("hello")
    with torch.no_grad():
        model.encoder.layers[-1].weight.fill_(float("nan"))
    index = ReplyIndex(Encoder(model, tiny_tokenizer), built.replies, built.vectors)
    for ask in (lambda: index.suggest("hello"), lambda: index.calibrate(texts, texts, 0.1)):
        with pytest.raises(ValueError, match=r"the model gives vectors that are not finite: its weights are damaged"):
            ask()
    model = build("dan")  # whose response vectors are not normalized
    with torch.no_grad():
        model.response_head.layers[-1].bias.fill_(1e6)
    with pytest.raises(ValueError, match=f"^{texts[0]!r}: the model gives a vector that is .* too large for float16"):
        ReplyIndex.build(Encoder(model, tiny_tokenizer), texts)


def test_what_is_no_text_is_refused(encoder):
    index = ReplyIndex.build(encoder, REPLIES)
    with pytest.raises(TypeError, match=r"build\(encoder, \[text\], answers=\[answer\]\)"):
        ReplyIndex.build(encoder, ["a"], "input", "answer")
    with pytest.raises(TypeError, match=r"suggest_many\(\[text\]\)"):
        index.suggest_many("hello")
    assert index.suggest_many([]) == []
    for text in (None, "\ud83d", 3):
        with pytest.raises(TextError, match=r"^texts\[4\] "):
            ReplyIndex.build(encoder, [*REPLIES[:4], text, *REPLIES])
        with pytest.raises(TextError, match=r"^texts\[0\] "):
            index.suggest(text)
