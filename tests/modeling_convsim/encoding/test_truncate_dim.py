"""`truncate_dim`: vectors truncated by the encoder, the command and reply suggestion."""

import json

import numpy as np
import pytest
import torch

from modeling_convsim import ConvSimDanConfig, ConvSimDanForMultitask, ConvSimForMultitask
from modeling_convsim.encoding import Encoder, Side
from modeling_convsim.encoding import __main__ as encoding
from modeling_convsim.suggestion import ReplyIndex, search
from modeling_convsim.suggestion import __main__ as suggestion
from tests.modeling_convsim.encoding.test_encoder import TEXTS
from tests.modeling_convsim.suggestion.texts import QUERIES, make_texts
from tests.modeling_convsim.tiny_models import DAN, build, save

REPLIES = make_texts(120)


@pytest.fixture(scope="module")
def folder(tiny_tokenizer, tmp_path_factory):
    """A model with an embedding_size of 8, whose three sides differ."""
    return save(build("dan_input_network"), tiny_tokenizer, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def untruncated(folder):
    return Encoder.from_pretrained(folder, "cpu")


@pytest.fixture(scope="module")
def encoder(folder):
    return Encoder.from_pretrained(folder, "cpu", truncate_dim=5)


def build_model(kind: str) -> ConvSimForMultitask:
    if kind != "learned norms":
        return build(kind)
    torch.manual_seed(0)
    return ConvSimDanForMultitask(ConvSimDanConfig(**DAN, embedding_size=12, input_network=True))


def truncate(vectors: np.ndarray, size: int, keep_norm: bool = True) -> np.ndarray:
    """The first dimensions, in float64, rescaled to the vectors' norms or as they are."""
    vectors = vectors.astype(np.float64)
    first = vectors[:, :size]
    if not keep_norm:
        return first
    norms = np.linalg.norm(first, axis=1, keepdims=True)
    return first / np.where(norms > 0, norms, 1) * np.linalg.norm(vectors, axis=1, keepdims=True)


@pytest.mark.parametrize(
    ("kind", "side", "keep_norm"),
    [
        ("dan", "input", True),
        ("dan", "response", False),
        ("dan_best", "input", True),
        ("dan_best", "response", True),
        ("dan_input_network", "query", True),
        ("learned norms", "input", True),
        ("learned norms", "query", False),
        ("learned norms", "response", False),
        ("cbow", "query", True),
        ("transformer", "response", False),
        ("bilstm", "input", True),
    ],
)
@pytest.mark.parametrize("size", [1, 5])
def test_vectors_are_the_first_dimensions_with_the_norm_used_in_training(
    kind: str, side: Side, keep_norm: bool, size: int, tiny_tokenizer
):
    model = build_model(kind)
    expected = truncate(Encoder(model, tiny_tokenizer).encode(TEXTS, side), size, keep_norm)
    encoder = Encoder(model, tiny_tokenizer, truncate_dim=size)
    vectors = encoder.encode(TEXTS, side, batch_size=2)
    assert vectors.shape == (len(TEXTS), size) and vectors.dtype == np.float32 and encoder.embedding_size == size
    np.testing.assert_allclose(vectors, expected, rtol=1e-5, atol=1e-6)


def test_truncation_to_all_dimensions_keeps_the_vectors(folder, untruncated):
    encoder = Encoder.from_pretrained(folder, "cpu", truncate_dim=8)
    for side in ("input", "query", "response"):
        np.testing.assert_allclose(encoder.encode(TEXTS, side), untruncated.encode(TEXTS, side), rtol=1e-6, atol=1e-7)
    assert untruncated.embedding_size == encoder.embedding_size == 8


def test_empty_results_and_tensors_are_truncated(encoder):
    assert encoder.encode([]).shape == encoder.encode(iter([])).shape == (0, 5)
    assert encoder.encode(TEXTS, convert_to_tensor=True).shape == (len(TEXTS), 5)


def test_nli_logits_use_untruncated_embeddings(untruncated, encoder):
    np.testing.assert_array_equal(encoder.nli_logits(TEXTS, TEXTS[::-1]), untruncated.nli_logits(TEXTS, TEXTS[::-1]))
    assert encoder.encode(TEXTS).shape == (len(TEXTS), 5)


@pytest.mark.parametrize("size", [-1, 0, 9])
def test_size_out_of_range_is_refused(size, folder, untruncated, tmp_path, capsys):
    message = f"truncate_dim is {size}, expected 1 to 8, the model's embedding_size"
    with pytest.raises(ValueError, match=message):
        Encoder(untruncated.model, untruncated.tokenizer, size)
    with pytest.raises(ValueError, match=message):
        Encoder.from_pretrained(folder, "cpu", truncate_dim=size)
    (tmp_path / "texts.txt").write_text("hello\n")
    for main, arguments in ((encoding.main, [folder]), (suggestion.main, ["build", folder])):
        options = [*arguments, tmp_path / "texts.txt", "-o", tmp_path / "out.npy", f"--truncate_dim={size}"]
        if size < 1:  # which the parser refuses
            with pytest.raises(SystemExit, match="2"):
                main([str(option) for option in options])
            assert f"--truncate_dim: {size}: expected a whole number from 1" in capsys.readouterr().err
            continue
        assert main([str(option) for option in options]) == 2
        assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]


