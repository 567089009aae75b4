"""`ReplyIndex`: what it is built of, saved, opened and calibrated with, and what it refuses."""

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
from modeling_convsim.suggestion.deduplication import canonical_form
from tests.modeling_convsim.suggestion.texts import QUERIES, REPLIES, brute_force_best, make_texts
from tests.modeling_convsim.tiny_models import build


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


@pytest.mark.parametrize("faiss_from", [1000, 100])
@pytest.mark.parametrize(("side", "companion", "weight"), [
    ("response", "questions", 0.5), ("response", "questions", 0), ("response", None, 0), ("input", "answers", 0)
])  # fmt: skip
def test_an_index_after_additions_and_removals_is_one_built_anew(
    side, companion, weight, faiss_from, encoder, tmp_path, monkeypatch
):
    monkeypatch.setattr(search, "FAISS_FROM", faiss_from)
    generator, replies, messages = np.random.default_rng(0), make_texts(60), make_texts(60, 1)

    def draw(count):
        """Pairs whose replies differ in case and punctuation."""
        for number in generator.integers(len(replies), size=count):
            reply = [str.upper, str, "{}!".format, "({})".format][generator.integers(4)](replies[number])
            yield (messages[generator.integers(60)], reply)[:: 1 if side == "response" else -1]

    def build(pairs):
        texts, companions = ([pair[side] for pair in pairs] for side in ((1, 0) if side == "response" else (0, 1)))
        weights = {"message_weight": weight} if side == "response" else {}
        return ReplyIndex.build(encoder, texts, side, **({companion: companions} if companion else {}), **weights)

    index = build(pairs := list(draw(150)))
    changes, is_opened = 0, False
    while changes < 1000:
        index.add(added := list(draw(45)))
        known = [canonical_form(text) for text in index.replies.texts]
        removed = {known[row] for row in generator.integers(len(known), size=5)}
        index.remove(f"{form.upper()}?" for form in removed)
        pairs = [pair for pair in [*pairs, *added] if canonical_form(pair[side == "response"]) not in removed]
        changes += len(added) + len(removed)
        if 500 < changes < 550:
            index.save(tmp_path / "index")
            index, is_opened = ReplyIndex.load(tmp_path / "index", encoder), True
    anew = build(pairs)
    assert is_opened
    assert (index.replies.texts, index.replies.companions) == (anew.replies.texts, anew.replies.companions)
    assert index.replies.counts.tolist() == anew.replies.counts.tolist() and index.total == len(pairs)
    assert index.replies.variants == anew.replies.variants
    np.testing.assert_allclose(index.vectors, anew.vectors, atol=1e-3)
    assert index.threshold == pytest.approx(anew.threshold, abs=1e-5)
    for one, other in zip(index.suggest_many(QUERIES, 5), anew.suggest_many(QUERIES, 5), strict=True):
        assert [(each.text, each.count, each.question, each.answer) for each in one] == [
            (each.text, each.count, each.question, each.answer) for each in other
        ]
        assert [each.score for each in one] == pytest.approx([each.score for each in other], abs=2e-3)


def test_a_change_of_an_index_that_is_refused_changes_nothing(encoder):
    index = ReplyIndex.build(encoder, REPLIES, questions=REPLIES)
    index.calibration = choose_threshold(np.ones(20), np.ones(20, bool), 0.8)
    before = index.replies
    with pytest.raises(ValueError, match="not in the index: 'zebra'; nothing was removed"):
        index.remove(["no", "zebra"])
    with pytest.raises(ValueError, match="all replies of the index, and an index needs one: nothing was removed"):
        index.remove(REPLIES)
    with pytest.raises(TypeError, match=r"remove\(\[reply\]\)"):
        index.remove("no")
    with pytest.raises(TypeError, match=r"add\(\[\(message, reply\)\]\)"):
        index.add(("hello", "no"))
    with pytest.raises(TextError):
        index.add([("hello", "no"), ("hello", "\ud83d")])
    assert index.replies is before
    index.remove(["NO"])
    assert index.threshold == 1 - 1e-3 and "no" not in index.replies.texts


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
