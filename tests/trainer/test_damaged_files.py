"""Damaged runs and wrong inputs of the commands that read finished runs: one line, exit code 2, no traceback."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.trainer.conftest import refusal
from tests.trainer.evaluation.invented_data import write_data_folder
from trainer.evaluation.__main__ import main as evaluate
from trainer.publish.__main__ import main as publish

WEIGHTS = "model/model.safetensors"


@pytest.fixture
def run(make_run: Any, tmp_path: Path) -> Path:
    """A finished run, to damage."""
    return make_run(tmp_path / "run")


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("results.json", "{"),
        ("results.json", '{"stsb": 3}'),
        ("results.json", '{"leakage": {"pairs": 3}}'),
        ("config.yaml", "a: [1"),
        ("config.yaml", "tasks: [1]"),
        ("model/config.json", "{"),
    ],
)
def test_a_damaged_file_of_a_run_is_named(run: Path, capsys: pytest.CaptureFixture[str], name: str, content: str):
    (run / name).write_text(content)
    line = refusal(capsys, publish, run, "--hub_model_id", "ORG/name", "--dry_run")
    assert str(run) in line and Path(name).name in line


@pytest.mark.parametrize("task", ["stsb", "stsb_tuned"])
def test_weights_that_are_not_finite_are_refused(run: Path, capsys: pytest.CaptureFixture[str], task: str) -> None:
    weights = {name: array * np.float32("nan") for name, array in load_file(run / WEIGHTS).items()}
    save_file(weights, run / WEIGHTS, metadata={"format": "pt"})
    data = write_data_folder(run)
    assert "not finite" in refusal(capsys, evaluate, run / "model", "--tasks", task, "--stsb", data / "stsb")
