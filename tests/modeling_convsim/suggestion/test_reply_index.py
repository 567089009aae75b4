"""`ReplyIndex`: suggestions against a brute-force search in float64; what it is built of, and what it refuses."""

import json
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from modeling_convsim.encoding import Encoder
from modeling_convsim.encoding.batch_tokenizer import TextError
from modeling_convsim.suggestion import ReplyIndex, search
from modeling_convsim.suggestion.estimate import review_pairs
from tests.modeling_convsim.suggestion.texts import QUERIES, REPLIES, brute_force_best, make_texts
from tests.modeling_convsim.tiny_models import build


def test_suggestions_agree_with_a_brute_force_search_in_float64(encoder, many):
    replies = many.replies.texts
    for query, suggestions in zip(QUERIES, many.suggest_many(QUERIES, 5), strict=True):
        expected = brute_force_best(encoder, replies, query, 5)
        np.testing.assert_allclose([one.score for one in suggestions], [score for _, score in expected], rtol=2e-3)
        assert suggestions[0].text == expected[0][0]
    assert many.suggest(QUERIES[0], 5) == many.suggest_many(QUERIES[:1], 5)[0]


def test_an_faq_is_searched_by_the_cosine_of_questions_alone(encoder, tmp_path):
    questions = make_texts(50)
    answers = [f"{text} {number // 2}" for number, text in enumerate(np.repeat(make_texts(25, seed=1), 2))]
    index = ReplyIndex.build(encoder, answers, questions, by_messages=True, duplicate_cosine=1)
    assert len(index) == 25 and index.vectors.shape == (50, encoder.embedding_size)
    index.save(tmp_path / "faq")
    u, v = (encoder.encode(texts).astype(np.float64) for texts in (QUERIES, questions))
    for found in (index, ReplyIndex.load(tmp_path / "faq", encoder)):
        for suggestions, row in zip(found.suggest_many(QUERIES, 25), u @ v.T, strict=True):
            best = {answers[2 * number]: row[2 * number : 2 * number + 2].max() for number in range(25)}
            assert {one.text for one in suggestions} == set(best)
            assert [one.score for one in suggestions] == pytest.approx(sorted(best.values())[::-1], abs=2e-3)
            assert suggestions[0].message == questions[int(row.argmax())]
    with pytest.raises(ValueError, match="by_messages needs messages"):
        ReplyIndex.build(encoder, answers, by_messages=True)


def test_four_suggestions_that_are_no_near_duplicates_are_found_however_many_rows_are(encoder):
    """The fourth one is the 1,000th reply or worse for some queries."""
    texts = make_texts(2000)
    embeddings = dict(zip(texts, encoder.encode(texts).astype(np.float64), strict=True))
    for cosine in (0.8, 0.5):
        index = ReplyIndex.build(encoder, texts, duplicate_cosine=cosine)
        for query, suggestions in zip(QUERIES, index.suggest_many(QUERIES, 4), strict=True):
            expected: list[str] = []
            for text, _ in brute_force_best(encoder, texts, query, 2000):
                if all(embeddings[text] @ embeddings[other] < cosine for other in expected):
                    expected.append(text)
            assert [one.text for one in suggestions] == expected[:4]
            found = [one.text for one in index.suggest(query, 90)][: len(expected)]
            assert found == expected[:90]


