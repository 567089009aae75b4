"""Exported models give the vectors of their encoder, in other engines; mistakes give one message."""

import random
import shutil
import sys
from itertools import product
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from transformers import PreTrainedTokenizerFast

from modeling_convsim.encoding import Encoder
from modeling_convsim.files.errors import InputError
from tests.conftest import WORDS
from tests.modeling_convsim.tiny_models import build, save
from tests.trainer.conftest import refusal
from trainer.export import __main__ as command
from trainer.export import onnx_export
from trainer.export.onnx_export import OnnxEncoder, write_onnx

ROOT = Path(__file__).resolve().parents[3]
SIDES = {"input": "sentence_embedding", "query": "query_embedding", "response": "response_embedding"}


def random_texts(count: int, seed: int) -> list[str]:
    """Texts of 0 to 80 words, more than the tokenizer's limit of 64, every eighth word unknown."""
    draw = random.Random(seed)
    words = [*WORDS, *["zzz"] * (len(WORDS) // 8)]
    return [" ".join(draw.choices(words, k=draw.choice([0, 1, 2, 5, 9, 17, 80]))) for _ in range(count)]


# -- ONNX -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def run(tiny_tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run."""
    return save(build("cbow"), tiny_tokenizer, tmp_path_factory.mktemp("run") / "model").parent


MODELS = [("dan_lexical", {"input_network": True}), ("transformer_residual", {"num_hidden_layers": 1})]


@pytest.fixture(scope="module", params=MODELS, ids=lambda model: model[0])
def exported(request, tiny_tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory):
    """The encoder, and in onnxruntime."""
    kind, options = request.param
    model, folder = build(kind, **options), tmp_path_factory.mktemp(kind)
    write_onnx(model, tiny_tokenizer, folder)
    return Encoder(model, tiny_tokenizer), OnnxEncoder(folder)


def test_onnxruntime_gives_the_models_vectors_on_every_side(exported):
    encoder, found = exported
    assert ("query_embedding" in found.sizes) == encoder.has_query_vectors
    for side, name in SIDES.items():
        assert name in found.sizes or side == "query"
        for texts in (random_texts(150, seed=2), [""], ["zzz"], ["", ""], ["[PAD] cat [UNK]"], ["a the cat . zzz"] * 3):
            wanted = encoder.encode(texts, side)
            scale = max(1.0, np.linalg.norm(wanted, axis=1).max())
            assert np.abs(found.encode(texts, side) - wanted).max() / scale < 1e-4, (side, len(texts))


def test_padding_on_the_left_and_extra_padding_change_nothing(exported):
    _, found = exported
    ids = np.array([[5, 6, 7, 8]])
    plain = found.session.run(None, {"input_ids": ids, "attention_mask": np.ones_like(ids)})[0]
    padded = np.pad(ids, ((0, 0), (3, 2)), constant_values=9)
    mask = np.array([[0, 0, 0, 1, 1, 1, 1, 0, 0]])
    assert np.allclose(found.session.run(None, {"input_ids": padded, "attention_mask": mask})[0], plain, atol=1e-6)


def test_an_encoder_without_onnx_is_refused(tiny_tokenizer, tmp_path: Path, capsys):
    model = save(build("bilstm"), tiny_tokenizer, tmp_path / "model")
    assert "this encoder does not support ONNX" in refusal(capsys, command.main, model, "-o", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_a_model_larger_than_an_onnx_file_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(onnx_export, "LARGEST_FILE", 1000)
    with pytest.raises(InputError, match="an ONNX file holds at most 2 GB"):
        onnx_export.build_graph(onnx_export.OnnxForm(build("cbow")))


# -- the command ------------------------------------------------------------------------------------------------------


def test_the_command_writes_the_vectors_of_a_runs_model(run, tiny_tokenizer, tmp_path: Path, capsys, monkeypatch):
    output = tmp_path / "new" / "out"
    assert command.main([str(run), "-o", str(output)]) == 0
    assert f"saved in {output}; its vectors differ from the model's by at most " in capsys.readouterr().out
    files = {path.name: path.read_bytes() for path in output.iterdir()}
    assert {"config.json", "tokenizer.json", "tokenizer_config.json"} < files.keys()
    assert not [name for name, content in files.items() if str(ROOT).encode() in content]
    found, encoder = OnnxEncoder(output), Encoder.from_pretrained(run / "model")
    for side, texts in product(("input", "response"), (random_texts(150, seed=2), [""], ["", ""])):
        expected = encoder.encode(texts, side)
        np.testing.assert_allclose(found.encode(texts, side), expected, atol=1e-5 * max(1, np.abs(expected).max()))

    # the graph of another model is refused, and nothing is written
    other = build("cbow")
    with torch.no_grad():
        other.encoder.get_input_embeddings().weight += 1
    monkeypatch.setattr(onnx_export, "build_graph", lambda _: onnx.load(output / "model.onnx"))
    folder = save(other, tiny_tokenizer, tmp_path / "other")
    assert "not exported: the vectors differ from the model's" in refusal(
        capsys, command.main, folder, "-o", tmp_path / "out"
    )
    assert {path.name for path in tmp_path.iterdir()} == {"new", "other"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["MODEL", "-o", "."], "--output .: exists already"),
        (["MODEL", "-o", "MODEL/model/config.json/out"], "cannot be written"),
        (["no/such/model", "-o", "out"], "cannot open the model no/such/model"),
    ],
)
def test_mistakes_give_one_line(run, tmp_path, arguments, message, capsys, monkeypatch):
    shutil.copytree(run, tmp_path / "MODEL")
    monkeypatch.chdir(tmp_path)
    assert message in refusal(capsys, command.main, *arguments)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["MODEL"]


@pytest.mark.parametrize("module", ["onnx", "onnxscript", "onnxruntime"])
def test_a_missing_package_is_named_with_the_extra(run, tmp_path, module, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    message = refusal(capsys, command.main, run, "-o", tmp_path / "out")
    assert f"exporting needs {module}" in message
    assert "[export]'" in message
