"""Damaged runs and wrong inputs of the commands that read finished runs: one line, exit code 2, no traceback."""

import importlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.trainer.evaluation.invented_data import write_data_folder

WEIGHTS = "model/model.safetensors"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, make_run: Any) -> Path:
    """A finished run in run/, the datasets in data/, an empty folder and a file."""
    folder = tmp_path_factory.mktemp("damaged")
    make_run(folder / "run")
    (folder / "data").mkdir()
    write_data_folder(folder / "data")
    (folder / "empty").mkdir()
    (folder / "file").write_text("text")
    return folder


@pytest.fixture
def run(folder: Path, tmp_path: Path) -> Path:
    """A copy of the run, to damage."""
    return Path(shutil.copytree(folder / "run", tmp_path / "run"))


@pytest.fixture
def refused(folder: Path, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Calls a command on the run, which must end with exit code 2 and one line; returns it."""
    stsb = ("--stsb", folder / "data" / "stsb")
    commands: dict[str, tuple[Any, ...]] = {
        "publish": ("trainer.publish.__main__", run, "--hub_model_id", "ORG/name", "--dry_run"),
        "evaluate": ("trainer.evaluation.__main__", run / "model", "--tasks", "stsb", *stsb),
        "evaluate tuned": ("trainer.evaluation.__main__", run / "model", "--tasks", "stsb_tuned", *stsb),
    }

    def call(command: str, *options: Any) -> str:
        module, *argv = commands[command]
        capsys.readouterr()
        try:
            code = importlib.import_module(module).main([str(word) for word in (*argv, *options)])
        except SystemExit as error:  # from the parser
            code = error.code
        assert code == 2
        printed = capsys.readouterr().err.splitlines()
        lines = [line for line in printed if line.strip() and " examples" not in line and "?it/s" not in line]
        assert len(lines) == 1 and lines[0].startswith("error: ")
        return lines[0]

    return call


@pytest.mark.parametrize(
    ("name", "content", "commands"),
    [
        ("results.json", "{", ["publish"]),
        ("results.json", '{"stsb": 3}', ["publish"]),
        ("results.json", '{"leakage": {"pairs": 3}}', ["publish"]),
        ("config.yaml", "a: [1", ["publish"]),
        ("config.yaml", "tasks: [1]", ["publish"]),
        ("model/config.json", "{", ["publish"]),
    ],
)
def test_a_damaged_file_of_a_run_is_named(run, refused, name, content, commands):
    (run / name).write_text(content)
    for command in commands:
        assert str(run) in (line := refused(command)) and Path(name).name in line


@pytest.mark.parametrize("command", ["evaluate", "evaluate tuned"])
def test_weights_that_are_not_finite_are_refused(run: Path, refused: Callable[..., str], command: str) -> None:
    weights = {name: array * np.float32("nan") for name, array in load_file(run / WEIGHTS).items()}
    save_file(weights, run / WEIGHTS, metadata={"format": "pt"})
    assert "not finite" in refused(command)