def test_the_score_has_the_reply_and_the_best_of_the_messages_that_it_answered(encoder):
    """Against a loop in float64; "Yes" and "yes!" are one reply, which answered three of the messages."""
    messages, replies = make_texts(40), make_texts(40, seed=1)
    replies[:3] = ["yes", "Yes!", "yes"]
    index = ReplyIndex.build(encoder, replies, messages, message_weight=0.7, duplicate_cosine=1)
    assert len(index) == 38 and len(index.vectors) == 40 and index.total == 40
    u, asked = (encoder.encode(QUERIES, side).astype(np.float64) for side in ("query", "input"))
    v = encoder.encode(["yes"] * 3 + replies[3:], "response").astype(np.float64)
    scores = u @ v.T + 0.7 * asked @ encoder.encode(messages).astype(np.float64).T
    for suggestions, row in zip(index.suggest_many(QUERIES, 38), scores, strict=True):
        best = {"yes": row[:3].max(), **dict(zip(replies[3:], row[3:], strict=True))}
        assert {one.text for one in suggestions} == set(best)
        np.testing.assert_allclose([one.score for one in suggestions], sorted(best.values())[::-1], rtol=2e-3)
        answered = {one.text: one.message for one in suggestions}
        assert answered["yes"] == messages[int(row[:3].argmax())] and answered[replies[5]] == messages[5]
    assert index.only(["YES", replies[5]]).suggest(QUERIES[0], 5)[0].count in (1, 3)
    shown = ReplyIndex.build(encoder, replies, messages, message_weight=0, duplicate_cosine=1)
    alone = ReplyIndex.build(encoder, replies, duplicate_cosine=1)
    for with_messages, without in zip(*(one.suggest_many(QUERIES, 5) for one in (shown, alone)), strict=True):
        assert [one.score for one in with_messages] == [one.score for one in without]
        assert {one.message for one in with_messages} <= set(messages)
    index.settings = replace(index.settings, message_weight=0.0)
    assert [one.text for one in index.suggest(QUERIES[0], 5)] == [one.text for one in alone.suggest(QUERIES[0], 5)]


def test_the_agreement_with_the_best_replies_is_added_to_the_score(encoder):
    """Against a loop in float64: the expected cosine of a reply with one of the 20 best, which exclude the message."""
    replies = [*make_texts(30, seed=1), QUERIES[0]]
    index = ReplyIndex.build(encoder, replies, duplicate_cosine=1)
    plain = index.suggest_many(QUERIES, 31)
    embeddings = dict(zip(replies, encoder.encode(replies).astype(np.float64), strict=True))
    index.settings = replace(index.settings, consensus_weight=1.5)
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


def test_neither_the_message_nor_an_earlier_turn_is_suggested(encoder):
    index = ReplyIndex.build(encoder, ["The dog!", "Yes.", "no", *make_texts(20)], duplicate_cosine=1)
    assert {one.text for one in index.suggest("the cat", 30)} - {one.text for one in index.suggest("the dog", 30)} == {
        "The dog!"
    }
    for weight in (0.0, 1.0):
        index.settings = replace(index.settings, consensus_weight=weight)
        for few in (index.only(["yes", "no", "the dog"]), index):
            found = few.suggest_many(["THE DOG", "hello"], 22, [["yes!", "hello"], []])
            assert [{"The dog!", "Yes.", "no"} - {one.text for one in each} for each in found] == [
                {"The dog!", "Yes."}, set(),
            ]  # fmt: skip


@pytest.mark.parametrize("weight", [0.0, 1.0])
def test_a_message_without_a_known_token_gets_the_most_frequent_replies(encoder, weight):
    """Of which the first one answered 300 messages and has as many rows; few replies are encoded to find them."""
    messages, replies = make_texts(700), ["thanks"] * 300 + ["see you"] * 9 + ["a dog", "big sad house"] * 40
    replies += make_texts(700, seed=1)[: len(messages) - len(replies)]
    index, encoded = ReplyIndex.build(encoder, replies, messages, duplicate_cosine=0.999), []
    index.settings = replace(index.settings, consensus_weight=weight)
    encode = encoder.encode
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            encoder, "encode", lambda texts, *given, **named: encoded.extend(texts) or encode(texts, *given, **named)
        )
        for nothing in ("", "  ", "\u5317\u4eac"):
            assert [one.text for one in index.suggest(nothing)] == ["thanks", "a dog", "big sad house"]
            assert [one.text for one in index.suggest(nothing, context=["A dog!"])] == [
                "thanks",
                "big sad house",
                "see you",
            ]
        assert len(encoded) < 60
    both = index.suggest_many(["", "how old"], 400)
    assert [len({one.text for one in each}) for each in both] == [len(index)] * 2
    assert [one.text for one in both[1]] == [one.text for one in index.suggest("how old", 400)]


def test_diverse_suggestions_differ_more_and_start_with_the_best(encoder, many):
    def similarity(suggestions) -> float:
        vectors = encoder.encode([one.text for one in suggestions])
        return float((vectors @ vectors.T)[np.triu_indices(3, 1)].mean())

    diverse = many.select(np.arange(len(many)))
    diverse.settings = replace(many.settings, diversity=0.9)
    found = [index.suggest_many(QUERIES) for index in (many, diverse)]
    assert [best[0] for best in found[0]] == [best[0] for best in found[1]]
    plain, differing = (np.mean([*map(similarity, each)]) for each in found)
    assert differing < plain - 0.05


