"""Exported models give the vectors of the model in torch, in other engines; mistakes give one message."""

import contextlib
import io
import json
import math
import random
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
import torch
from model2vec import StaticModel
from sentence_transformers import SentenceTransformer
from transformers import PreTrainedTokenizerFast

from data_scripts.files.errors import InputError
from modeling_convsim.encoding import Encoder
from tests.conftest import WORDS
from tests.modeling_convsim.tiny_models import build
from trainer.export import __main__ as command
from trainer.export import export as exporting
from trainer.export import onnx_export
from trainer.export.onnx_export import OnnxEncoder, write_onnx
from trainer.export.static_export import StaticEncoder, write_static

ROOT = Path(__file__).resolve().parents[3]
SIDES = {"input": "sentence_embedding", "query": "query_embedding", "response": "response_embedding"}
STSB = [
    ("main-captions", 5.0, "the cat runs", "the cat runs today"),
    ("main-captions", 1.0, "the dog eats", "we like the big city"),
    ("main-news", 4.0, "what is new today?", "what is new tomorrow?"),
    ("main-news", 0.5, "where is the house", "i love birds"),
]


def random_texts(count: int, seed: int) -> list[str]:
    """Texts of 0 to 80 words, more than the tokenizer's limit of 64, every eighth word unknown."""
    draw = random.Random(seed)
    words = [*WORDS, *["zzz"] * (len(WORDS) // 8)]
    return [" ".join(draw.choices(words, k=draw.choice([0, 1, 2, 5, 9, 17, 80]))) for _ in range(count)]


def save_run(kind: str, run: Path, tokenizer: PreTrainedTokenizerFast) -> Path:
    build(kind).save_pretrained(run / "model")
    tokenizer.save_pretrained(run / "model")
    return run


def save_stsb(folder: Path) -> Path:
    """An STS-B that has a dev split only, in its original form."""
    folder.mkdir()
    rows = [f"{genre}\tfile\t2015\t1\t{score}\t{first}\t{second}\n" for genre, score, first, second in STSB]
    (folder / "sts-dev.csv").write_text("".join(rows))
    return folder


def cosines(found: np.ndarray, wanted: np.ndarray) -> np.ndarray:
    found, wanted = found.astype(np.float64), wanted.astype(np.float64)
    return (found * wanted).sum(1) / (np.linalg.norm(found, axis=1) * np.linalg.norm(wanted, axis=1))


def initializers(folder: Path) -> dict[str, np.ndarray]:
    graph = onnx.load(folder / "model.onnx").graph
    return {weight.name: onnx.numpy_helper.to_array(weight) for weight in graph.initializer}


@pytest.fixture
def few_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The speed of a few texts only."""
    monkeypatch.setattr(exporting, "sample_texts", lambda: random_texts(10, seed=1))


def refusal(capsys: pytest.CaptureFixture, *arguments: object) -> str:
    """The one line that a refused command prints."""
    capsys.readouterr()
    assert command.main([str(argument) for argument in arguments]) == 2
    (message,) = capsys.readouterr().err.splitlines()
    assert message.startswith("error: ")
    return message


# -- ONNX -------------------------------------------------------------------------------------------------------------


@pytest.fixture(
    scope="module",
    params=[
        "dan",
        "dan_input_network",
        "dan_lexical",
        "dan_words",
        "transformer",
        "transformer_residual",
        "cbow",
    ],
)
def exported(request, tiny_tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory):
    """The encoder in torch, and in onnxruntime."""
    encoder, folder = Encoder(build(request.param), tiny_tokenizer), tmp_path_factory.mktemp(request.param)
    write_onnx(encoder, folder, "float32", "float32")
    return encoder, OnnxEncoder(folder)


def test_onnxruntime_gives_the_models_vectors_on_every_side(exported):
    encoder, found = exported
    assert ("query_embedding" in found.sizes) == encoder.model.has_query_vectors
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


@pytest.mark.parametrize(
    ("kind", "form", "message"),
    [
        ("bilstm", "onnx", "this encoder does not support ONNX"),
        ("dan", "static", "a convsim_dan model has layers on top"),
    ],
)
def test_an_encoder_without_this_form_is_refused(tiny_tokenizer, tmp_path: Path, capsys, kind, form, message):
    run = save_run(kind, tmp_path / "run", tiny_tokenizer)
    assert message in refusal(capsys, run, "--format", form, "-o", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_model_larger_than_an_onnx_file_is_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(onnx_export, "LARGEST_FILE", 1000)
    with pytest.raises(InputError, match="an ONNX file holds at most 2 GB"):
        onnx_export.build_graph(onnx_export.OnnxForm(build("cbow")))


# -- fewer bits -------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def dan(tiny_tokenizer: PreTrainedTokenizerFast):
    """A DAN with bigrams, residual layers and token weights, and its graph, built once."""
    encoder = Encoder(build("dan_best"), tiny_tokenizer)
    return encoder, onnx_export.build_graph(onnx_export.OnnxForm(encoder.model))


@pytest.mark.parametrize(
    ("precision", "embeddings", "lowest"),
    [
        ("float32", "float32", 1 - 1e-9),
        ("float16", "float16", 0.99999),
        ("float16", "float32", 0.99999),
        ("float32", "int8", 0.9995),
        ("int8", "float32", 0.999),
        ("int8", "int8", 0.999),
    ],
)
def test_lower_precision_changes_the_direction_of_vectors_little(
    dan, precision: str, embeddings: str, lowest: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    encoder, graph = dan
    monkeypatch.setattr(onnx_export, "build_graph", lambda _: type(graph).FromString(graph.SerializeToString()))
    write_onnx(encoder, tmp_path, precision, embeddings)
    found, texts = OnnxEncoder(tmp_path), random_texts(100, seed=3)
    for side in ("input", "response"):
        assert cosines(found.encode(texts, side), encoder.encode(texts, side)).min() > lowest
    types = {name: array.dtype for name, array in initializers(tmp_path).items()}
    stored = {"float32": np.float32, "float16": np.float16, "int8": np.int8}
    for table in ("encoder.embed_tokens.weight", "encoder.embed_bigrams.weight"):
        assert types[table] == stored[embeddings]
    matrices = {"float32": "encoder.layers.0.weight", "float16": "encoder.layers.0.weight_float16"}
    if precision in matrices:
        assert types[matrices[precision]] == stored[precision]
    else:
        assert np.dtype(np.uint8) in [kind for name, kind in types.items() if "layers" in name]


def test_every_row_of_an_int8_embedding_matrix_is_quantized_with_its_own_scale(dan):
    encoder, graph = dan
    compressed = type(graph).FromString(graph.SerializeToString())
    onnx_export.compress_embeddings(compressed, "int8")
    weights = {weight.name: onnx.numpy_helper.to_array(weight) for weight in compressed.graph.initializer}
    table = encoder.model.encoder.embed_tokens.weight.detach().double().numpy()
    stored, scales = (weights[f"encoder.embed_tokens.weight{end}"] for end in ("", "_scales"))
    assert (stored.dtype, scales.shape) == (np.int8, (len(table), 1))
    assert (np.abs(stored).max(axis=1) == 127).all()
    assert (np.abs(stored * scales.astype(np.float64) - table) <= scales * 0.5001).all()


@pytest.mark.parametrize(
    ("difference", "precision"),
    [
        ({"largest": 2e-4, "lowest_cosine": 1.0}, "float32"),
        ({"largest": math.nan, "lowest_cosine": 1.0}, "float32"),
        ({"largest": 1e-3, "lowest_cosine": 0.9998}, "float16"),
        ({"largest": 1e-1, "lowest_cosine": 0.98}, "int8"),
        ({"largest": 1e-1, "lowest_cosine": math.nan}, "int8"),
    ],
)
def test_vectors_that_are_not_the_models_are_refused(difference: dict[str, float], precision: str):
    with pytest.raises(InputError, match="not exported: "):
        exporting.verify_vectors(difference, precision)


# -- static -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_model2vec_gives_the_vectors_of_a_cbow_encoder(tiny_tokenizer, tmp_path: Path, precision: str):
    encoder = Encoder(build("cbow"), tiny_tokenizer)
    write_static(encoder, tmp_path, precision, precision)
    texts = [text for text in random_texts(100, seed=4) if set(text.split()) - {"zzz"}]
    found, wanted = StaticModel.from_pretrained(tmp_path).encode(texts), encoder.encode(texts)
    assert found.dtype == np.dtype(precision)
    short = [len(text.split()) <= 64 for text in texts]  # model2vec truncates longer texts by characters too
    assert np.allclose(np.linalg.norm(found.astype(np.float32), axis=1), 1, atol=1e-2)
    assert cosines(found, wanted)[short].min() > 0.9999
    assert StaticEncoder(tmp_path).encode(["zzz", ""]).any() == encoder.encode(["zzz", ""]).any() == False  # noqa: E712


def test_sentence_transformers_reads_the_static_files_too(tiny_tokenizer, tmp_path: Path):
    encoder = Encoder(build("cbow"), tiny_tokenizer)
    write_static(encoder, tmp_path, "float32", "float32")
    texts = ["How old is the cat?", "we zzz walk zzz", "[PAD] we [PAD] walk"]
    found = SentenceTransformer(str(tmp_path), device="cpu").encode(texts)
    assert np.allclose(found, encoder.encode(texts), atol=1e-5)


# -- the command ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "options", "file"),
    [("dan_best", ["--embeddings", "int8"], "model.onnx"), ("cbow", ["--format", "static"], "model.safetensors")],
)
def test_the_command_measures_and_its_readme_can_be_followed(
    tiny_tokenizer, tmp_path: Path, kind: str, options: list[str], file: str, capsys, monkeypatch: pytest.MonkeyPatch
):
    run, stsb = save_run(kind, tmp_path / "run", tiny_tokenizer), save_stsb(tmp_path / "stsb")
    output = tmp_path / "new" / "out"
    assert command.main([str(run), *options, "-o", str(output), "--stsb", str(stsb)]) == 0
    report = json.loads((output / "export.json").read_text())
    assert report["size_mb"]["exported"] == (output / file).stat().st_size / 1e6
    assert min(report["sentences_per_second"].values()) > 0
    assert set(report["stsb"]) == {"dev"}
    assert report["stsb"]["dev"]["exported"] == pytest.approx(report["stsb"]["dev"]["torch"], abs=0.02)
    assert report["difference"]["lowest_cosine"] > 0.99
    assert "STS-B dev, Pearson's r" in capsys.readouterr().out
    assert str(ROOT).encode() not in (output / file).read_bytes()
    assert {"config.json", "tokenizer.json", "tokenizer_config.json", "README.md"} < {p.name for p in output.iterdir()}
    monkeypatch.chdir(output)
    code = (output / "README.md").read_text().split("```python\n")[1].split("```")[0]
    names: dict[str, np.ndarray] = {}
    with contextlib.redirect_stdout(io.StringIO()):
        exec(code, names)
    wanted = Encoder.from_pretrained(run / "model").encode(["How old are you?", "What is your age?"])
    assert cosines(names["embeddings"], wanted).min() > 0.999


def test_the_graph_of_another_model_is_refused_and_nothing_is_written(
    tiny_tokenizer, tmp_path: Path, few_texts, capsys, monkeypatch: pytest.MonkeyPatch
):
    run = save_run("cbow", tmp_path / "run", tiny_tokenizer)
    other = onnx_export.OnnxForm(build("cbow"))
    with torch.no_grad():
        other.encoder.get_input_embeddings().weight += 1
    graph = onnx_export.build_graph(other)
    monkeypatch.setattr(onnx_export, "build_graph", lambda _: graph)
    assert "not exported: the vectors differ from the model's" in refusal(capsys, run, "-o", tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["MODEL", "-o", "."], "--output .: exists already"),
        (
            ["MODEL", "-o", "out", "--format", "static", "--embeddings", "int8"],
            "--embeddings: a static file is only an embedding table",
        ),
        (
            ["MODEL", "-o", "out", "--format", "static", "--precision", "int8"],
            "--precision int8: --format static does not have it",
        ),
        (["MODEL", "-o", "MODEL/model/config.json/out"], "cannot be written"),
        (["no/such/model", "-o", "out"], "cannot open the model no/such/model"),
        (["MODEL", "-o", "out", "--stsb", "EMPTY"], "EMPTY: "),
        (["MODEL", "-o", "out", "--stsb", "STSB"], "--stsb STSB: has no dev split"),
    ],
)
def test_mistakes_give_one_line(tiny_tokenizer, tmp_path, arguments, message, capsys, monkeypatch):
    save_run("cbow", tmp_path / "MODEL", tiny_tokenizer)
    (tmp_path / "EMPTY").mkdir()
    (save_stsb(tmp_path / "STSB") / "sts-dev.csv").rename(tmp_path / "STSB" / "sts-test.csv")
    monkeypatch.chdir(tmp_path)
    assert message in refusal(capsys, *arguments)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["EMPTY", "MODEL", "STSB"]


@pytest.mark.parametrize("module", ["onnx", "onnxscript", "onnxruntime", "model2vec"])
def test_a_missing_package_is_named_with_the_extra(tiny_tokenizer, tmp_path, module, capsys, monkeypatch):
    run = save_run("cbow", tmp_path / "run", tiny_tokenizer)
    monkeypatch.setitem(sys.modules, module, None)
    options = ["--format", "static"] if module == "model2vec" else []
    message = refusal(capsys, run, *options, "-o", tmp_path / "out")
    assert f"exporting needs {module}" in message
    assert "pip install 'convsim[export]'" in message
