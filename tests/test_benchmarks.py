"""`make bench` at the smallest sizes: every contender of each area runs, without a GPU, bf16 or a network."""

import math
import re
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
import scipy.stats
from transformers import PreTrainedTokenizerFast

from modeling_convsim.encoding import Encoder
from tests.benchmarks import models
from tests.benchmarks.__main__ import AREAS, HERE, format_results, read_results
from tests.benchmarks.material import Material, prepare, smallest
from tests.benchmarks.measuring import Benchmark, Contender, alternate, build_entry
from tests.modeling_convsim.tiny_models import build
from tests.trainer.evaluation.invented_data import evaluation_data

LARGER = re.compile("adapt_.*(1000|3000)|_2048$|_steps_4$")


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    material = smallest(Path(tmp_path_factory.mktemp("benchmarks")))
    prepare(material)
    return material


@pytest.mark.parametrize("area", AREAS)
def test_the_benchmarks_of_an_area_run(area: str, material: Material) -> None:
    benchmarks = import_module(f"tests.benchmarks.{area}").BENCHMARKS
    benchmarks = {name: one for name, one in benchmarks.items() if not LARGER.search(name)}  # which differ in size only
    measured = alternate(material, list(benchmarks.values()), repeats=1)
    for name, benchmark in benchmarks.items():
        entry = build_entry(benchmark, measured, "")
        assert math.isfinite(entry["ratio"]) and entry["ratio"] >= 0, name


def test_models_are_measured(
    tiny_tokenizer: PreTrainedTokenizerFast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"1234")
    monkeypatch.setattr(models, "REPEATS", 1)
    encoder = Encoder(build("dan"), tiny_tokenizer)
    measured = models.measure({"dan": (encoder, tmp_path)}, evaluation_data(), 20, 0.01)["dan"]
    assert measured["response_prediction"]["queries"] == 20 and 0 < measured["cqa"]["test2017"]["map"] <= 1
    assert -1 <= measured["stsb"]["test"]["all"]["pearson"] <= 1
    assert measured["bytes"] == 4 and measured["sentences_per_second"] > 0


def test_universal_sentence_encoder_returns_unit_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "BATCH", 2)
    vectors = models.UniversalSentenceEncoder().encode(["hello", "hi", "the dog"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), [1] * 3, rtol=1e-5)


def test_the_page_has_a_row_for_each_result() -> None:
    results = read_results(HERE / "results.json")
    lines = format_results(results, "a machine").splitlines()
    rows = [line.split(" | ")[0].strip("| ") for line in lines if line.startswith("| ")]
    assert set(results) <= set(rows)
    written = (HERE / "results.md").read_text(encoding="utf-8").splitlines()
    assert written[:3] + written[4:] == lines[:3] + lines[4:]  # without the machine


def test_timings_have_the_interval_of_their_paired_ratios() -> None:
    ours, peer = Contender("ours", prepare), Contender("a peer", prepare, {"other": True})
    values = {ours.key: [{"s": 2.0}, {"s": 6.0}, {"s": 5.0}], peer.key: [{"s": 1.0}, {"s": 2.0}, {"s": 2.0}]}
    entry = build_entry(Benchmark("", "s", 1, ours, peer), values, "")
    logs = np.log([2, 3, 2.5])
    expected = scipy.stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    assert entry["ratio"] == 2.5
    np.testing.assert_allclose(entry["ratio_interval"], np.exp([expected.low, expected.high]))
