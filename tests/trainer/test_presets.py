"""Every preset trains for a few steps with its own options, except for tiny datasets and a tiny model."""

import dataclasses
import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from modeling_convsim import ENCODERS, Encoder
from modeling_convsim.shipped import base_model
from tests.trainer.tiny_backbone import save_backbone
from tests.trainer.tiny_datasets import write_datasets
from tests.trainer.training.tiny_runs import run_trainer
from trainer import run
from trainer.data.datasets import DATASET_KINDS
from trainer.settings import Settings, parse_settings, trained_tasks
from trainer.tasks import TASKS

PRESETS = sorted((Path(run.__file__).parent / "presets").glob("*.yaml"))
STEPS = 4  # the last step is in the late part of the schedule, if the preset has one
# Fields of an encoder's config -> the value that replaces the preset's, if the config has the field.
TINY_MODEL: dict[str, Any] = {
    "bigram_buckets": 64,
    "embedding_size": 16,
    "hidden_size": 16,
    "hidden_sizes": [16],
    "intermediate_size": 16,
    "nli_hidden_size": 16,
    "num_attention_heads": 2,
    "num_hidden_layers": 2,
    "response_hidden_sizes": [16],
    "word_embedding_size": 16,
}
# The same for options; an option that the preset does not use (None) stays unused.
TINY_RUN: dict[str, Any] = {
    "vocab_size": 200,
    "max_steps": STEPS,
    "eval_every": STEPS,
    "batch_size": 16,
    "late_batch_size": 24,
    "trackers": ["none"],
}
TEACHER = "quickstart"  # the preset whose tiny model replaces these:
MINI_LM = "sentence-transformers/all-MiniLM-L6-v2"
TEACHERS = (base_model(), MINI_LM)


@pytest.fixture(scope="module")
def train(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Settings, Path]]:
    """Trains each preset once, after the presets whose models it needs; returns its settings and its folder."""
    folder = tmp_path_factory.mktemp("presets")
    datasets = write_datasets(folder / "data") | {"backbone": str(save_backbone(folder / "backbone"))}
    trained: dict[str, tuple[Settings, Path]] = {}

    def model_of(preset: str) -> str:
        return str(train_once(preset)[1] / "model")

    def train_once(preset: str) -> tuple[Settings, Path]:
        if preset not in trained:
            file, output = str(PRESETS[0].with_name(f"{preset}.yaml")), folder / "runs" / preset
            changes = tiny_options(parse_settings([file]), datasets, model_of)
            changes |= {"output_dir": str(output), "cache_dir": str(folder / "cache")}
            words = [file, *as_words(changes)]
            assert run_trainer(*words) == 0
            trained[preset] = parse_settings(words), output
        return trained[preset]

    return train_once


def tiny_options(settings: Settings, datasets: dict[str, str], model_of: Callable[[str], str]) -> dict[str, Any]:
    """Return the options of a preset that the test changes, with their values."""
    given = {name: value for name, value in dataclasses.asdict(settings).items() if value or value == 0}
    changes = {name: value for name, value in TINY_RUN.items() if given.get(name)}
    if settings.initialize_from or settings.tokenizer:
        changes.pop("vocab_size", None)  # the tokenizer is that of the trained model
    for name, value in given.items():
        if name in DATASET_KINDS:
            changes[name] = [datasets[name]] if isinstance(value, list) else datasets[name]
        elif name == "distilled_pairs":
            changes[name] = [datasets["pairs"]]
        elif (name, value) == ("initialize_from", MINI_LM):
            changes[name] = datasets["backbone"]
        elif value in TEACHERS:
            changes[name] = model_of(TEACHER)
        elif is_model_of_a_run(value):
            changes[name] = model_of(preset_of(value))
        elif isinstance(value, list) and value and all(map(is_model_of_a_run, value)):
            changes[name] = [model_of(preset_of(each)) for each in value]
    if settings.adapt:
        changes["max_steps"] = STEPS
    if settings.initialize_from is None:
        changes["model_config"] = tiny_model(settings)
    return changes


def is_model_of_a_run(value: object) -> bool:
    return isinstance(value, str) and value.startswith("runs/") and value.endswith("/model")


def preset_of(model: str) -> str:
    """Return the preset of a run's model: a run with a further seed is named after its preset and the seed."""
    return re.sub(r"_\d+$", "", Path(model).parent.name)


def tiny_model(settings: Settings) -> dict[str, Any]:
    """Return the sizes that replace those of the preset's encoder; a part that is off (0 or []) stays off."""
    config = ENCODERS[settings.model_type].config_class
    fields = {field.name for field in dataclasses.fields(config)} & set(TINY_MODEL)
    values = config().to_dict() | settings.model_config
    return {name: TINY_MODEL[name] for name in fields if values[name]}


def as_words(options: dict[str, Any]) -> list[str]:
    """Return options as words of a command line."""
    words = []
    for name, value in options.items():
        values = value if isinstance(value, list) else [json.dumps(value) if isinstance(value, dict) else value]
        words += [f"--{name}", *map(str, values)]
    return words


def number_of_steps(settings: Settings, results: dict[str, Any]) -> int:
    if settings.adapt:  # cross-validation chooses one of the evaluated steps
        return min(results["run"]["steps"], STEPS)
    if settings.epochs is None:
        return STEPS
    return math.ceil(settings.epochs * sum(results["run"]["rows"].values()) / settings.batch_size)


@pytest.mark.parametrize("preset", [file.stem for file in PRESETS])
def test_a_preset_trains_and_evaluates(preset: str, train: Callable[[str], tuple[Settings, Path]]) -> None:
    settings, folder = train(preset)
    results = json.loads((folder / "results.json").read_text(encoding="utf-8"))
    assert results["run"]["steps"] == number_of_steps(settings, results)
    tasks = set(trained_tasks(vars(settings)))
    # The rows of results.json are by dataset: `pairs`, `snli`, and `TASK/DATASET` or `TASK` for all others.
    trained = {name.partition("/")[0] for name in results["run"]["rows"]}
    assert {"response_prediction" if name == "pairs" else name for name in trained} == tasks
    # The heads of the tasks were evaluated, and so was every dataset that is only evaluated on.
    expected = {TASKS[task].evaluator for task in tasks} - {None}
    expected |= {name for name, kind in DATASET_KINDS.items() if kind.text_columns is None and getattr(settings, name)}
    assert expected <= set(results)
    vectors = Encoder.from_pretrained(folder / "model").encode(["the red dog", "a house"])
    assert vectors.shape == (2, TINY_MODEL["embedding_size"])
