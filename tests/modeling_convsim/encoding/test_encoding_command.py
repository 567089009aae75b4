"""The command that encodes a file."""

import sys

import numpy as np
import pyarrow
import pytest
import torch
from pyarrow import parquet
from safetensors.torch import load_file, save_file

from modeling_convsim.encoding import Encoder
from modeling_convsim.encoding.__main__ import main
from tests.modeling_convsim.encoding.test_encoder import TEXTS
from tests.modeling_convsim.tiny_models import build, save


@pytest.fixture(scope="module")
def folder(tiny_tokenizer, tmp_path_factory):
    return save(build("dan_best"), tiny_tokenizer, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def encoder(folder):
    return Encoder.from_pretrained(folder, device="cpu")


def run(*arguments: object) -> int:
    return main([str(argument) for argument in arguments])


def test_command_reads_and_writes_parquet(folder, encoder, tmp_path):
    source, output = tmp_path / "texts.parquet", tmp_path / "out.parquet"
    parquet.write_table(pyarrow.table({"response": TEXTS}), source)
    assert run(folder, source, "--column", "response", "--side", "response", "-o", output) == 0
    table = parquet.read_table(output)
    assert table.column("text").to_pylist() == TEXTS
    np.testing.assert_array_equal(
        np.stack(table.column("embedding").to_pylist()).astype(np.float32), encoder.encode(TEXTS, side="response")
    )


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_command_writes_many_parts_into_one_file(suffix, folder, encoder, tmp_path):
    texts = [f"{text} {index}" for index in range(300) for text in TEXTS]
    source, output = tmp_path / "texts.txt", tmp_path / f"out{suffix}"
    source.write_bytes("\r\n".join(texts).encode() + b"\r\n")
    assert run(folder, source, "--dtype", "float32", "--device", "cpu", "-o", output) == 0
    if suffix == ".parquet":
        table = parquet.read_table(output)
        assert table.column("text").to_pylist() == texts
        vectors = np.stack(table.column("embedding").to_pylist()).astype(np.float32)
    else:
        vectors = np.load(output)
        assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors, encoder.encode(texts), atol=1e-6)


def test_error_late_in_a_file_leaves_no_output_file(folder, tmp_path, capsys):
    (tmp_path / "texts.txt").write_bytes(b"hello\n" * 9000 + b"na\xefve\n")
    assert run(folder, tmp_path / "texts.txt", "-o", tmp_path / "out.npy") == 2
    assert "texts.txt:9001: not UTF-8" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["texts.txt"]


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("weights", "its weights lack encoder.embed_tokens.weight"),
        ("type", "its type is 'bert', expected one that starts with convsim_"),
    ],
)
def test_broken_folder_gives_one_message_and_exit_code_2(kind, message, tiny_tokenizer, tmp_path, capsys):
    source = tmp_path / "texts.txt"
    source.write_text("hello\n")
    path = save(build("dan_best"), tiny_tokenizer, tmp_path / "model")
    if kind == "type":
        (path / "config.json").write_text('{"model_type": "bert"}')
    else:
        weights = load_file(path / "model.safetensors")
        del weights["encoder.embed_tokens.weight"]
        save_file(weights, path / "model.safetensors", metadata={"format": "pt"})
    capsys.readouterr()
    assert run(path, source, "-o", tmp_path / "out.npy") == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1 and message in errors[0] and str(path) in errors[0]
    assert not (tmp_path / "out.npy").exists()


def test_parquet_without_pyarrow_names_the_package_to_install(folder, tmp_path, capsys, monkeypatch):
    for name in ("pyarrow", "pyarrow.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    (tmp_path / "texts.parquet").touch()
    assert run(folder, tmp_path / "texts.parquet", "-o", tmp_path / "out.npy") == 2
    assert "needs pyarrow: pip install -e" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "out.csv"], "--output out.csv: expected a name that ends in .npy or .parquet"),
        (["-o", "no/out.npy"], "--output no/out.npy: there is no folder no; create it first"),
        (
            ["-o", "out.npy", "--column", "body"],
            "--column body: texts.txt has no columns; omit --column or use a table",
        ),
        (
            ["-o", "out.npy", "--overwrites", "8"],
            "unknown argument '--overwrites'; did you mean '--overwrite'",
        ),
    ],
)
def test_wrong_option_gives_one_line_and_exit_code_2(options, message, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        run("model", "texts.txt", *options)
    error = capsys.readouterr().err
    assert error.startswith(f"error: {message}") and error.count("\n") == 1


@pytest.mark.parametrize("overwrite", [[], ["--overwrite"]])
def test_a_file_of_the_user_stays(folder, tmp_path, capsys, overwrite):
    """The input always, another file unless it may be replaced."""
    table = pyarrow.table({"text": ["hello", "the dog"], "label": [1, 2]})
    parquet.write_table(table, tmp_path / "texts.parquet")
    (tmp_path / "mine.npy").write_bytes(b"notes")
    with pytest.raises(SystemExit):
        run(folder, tmp_path / "texts.parquet", "-o", tmp_path / "texts.parquet", *overwrite)
    assert "is also the input" in capsys.readouterr().err
    assert parquet.read_table(tmp_path / "texts.parquet") == table
    if overwrite:
        assert run(folder, tmp_path / "texts.parquet", "-o", tmp_path / "mine.npy", *overwrite) == 0
        assert np.load(tmp_path / "mine.npy").shape[0] == 2
        return
    with pytest.raises(SystemExit):
        run(folder, tmp_path / "texts.parquet", "-o", tmp_path / "mine.npy")
    assert "exists; name another file, or replace it with --overwrite" in capsys.readouterr().err
    assert (tmp_path / "mine.npy").read_bytes() == b"notes"


def test_vectors_that_overflow_are_an_error(folder, tiny_tokenizer, tmp_path, capsys):
    """Finite weights can give vectors that are not finite."""
    model = build("dan_best")
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.dim() == 2 and "head" not in name:
                parameter.mul_(1e37)
    (tmp_path / "texts.txt").write_text("hello\nthe dog\n")
    path = save(model, tiny_tokenizer, tmp_path / "model")
    assert run(path, tmp_path / "texts.txt", "-o", tmp_path / "out.npy") == 2
    assert "gives vectors that are not finite" in capsys.readouterr().err and not (tmp_path / "out.npy").exists()
