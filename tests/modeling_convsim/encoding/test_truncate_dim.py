"""`truncate_dim`: vectors truncated by the encoder and the command."""

import numpy as np
import pytest
import torch

from modeling_convsim import ConvSimDanConfig, ConvSimDanForMultitask, ConvSimForMultitask
from modeling_convsim.encoding import Encoder, Side
from modeling_convsim.encoding import __main__ as encoding
from tests.modeling_convsim.encoding.test_encoder import TEXTS
from tests.modeling_convsim.tiny_models import DAN, build, save


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
    options = [folder, tmp_path / "texts.txt", "-o", tmp_path / "out.npy", f"--truncate_dim={size}"]
    if size < 1:  # which the parser refuses
        with pytest.raises(SystemExit, match="2"):
            encoding.main([str(option) for option in options])
        assert f"--truncate_dim: {size}: expected a whole number from 1" in capsys.readouterr().err
    else:
        assert encoding.main([str(option) for option in options]) == 2
        assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]


def test_command_writes_truncated_vectors(folder, untruncated, tmp_path, capsys):
    source, output = tmp_path / "texts.txt", tmp_path / "out.npy"
    source.write_text("\n".join(TEXTS) + "\n", encoding="utf-8")
    assert encoding.main([str(folder), str(source), "-o", str(output), "--truncate_dim", "5"]) == 0
    assert "wrote 7 vectors of 5 dimensions" in capsys.readouterr().out
    np.testing.assert_allclose(np.load(output), truncate(untruncated.encode(TEXTS), 5), atol=1e-6)
