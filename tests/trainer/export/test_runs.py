"""The measurements of a run's export are in its results.json and its card, beside the model in torch."""

import json
import math
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.torch import load_file
from scipy import stats

from modeling_convsim.encoding import Encoder
from tests.trainer.conftest import RESULTS
from tests.trainer.export.test_export import STSB, refusal, save_stsb
from trainer.export import __main__ as command
from trainer.export import export as exporting
from trainer.publish import __main__ as publish_command
from trainer.publish import upload as publish

FLOAT = "onnxruntime, float32, embeddings float32"


@pytest.fixture
def run(make_run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a finished run, whose exports measure the speed on few texts."""
    monkeypatch.setattr(exporting, "sample_texts", lambda: ["we walk", "the cat runs"])
    return make_run(tmp_path / "tiny", "cbow")


def export_run(run: Path, output: Path, *options: object) -> dict:
    """Export a run; returns its results.json."""
    assert command.main([str(option) for option in (run, "-o", output, *options)]) == 0
    return json.loads((run / "results.json").read_text())


def rows(run: Path) -> list[list[str]]:
    """The cells of the card's table of exports."""
    section = (run / "model" / "README.md").read_text().partition("| engine and precision")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in section.splitlines()[2:]]


def test_the_card_shows_size_speed_and_stsb_beside_torch(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture):
    results = export_run(run, tmp_path / "out", "--stsb", save_stsb(tmp_path / "stsb"))
    assert (
        f"saved in {tmp_path / 'out'} and recorded in {run / 'results.json'} and its card\n" in capsys.readouterr().out
    )
    assert {name: part for name, part in results.items() if name != "export"} == RESULTS
    measured = results["export"][FLOAT]
    report = json.loads((tmp_path / "out" / "export.json").read_text())
    assert all(report[name] == value for name, value in measured.items())
    (row,) = rows(run)
    weights = load_file(run / "model" / "model.safetensors")
    held = sum(weight.numel() * 4 for name, weight in weights.items() if not name.startswith("nli_head."))
    size = (tmp_path / "out" / "model.onnx").stat().st_size
    assert row[:3] == [FLOAT, f"{size / 1e6:.1f}", f"{held / 1e6:.1f}"] and measured["size_mb"]["torch"] == held / 1e6
    speed = measured["sentences_per_second"]
    assert row[3:5] == [f"{speed['exported']:,.0f}", f"{speed['torch']:,.0f}"]
    encoder = Encoder.from_pretrained(run / "model")
    first, second = (encoder.encode([pair[place] for pair in STSB]).astype(np.float64) for place in (2, 3))
    angles = [1 - math.acos(min(1, u @ v)) / math.pi for u, v in zip(first, second, strict=True)]
    pearson = stats.pearsonr(angles, [pair[1] for pair in STSB]).statistic
    assert row[5:7] == [f"dev {pearson:.4f}"] * 2


def test_another_precision_adds_a_row_and_the_same_one_replaces_it(run: Path, tmp_path: Path):
    static = ("--format", "static")
    export_run(run, tmp_path / "one", *static)
    export_run(run, tmp_path / "two", *static, "--precision", "float16")
    (run / "results.json").write_text((run / "results.json").read_text().replace('"texts": 2', '"texts": 99'))
    results = export_run(run, tmp_path / "three", *static)
    assert list(results["export"]) == ["model2vec, float32", "model2vec, float16"] == [row[0] for row in rows(run)]
    assert [each["speed_of"]["texts"] for each in results["export"].values()] == [2, 99]
    assert [row[5:7] for row in rows(run)] == [["", ""]] * 2  # STS-B was not requested


def test_an_export_inside_of_the_model_is_published_with_it(run: Path, capsys: pytest.CaptureFixture):
    assert export_run(run, run / "model" / "onnx")["export"][FLOAT]["folder"] == "onnx"
    assert rows(run)[0][0] == f"{FLOAT} (`onnx/`)"
    assert publish_command.main([str(run), "--hub_model_id", "someone/tiny", "--dry_run"]) == 0
    assert re.search(r"^ +[\d,]+  \S+/model\.onnx$", capsys.readouterr().out, re.MULTILINE)
    assert (run / "model" / "onnx" / "model.onnx").is_file()
    assert "someone/tiny" in (run / "model" / "README.md").read_text() and rows(run)[0][0] == f"{FLOAT} (`onnx/`)"
    (run / "model" / "onnx").rename(run / "elsewhere")
    publish.write_run_card(run)
    assert rows(run)[0][0] == FLOAT


@pytest.mark.parametrize("text", ["{", "[]"])
def test_results_that_cannot_be_read_are_named_before_anything_is_written(run: Path, tmp_path: Path, text: str, capsys):
    (run / "results.json").write_text(text)
    assert f"{run / 'results.json'}: " in refusal(capsys, run, "-o", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_whole_model_repository_is_exported_and_stays_as_it_is(run: Path, tmp_path: Path, capsys):
    """Its results and settings lie beside its weights; what is rewritten after an export are those of a run."""
    repository = shutil.copytree(run / "model", tmp_path / "base")
    shutil.copy2(run / "results.json", repository)  # config.yaml is there
    before = {path: path.read_bytes() for path in repository.rglob("*") if path.is_file()}
    assert command.main([str(repository), "-o", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.endswith(f"saved in {tmp_path / 'out'}\n")
    assert {path: path.read_bytes() for path in repository.rglob("*") if path.is_file()} == before
    assert (tmp_path / "out" / "model.onnx").is_file()
