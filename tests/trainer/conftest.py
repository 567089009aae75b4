"""Finished runs of tiny models, built once for each kind of encoder."""

import functools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from transformers import PreTrainedTokenizerFast

from tests.modeling_convsim.tiny_models import build

SETTINGS = {"pairs": ["talk/pairs"], "tasks": {"response_prediction": 1.0}, "max_tokens": 64}
RESULTS = {
    "response_prediction": {"p_at_1": 0.25, "candidates": 100, "queries": 321, "split": "test"},
    "snli": {"accuracy": 0.75, "split": "test"},
    "run": {"steps": 7, "seconds": 1.5, "parameters": 1234},
}


@pytest.fixture(scope="session")
def built_run(tiny_tokenizer: PreTrainedTokenizerFast, tmp_path_factory: pytest.TempPathFactory) -> Callable:
    """Gives the folder of a run by the kind of its model, which no test may change."""

    @functools.cache
    def build_run(kind: str) -> Path:
        from trainer.publish.folder import build_folder  # takes seconds

        run = tmp_path_factory.mktemp(kind) / "run"
        build_folder(build(kind), tiny_tokenizer, run / "model", results=RESULTS, settings=SETTINGS)
        (run / "results.json").write_text(json.dumps(RESULTS))
        (run / "config.yaml").write_text(yaml.safe_dump(SETTINGS))
        return run

    return build_run


@pytest.fixture(scope="session")
def make_run(built_run: Callable[[str], Path]) -> Callable[..., Path]:
    """Copies such a run to a folder, and returns it."""
    return lambda run, kind="dan": Path(shutil.copytree(built_run(kind), run))


def refusal(capsys: pytest.CaptureFixture[str], command: Callable[[list[str]], int], *words: object) -> str:
    """The one line of a command that must end with exit code 2."""
    capsys.readouterr()
    assert command([str(word) for word in words]) == 2
    printed = capsys.readouterr().err.splitlines()
    (line,) = [line for line in printed if line.strip() and " examples" not in line and "?it/s" not in line]
    assert line.startswith("error: ")
    return line
