"""Measurements: each value is measured once, by the evaluators. The encoders are invented."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.trainer.evaluation.fake_encoder import FakeEncoder
from tests.trainer.evaluation.invented_data import evaluation_data
from tests.trainer.report.folders import write_run
from trainer.data.datasets import EvaluationData
from trainer.evaluation.evaluators import evaluate_encoder
from trainer.report import measurements as module
from trainer.report.measurements import Measurements

SOURCES = {name: f"data/{name}" for name in ("stsb", "snli", "cqa", "sts")} | {"pairs": ["data/pairs"]}


class CountingLoader:
    """Replaces `load_encoder`: a fake encoder for each model, and the models that were loaded."""

    def __init__(self) -> None:
        self.loaded: list[str] = []
        self.encoders: list[FakeEncoder] = []

    def __call__(self, model: str) -> FakeEncoder:
        self.loaded.append(Path(model).parent.name)
        self.encoders.append(FakeEncoder(size=8 + len(Path(model, "model.safetensors").read_text()) % 3))
        return self.encoders[-1]

    @property
    def encoded(self) -> int:
        return sum(len(encoder.calls) for encoder in self.encoders)


@pytest.fixture
def loader(monkeypatch: pytest.MonkeyPatch) -> CountingLoader:
    counting = CountingLoader()
    monkeypatch.setattr(module, "load_encoder", counting)
    return counting


@pytest.fixture(scope="module")
def data() -> EvaluationData:
    return evaluation_data()


def test_scores_are_those_of_the_evaluators_and_measured_once(tmp_path, loader, data):
    system = write_run(tmp_path / "run")
    expected = evaluate_encoder(loader(str(system.model)), data, "both", ["stsb", "cqa"], intervals=True)
    before = loader.encoded
    measurements = Measurements(data, SOURCES, tmp_path / "measured")
    assert {name: measurements.scores(system, name) for name in ("stsb", "cqa")} == expected
    after = loader.encoded
    assert after > before
    assert measurements.scores(system, "stsb") == expected["stsb"]
    # Another object, as in another call of the command, reads what the first one saved.
    again = Measurements(data, SOURCES, tmp_path / "measured")
    assert again.scores(replace(system), "stsb") == expected["stsb"]
    assert loader.encoded == after and loader.loaded == ["run", "run"]


@pytest.mark.parametrize("changed", ["weights", "data"])
def test_other_weights_or_data_discard_the_measurements(tmp_path, loader, data, changed):
    system = write_run(tmp_path / "run")
    Measurements(data, SOURCES, tmp_path / "measured").scores(system, "stsb")
    before = loader.encoded
    if changed == "weights":
        (system.model / "model.safetensors").write_text("others")
    else:
        test = data["stsb"]["test"]
        data = {**data, "stsb": {**data["stsb"], "test": test.select(range(len(test) - 1))}}  # in the same folder
    measurements = Measurements(data, SOURCES, tmp_path / "measured")
    scores = measurements.scores(system, "stsb")
    assert loader.encoded > before
    assert scores == evaluate_encoder(loader(str(system.model)), data, "both", ["stsb"], intervals=True)["stsb"]
    # The new measurements have replaced the old ones.
    after = loader.encoded
    assert measurements.scores(system, "stsb") == scores and loader.encoded == after


KNOWN: dict[str, Any] = {
    "stsb": {"dev": {"all": {"pearson": 0.5}}, "test": {"all": {"pearson": 0.25}}},
    "cqa": {"dev": {"map": 0.5}, "test2017": {"map": 0.125}},
    "snli": {"accuracy": 0.75, "split": "test"},
    "response_prediction": {"p_at_1": 0.375, "split": "test"},
    "sts": {"2012": {"MSRpar": {"pearson": 0.5, "spearman": 0.5, "pairs": 3}}},
}
OPTIONS = {"stsb": "stsb", "cqa": "cqa", "snli": "snli", "sts": "sts", "response_prediction": "pairs"}


@pytest.mark.parametrize("task", KNOWN)
def test_scores_of_a_run_on_the_same_source_are_used(tmp_path, loader, data, task):
    system = write_run(tmp_path / "run", settings=SOURCES, results=KNOWN)
    assert Measurements(data, SOURCES, tmp_path / "measured").scores(system, task) == KNOWN[task]
    assert loader.loaded == []


@pytest.mark.parametrize("task", ["stsb", "cqa", "sts", "response_prediction"])
def test_scores_of_a_run_on_another_source_are_measured_again(tmp_path, loader, data, task):
    settings = {**SOURCES, OPTIONS[task]: ["other"] if OPTIONS[task] == "pairs" else "other"}
    system = write_run(tmp_path / "run", settings=settings, results=KNOWN)
    scores = Measurements(data, SOURCES, tmp_path / "measured").scores(system, task)
    encoder = FakeEncoder(size=loader.encoders[0].size)
    assert scores == evaluate_encoder(encoder, data, "both", [task], intervals=True)[task]


def test_scores_that_cannot_be_measured_are_none(tmp_path: Path, loader: CountingLoader, data: EvaluationData) -> None:
    system = write_run(tmp_path / "run")
    assert Measurements({"stsb": data["stsb"]}, SOURCES, tmp_path / "measured").scores(system, "cqa") is None
    # A fake encoder has no inference classifier.
    assert Measurements(data, SOURCES, tmp_path / "measured").scores(system, "snli") is None
    assert json.loads((tmp_path / "measured" / "run.json").read_text())["snli"] is None


def test_angles_and_cosines_are_those_of_the_vectors(tmp_path, loader, data):
    system = write_run(tmp_path / "run")
    measurements = Measurements(data, SOURCES, tmp_path / "measured")
    encoder = FakeEncoder(size=loader(str(system.model)).size)

    def cosines(pairs: Any) -> np.ndarray:
        first, second = (encoder.encode(pairs[side]).astype(np.float64) for side in ("sentence1", "sentence2"))
        return (first * second).sum(1) / np.linalg.norm(first, axis=1) / np.linalg.norm(second, axis=1)

    for _ in range(2):  # measured, then read
        expected = -np.arccos(cosines(data["stsb"]["test"]))
        np.testing.assert_allclose(measurements.stsb_scores(system), expected, atol=1e-6)
        scores = measurements.sts_scores(system)
        assert list(scores) == list(measurements.sts_gold()) == ["2012 MSRpar", "2012 OnWN", "2014 OnWN"]
        for key, similarities in scores.items():
            year, name = key.split()
            np.testing.assert_allclose(similarities, cosines(data["sts"][year][name]), atol=1e-6)
