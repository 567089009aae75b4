"""Writes the published folder of a saved model, as the end of a training run does."""

import sys
from pathlib import Path

from transformers import AutoModelForPreTraining, AutoTokenizer

import modeling_convsim  # noqa: F401  registers the models
from data_scripts.command_line import run_stoppable
from data_scripts.errors import InputError
from trainer.publish.folder import build_folder

RESULTS = {
    "response_prediction": {"p_at_1": 0.25, "candidates": 100, "queries": 321, "split": "test"},
    "snli": {"accuracy": 0.75, "split": "test"},
    "run": {"steps": 7, "seconds": 1.5, "parameters": 1234},
}
SETTINGS = {
    "pairs": ["talk/pairs"],
    "tasks": {"response_prediction": 1.0},
    "max_tokens": 64,
    "hub_model_id": "ORG/talker",
}


def main(arguments: list[str]) -> int:
    """Write the folder of the second argument for the model of the first."""
    return run_stoppable(lambda: _run(*map(Path, arguments)))


def _run(model: Path, folder: Path) -> int:
    try:
        tokenizer = AutoTokenizer.from_pretrained(model)
        build_folder(
            AutoModelForPreTraining.from_pretrained(model), tokenizer, folder, results=RESULTS, settings=SETTINGS
        )
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0