def test_command_writes_truncated_vectors(folder, untruncated, tmp_path, capsys):
    source, output = tmp_path / "texts.txt", tmp_path / "out.npy"
    source.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    assert encoding.main([str(folder), str(source), "-o", str(output), "--truncate_dim", "5"]) == 0
    assert "wrote 7 vectors of 5 dimensions" in capsys.readouterr().out
    np.testing.assert_allclose(np.load(output), truncate(untruncated.encode(TEXTS), 5), atol=1e-6)


@pytest.mark.parametrize("faiss_from", [1000, 1])
@pytest.mark.parametrize(("side", "query_side"), [("response", "query"), ("input", "input")])
def test_index_of_truncated_vectors_agrees_with_a_brute_force_search(
    faiss_from, side, query_side, untruncated, encoder, monkeypatch
):
    monkeypatch.setattr(search, "FAISS_FROM", faiss_from)
    index = ReplyIndex.build(encoder, REPLIES, side, duplicate_cosine=1)
    assert index.vectors.shape == (len(REPLIES), 5)
    scores = truncate(untruncated.encode(QUERIES, query_side), 5) @ truncate(untruncated.encode(REPLIES, side), 5).T
    for suggestions, row in zip(index.suggest_many(QUERIES, 4, -np.inf), scores, strict=True):
        actual = [one.score for one in suggestions]
        np.testing.assert_allclose(actual, -np.sort(-row)[:4], rtol=5e-3)
        by_text = dict(zip(REPLIES, row, strict=True))
        np.testing.assert_allclose(
            [one.score for one in suggestions], [by_text[one.text] for one in suggestions], rtol=5e-3
        )


@pytest.fixture
def saved(encoder, tmp_path):
    ReplyIndex.build(encoder, REPLIES).save(tmp_path / "index")
    return tmp_path / "index"


def test_saved_index_truncates_with_its_own_or_a_given_encoder(saved, untruncated, encoder):
    assert json.loads((saved / "index.json").read_text())["truncate_dim"] == 5
    expected = ReplyIndex.build(encoder, REPLIES).suggest_many(QUERIES)
    for given in (None, untruncated, encoder):
        opened = ReplyIndex.load(saved, given, "cpu")
        assert opened.encoder.embedding_size == 5 and opened.suggest_many(QUERIES) == expected
    assert untruncated.embedding_size == 8


def test_encoder_with_another_truncate_dim_is_refused(saved, folder, untruncated, encoder, tmp_path):
    with pytest.raises(
        ValueError, match=r"holds vectors of 5 dimensions, but the encoder's have 3: use an encoder without"
    ):
        ReplyIndex.load(saved, Encoder.from_pretrained(folder, "cpu", truncate_dim=3))
    ReplyIndex.build(untruncated, REPLIES).save(tmp_path / "untruncated")
    with pytest.raises(
        ValueError, match=r"holds vectors of 8 dimensions, but the encoder's have 5: use an encoder without"
    ):
        ReplyIndex.load(tmp_path / "untruncated", encoder)