def test_large_index_gives_the_suggestions_of_an_exact_one(many, encoder, monkeypatch):
    monkeypatch.setattr(search, "FAISS_FROM", 100)
    large = ReplyIndex.build(encoder, many.replies.texts, duplicate_cosine=1)
    assert large.vectors.dtype == np.float16 and many.vectors.dtype == np.float32
    allowed = many.replies.texts[:150]
    for ours, theirs in ((large, many), (large.only(allowed), many.only(allowed))):
        for suggestions, expected in zip(ours.suggest_many(QUERIES, 5), theirs.suggest_many(QUERIES, 5), strict=True):
            np.testing.assert_allclose([one.score for one in suggestions], [one.score for one in expected], rtol=1e-5)


def test_only_allowed_replies_are_suggested(many, encoder):
    allowed = many.replies.texts[10:20]
    suggestions = many.only([allowed[0].upper() + "!", *allowed]).suggest(QUERIES[0], 20)
    assert [one.text for one in suggestions] == [text for text, _ in brute_force_best(encoder, allowed, QUERIES[0], 20)]
    small = ReplyIndex.build(encoder, allowed, duplicate_cosine=0.7)
    small.settings = replace(small.settings, consensus_weight=1.5)
    assert small.only(allowed[:3]).settings == small.settings
    with pytest.raises(ValueError, match=r"not in the index: 'zebra 0', .*'zebra 4' and 2 more"):
        many.only([allowed[0], *(f"zebra {number}" for number in range(7))])
    with pytest.raises(ValueError, match="list of allowed replies is empty"):
        many.only([])


@pytest.mark.parametrize("faiss_from", [1000, 100])
def test_saved_index_gives_the_same_suggestions(faiss_from, folder, encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(search, "FAISS_FROM", faiss_from)
    texts = make_texts(200)
    index = ReplyIndex.build(encoder, texts * 2, [text[::-1] for text in texts * 2], duplicate_cosine=0.95)
    review_pairs(index)
    index.save(tmp_path / "index")
    opened = ReplyIndex.load(tmp_path / "index", device="cpu")
    assert opened.suggest_many(QUERIES, 4) == index.suggest_many(QUERIES, 4)
    best = opened.suggest(QUERIES[0])[0]
    assert best.message == best.text[::-1] and opened.settings == index.settings and opened.review == index.review
    assert (tmp_path / "index" / "replies.faiss").is_file() is (faiss_from == 100)
    opened.save(tmp_path / "index")  # over the files that it reads
    reopened = ReplyIndex.load(tmp_path / "index", encoder)
    assert reopened.suggest_many(QUERIES, 4) == index.suggest_many(QUERIES, 4)
    assert [path.name for path in tmp_path.iterdir()] == ["index"]


def test_index_of_other_weights_is_refused(folder, encoder, tiny_tokenizer, many, tmp_path):
    many.save(tmp_path / "index")
    other = build("dan_input_network")
    with torch.no_grad():
        other.response_head.layers[0].weight[0, 0] += 0.1
    with pytest.raises(ValueError, match="built with other weights"):
        ReplyIndex.load(tmp_path / "index", Encoder(other, tiny_tokenizer))
    assert len(ReplyIndex.load(tmp_path / "index", dtype="bfloat16")) == len(many)


def test_a_run_can_be_moved_and_its_index_opened_from_any_folder(folder, tmp_path, monkeypatch):
    (tmp_path / "run").mkdir()
    shutil.copytree(folder, tmp_path / "run" / "model")
    monkeypatch.chdir(tmp_path)
    index = ReplyIndex.build(Encoder.from_pretrained("run/model", "cpu"), REPLIES)
    for path, name in (("run/replies", "../model"), ("elsewhere/replies", str(tmp_path / "run" / "model"))):
        index.save(path)
        assert json.loads((tmp_path / path / "index.json").read_text())["model"] == name
    monkeypatch.chdir(folder)
    expected = index.suggest("hello")
    assert ReplyIndex.load(tmp_path / "elsewhere" / "replies").suggest("hello") == expected
    (tmp_path / "run").rename(tmp_path / "moved")
    opened = ReplyIndex.load(tmp_path / "moved")
    assert opened.suggest("hello") == expected
    assert opened.encoder.name == str(tmp_path / "moved" / "model")
    with pytest.raises(ValueError, match="was built with this model; if it has moved, pass its new folder"):
        ReplyIndex.load(tmp_path / "elsewhere" / "replies")


@pytest.mark.parametrize("name", ["index.json", "replies.jsonl", "vectors.npy", "replies.faiss"])
def test_missing_or_damaged_files_are_refused(name, many, encoder, tmp_path, monkeypatch):
    monkeypatch.setattr(search, "FAISS_FROM", 100)
    ReplyIndex(encoder, many.replies, many.vectors.astype(np.float16)).save(tmp_path / "index")
    path = tmp_path / "index" / name
    content = path.read_bytes()
    for damaged in (content[: len(content) // 2], None, b"{ not what it should be"):
        path.unlink()
        if damaged is not None:
            path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"cannot open the index .*rebuild it|holds no index.json"):
            ReplyIndex.load(tmp_path / "index", encoder)
        path.touch()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"message_weight": -1, "messages": REPLIES}, "message_weight is -1, expected 0 or more"),
        ({"replies": ["", " "]}, "there are no replies to index"),
    ],
)
def test_option_out_of_range_is_refused(options, message, encoder):
    with pytest.raises(ValueError, match=message):
        ReplyIndex.build(encoder, **{"replies": REPLIES} | options)


