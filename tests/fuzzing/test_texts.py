"""Texts through tokenizer, models, metrics, index and page: finite unit vectors, the same alone and in a batch."""

import importlib.util
import math
from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from data_scripts.tools.tokenizer import Kind, train_tokenizer
from modeling_convsim import ENCODERS
from modeling_convsim.encoding import Encoder
from modeling_convsim.suggestion import ReplyIndex
from tests.conftest import ROOT
from tests.fuzzing.strategies import is_unicode, texts
from tests.modeling_convsim.tiny_models import build
from trainer.evaluation.metrics.mean_average_precision.mean_average_precision import mean_average_precision
from trainer.evaluation.metrics.precision_at_n.precision_at_n import precision_at_n
from trainer.evaluation.metrics.sts_correlation.sts_correlation import sts_correlation

MEGABYTES = [
    "a" * 1_000_000,
    "the cat " * 125_000,
    "\u0301" * 500_000,
    "👩\u200d" * 150_000,
    "\0" * 1_000_000,
    "م" * 500_000,
]
FEW = max(settings.default.max_examples // 3, 3)


@pytest.fixture(scope="module")
def encoders(tiny_tokenizer: PreTrainedTokenizerFast) -> dict[str, Encoder]:
    return {kind: Encoder(build(kind), tiny_tokenizer) for kind in ENCODERS}


@pytest.fixture(scope="module")
def index(encoders: dict[str, Encoder]) -> ReplyIndex:
    return ReplyIndex.build(
        encoders["dan"], ["I like the dog", "a big house", "see you tomorrow", "no thanks", "ÄÖ 😀"]
    )


@pytest.mark.parametrize("kind", ENCODERS)
@settings(max_examples=FEW)
@given(table=st.lists(texts(), min_size=1, max_size=5))
def test_vectors_are_unit_vectors_and_independent_of_the_batch(
    encoders: dict[str, Encoder], kind: str, table: list[str]
) -> None:
    encoder = encoders[kind]
    for side in ("input", "response"):
        if not all(map(is_unicode, table)):
            with pytest.raises(ValueError, match="lone surrogate"):
                encoder.encode(table, side)
            continue
        vectors = encoder.encode(table, side)
        assert np.isfinite(vectors).all() and vectors.shape[0] == len(table)
        if side == "input":  # in CBOW, unknown words have no vector, and the mean of none is zero
            for text, norm in zip(table, np.linalg.norm(vectors, axis=1), strict=True):
                is_known = max(encoder.tokenizer(text)["input_ids"], default=0) > encoder.tokenizer.unk_token_id
                assert abs(norm - 1) < 1e-4 or (kind == "cbow" and norm == 0 and not is_known)
        alone = np.concatenate([encoder.encode([text], side) for text in table])
        assert np.allclose(vectors, alone, atol=2e-4 * max(1, np.abs(alone).max()))


@pytest.mark.parametrize("text", MEGABYTES, ids=[repr(text[:2]) for text in MEGABYTES])
def test_a_megabyte_is_encoded(encoders: dict[str, Encoder], text: str) -> None:
    vectors = encoders["dan"].encode([text, "the cat"])
    assert np.isfinite(vectors).all() and np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)


@settings(max_examples=FEW)
@given(table=st.lists(texts(surrogates=False), min_size=1, max_size=5), kind=st.sampled_from(get_args(Kind)))
def test_a_tokenizer_is_trained_on_any_texts(table: list[str], kind: Any) -> None:
    tokenizer = train_tokenizer(["the cat", *table], kind, vocab_size=100, min_count=1)
    assert tokenizer.pad_token_id == 0 and len(tokenizer) <= 100
    for text in table:
        ids = tokenizer(text)["input_ids"]
        assert all(0 <= token < len(tokenizer) for token in ids)
        assert tokenizer([text, "the cat"])["input_ids"][0][: len(ids)] == ids


@settings(max_examples=FEW)
@given(replies=st.lists(texts(), min_size=1, max_size=6), message=texts(), k=st.integers(-1, 9))
def test_an_index_suggests_its_own_texts(
    encoders: dict[str, Encoder], replies: list[str], message: str, k: int
) -> None:
    try:
        index = ReplyIndex.build(encoders["dan"], replies)
    except ValueError:
        assert not all(map(is_unicode, replies)) or not any(text.strip() for text in replies)
        return
    assert 0 < len(index) <= len(replies) and index.replies.counts.sum() <= len(replies)
    try:
        suggestions = index.suggest(message, k)
    except ValueError:
        assert k < 1 or not is_unicode(message)
        return
    assert len(suggestions) <= k and all(one.text in replies and math.isfinite(one.score) for one in suggestions)
    scores = [one.score for one in suggestions]
    assert scores == sorted(scores, reverse=True)


@settings(max_examples=FEW)
@given(
    text=texts(max_size=80),
    count=st.floats(1, 5),
    content=st.binary(max_size=50) | texts().map(lambda one: one.encode("utf-8", "surrogatepass")),
)
def test_the_page_answers_or_explains(
    index: ReplyIndex, page: Any, tmp_path: Path, text: str, count: float, content: bytes
) -> None:
    (tmp_path / "list.txt").write_bytes(content)
    uploaded, summary = page.read_list(index, str(tmp_path / "list.txt"))
    assert summary.startswith("<p>") and str(tmp_path) not in summary
    for function, arguments in (
        (page.compare, (index, text)),
        (page.suggest, (index, text, count)),
        (page.find_nearest, (uploaded, text)),
    ):
        try:
            html = function(*arguments)
        except page.gr.Error as error:
            assert error.message
            continue
        html.encode()
        assert "<b>" not in html and "<img" not in html


@pytest.fixture(scope="module")
def page() -> Any:
    pytest.importorskip("gradio", reason="the page needs Gradio: pip install -e '.[demo]'")
    spec = importlib.util.spec_from_file_location("fuzzed_page", ROOT / "model_cards" / "space" / "page.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


SCORES = st.floats(allow_subnormal=True, width=32)


@given(data=st.data(), queries=st.integers(0, 4), candidates=st.integers(0, 12))
def test_metrics_are_proportions_or_refuse(data: st.DataObject, queries: int, candidates: int) -> None:
    scores = np.array(data.draw(st.lists(SCORES, min_size=queries * candidates, max_size=queries * candidates)))
    scores = scores.reshape(queries, candidates)
    references = np.array(data.draw(st.lists(st.integers(-1, 12), min_size=queries, max_size=queries)), dtype=int)
    try:
        values = precision_at_n(scores, references)
        assert list(values.values()) == sorted(values.values()) and all(0 <= value <= 1 for value in values.values())
    except ValueError:
        assert not queries or candidates < 10 or not (references >= 0).all() or not (references < candidates).all()
    relevant = np.random.default_rng(0).integers(0, 2, scores.size)
    if scores.size:
        assert 0 <= mean_average_precision(scores.ravel(), relevant, np.arange(scores.size) % 3) <= 1


@pytest.mark.filterwarnings("ignore")
@given(pairs=st.lists(st.tuples(SCORES, SCORES), max_size=5))
def test_correlations_are_from_minus_one_to_one(pairs: list[tuple[float, float]]) -> None:
    predictions, gold = np.array(pairs).reshape(-1, 2).T
    try:
        values = sts_correlation(predictions, gold)
    except ValueError:
        assert len(pairs) < 2 or not np.isfinite(np.array(pairs)).all()
        return
    assert all(math.isnan(value) or -1.0000001 <= value <= 1.0000001 for value in values.values())