def test_missing_extra_is_named_where_it_is_needed(encoder, monkeypatch, tmp_path):
    for name in ("faiss", "pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    ReplyIndex.build(encoder, REPLIES).save(tmp_path / "index")
    assert len(ReplyIndex.load(tmp_path / "index", encoder).suggest("hello", 2)) == 2
    monkeypatch.setattr(search, "FAISS_FROM", 3)
    with pytest.raises(ValueError, match=r"searching 3 replies or more needs faiss-cpu: pip install .*\[suggest"):
        ReplyIndex.build(encoder, REPLIES)


def test_vectors_that_are_not_finite_are_refused(tiny_tokenizer, encoder, monkeypatch):
    """They would give no suggestions, without a word."""
    texts, model = make_texts(40), build("dan_input_network")
    built = ReplyIndex.build(encoder, texts)
    damaged = ReplyIndex(encoder, built.replies, np.full_like(built.vectors, np.nan))
    with pytest.raises(ValueError, match=r"the index contains damaged vectors \(not finite\): rebuild it"):
        damaged.suggest("hello")
    broken = Encoder(model, tiny_tokenizer)
    monkeypatch.setattr(broken.model, "vectors", lambda ids, side: np.full((len(ids), 8), np.nan, np.float32))
    index = ReplyIndex(broken, built.replies, built.vectors)
    with pytest.raises(ValueError, match=r"the model gives vectors that are not finite: its weights are damaged"):
        index.suggest("hello")
    model = build("dan")  # whose response vectors are not normalized
    with torch.no_grad():
        model.response_head.layers[-1].bias.fill_(1e6)
    with pytest.raises(ValueError, match=f"^{texts[0]!r}: the model gives a vector that is .* too large for float16"):
        ReplyIndex.build(Encoder(model, tiny_tokenizer), texts)


def test_what_is_no_text_is_refused(encoder):
    index = ReplyIndex.build(encoder, REPLIES)
    with pytest.raises(TypeError, match=r"build\(encoder, \[reply\], messages=\[message\]\)"):
        ReplyIndex.build(encoder, ["a"], "question")
    with pytest.raises(TypeError, match=r"suggest_many\(\[message\]\)"):
        index.suggest_many("hello")
    assert index.suggest_many([]) == []
    for text in (None, "\ud83d", 3):
        with pytest.raises(TextError, match=r"^texts\[4\] "):
            ReplyIndex.build(encoder, [*REPLIES[:4], text, *REPLIES])
        with pytest.raises(TextError, match=r"^texts\[0\] "):
            index.suggest(text)
