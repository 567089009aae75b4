"""Presets and command lines become the settings of a run; mistakes are named in one line."""

import dataclasses
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from modeling_convsim.files.errors import InputError
from modeling_convsim.shipped import base_model
from trainer import run
from trainer.settings import (
    FIELDS,
    PRESETS,
    Settings,
    build_settings,
    load_extensions,
    parse_settings,
    trained_tasks,
)
from trainer.tasks import TASKS

BASE = "pairs: [here]\ntasks: {response_prediction: 1}\n"


@pytest.fixture
def preset(tmp_path: Path):
    def write(text: str) -> str:
        path = tmp_path / "preset.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


@pytest.mark.parametrize(
    ("text", "words", "expected"),
    [
        ("max_steps: 7\nseed: 3\n", ["--max_steps", "9"], {"max_steps": 9, "seed": 3, "pairs": ["here"]}),
        ("learning_rate: 1e-3\n", [], {"learning_rate": 1e-3}),  # a text in YAML
        ("", ["--max-steps", "9", "--learning-rate=.5"], {"max_steps": 9, "learning_rate": 0.5}),
        ("", ["--pairs", "a", "b", "--seed", "1"], {"pairs": ["a", "b"], "seed": 1}),
        ("pairs: one\n", [], {"pairs": ["one"]}),
        ("vocab_size: 90\nstsb: s\n", ["--vocab_size", "none", "--stsb", "None"], {"vocab_size": 30_000, "stsb": None}),
        ("word_vectors: skip_gram\ntexts: [a]\n", ["--texts"], {"texts": []}),
        ("", [], {"max_steps": 1000, "epochs": None}),
        ("", ["--epochs", "2"], {"max_steps": None, "epochs": 2}),
        # Mappings: an entry, and a whole one; model_config adds to the preset
        ("model_config: {embedding_size: 8}\n",
         ["--model_config.token_dropout", "0", "--model-config.hidden_sizes=[4, 4]"],
         {"model_config": {"embedding_size": 8, "token_dropout": 0, "hidden_sizes": [4, 4]}}),
        ("model_config: {embedding_size: 8, residual: true}\n", ["--model_config", '{"embedding_size": 16}'],
         {"model_config": {"embedding_size": 16, "residual": True}}),
        ("snli: s\n", ["--tasks.snli", "0.1"], {"tasks": {"response_prediction": 1, "snli": 0.1}}),
        ("snli: s\n", ["--tasks", '{"snli": 2}', "--pairs"], {"tasks": {"snli": 2}}),
        # A model to start from replaces what a preset says of a new one
        ("model_type: cbow\nmodel_config: {embedding_size: 8}\nvocab_size: 90\ntoken_weights: sif\n",
         ["--initialize_from", "m", "--model_config.lexical_size", "4"],
         {"model_type": None, "model_config": {"lexical_size": 4}, "vocab_size": 30_000, "token_weights": "ones"}),
        ("initialize_from: a\nmodel_config: {lexical_size: 4}\n", ["--initialize_from", "b"],
         {"initialize_from": "b", "model_config": {"lexical_size": 4}}),
        ("model_config: {hidden_sizes: [8]}\n", ["--model_type", "bilstm"],
         {"model_type": "bilstm", "model_config": {}}),
    ],
)  # fmt: skip
def test_the_command_line_changes_the_preset(preset, text, words, expected):
    settings = parse_settings([preset(BASE + text), *words])
    assert {name: getattr(settings, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("learning_rat: 1\n", [], r"preset\.yaml: unknown option 'learning_rat'; did you mean 'learning_rate'"),
        ("qwertyuiop: 1\n", [], "unknown option 'qwertyuiop'; `convsim train --help` lists the options"),
        ("batch_size: many\n", [], r"preset\.yaml: batch_size is \"many\": Expected `int`, got `str`"),
        ("batch_size: 0\n", ["--seed", "1"], r"preset\.yaml: batch_size is 0: Expected `int` >= 2"),
        ("", ["--max_stepz", "4"], "command line: unknown option 'max_stepz'; did you mean 'max_steps'"),
        ("", ["--model_config", "{"], "model_config is .*: Expected `object`, got `str`"),
        ("", ["--tasks.snli"], "tasks.snli: expected one value, got 0"),
        ("", ["stray"], "command line: unknown argument 'stray'"),
        ("", ["--tasks.snl", "1"], "tasks has 'snl'; did you mean 'snli'"),
    ],
)
def test_a_wrong_setting_is_named(preset, text, words, message):
    with pytest.raises(InputError, match=message):
        parse_settings([preset(BASE + text), *words])


@pytest.mark.parametrize("path", sorted(PRESETS.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_written_out_settings_of_a_preset_are_a_preset(path, preset):
    settings = parse_settings([str(path)])
    assert settings.max_steps or settings.epochs or settings.adapt
    assert parse_settings([preset(yaml.safe_dump(dataclasses.asdict(settings)))]) == settings


# -- checks ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "value",
    [
        {}, {"batch_size": 2}, {"learning_rate": 0.51}, {"warmup": 1},
        {"optimizer": "adamw", "weight_decay": 0.1, "late_from": 0.5, "late_batch_size": 256},
        {"language": ["de", "code"]}, {"epochs": 2}, {"word_vectors": "OWNER/NAME"},
        {"initialize_from": "m", "tasks": {"response_prediction": 1}, "adapt": True},
        {"tasks": {"response_prediction": 0.1, "snli": 0}},
        {"tasks": {"response_prediction": 0, "snli": 2}, "symmetric_loss": True},  # a task without weight is named
        {"tasks": {"response_prediction": 1}, "pairs": ["p"], "snli": "s"},  # for the removal of its sentences
        {"tasks": {"distillation": 1}, "teacher": "t", "captions": ["c"]},  # trains on every dataset
        {"tasks": {"response_prediction": 1, "snli": 1}, "snli_share": 0.0},
        {"tasks": {"mine": 1}, "similarity_scale": 3.0, "task_options": {"scale": 2}},  # an extension may read it
    ],
)  # fmt: skip
def test_values_within_their_bounds_are_accepted(value: dict[str, Any]) -> None:
    build_settings(**value)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"warmup": 1.1}, "warmup is 1.1: Expected `float` <= 1.0"),
        ({"learning_rate": float("inf")}, "learning_rate is Infinity: Expected `float` <= "),
        ({"seed": 2**64}, "seed is 18446744073709551616: Expected `int` <= 4294967295"),
        ({"decay": "none"}, "decay is \"none\": Invalid enum value 'none'; expected one of constant, linear, cosine"),
        ({"tasks": {"snli": float("inf")}}, "tasks is {\"snli\": Infinity}: Expected `float` <= 1000000.0"),
        ({"tasks": {"snli": True}}, "tasks is {\"snli\": true}: Expected `float`, got `bool`"),
        ({"tasks": {"snli": 0, "response_prediction": 0}}, "no task has a sampling weight above 0: set one in tasks"),
        ({"tasks": {"snli": 1}, "snli_share": 0.0}, "snli_share is 0, but the run trains only on snli"),
        ({"best_metric": "sts.2012.OnWN.pearson"}, "but sts has only test sets: choose a dev result"),
        ({"resume": True, "overwrite": True}, "resume and overwrite exclude each other"),
        ({"push_to_hub": True}, "hub_model_id is needed"),
        ({"word_vectors": "glove"}, "word_vectors is 'glove'; expected random, skip_gram, an existing file or folder"),
        ({"output_dir": "s3://bucket/run"}, "output_dir is s3://bucket/run, a URL; expected a folder"),
        ({"language": ["EN"]}, "language is 'EN'; expected ISO 639 codes in lower case"),
        ({"license": "mit license"}, "license is 'mit license'; expected a license"),
        ({"adapt": True}, "adapt needs a model to start from"),
        ({"adapt": True, "initialize_from": "m"}, "set tasks to {response_prediction: 1}"),
        # Options without effect
        ({"hub_model_id": "me/model"}, "hub_model_id has no effect with push_to_hub: false: set push_to_hub to true"),
        ({"late_from": 0.5}, "late_from has no effect without late_batch_size or late_learning_rate"),
        ({"late_batch_size": 256}, "has no effect with late_from: 1 (the end of the run): set late_from below 1, or"),
        ({"epochs": 1, "max_steps": 5}, "max_steps has no effect with epochs: drop epochs, or drop it"),
        ({"weight_decay": 0.1}, "weight_decay has no effect with optimizer: sgd: set optimizer to adamw"),
        ({"texts": ["a"], "word_vector_passes": 2}, "texts, word_vector_passes have no effect with word_vectors: ran"),
        ({"tokenizer": "t", "min_count": 3, "vocab_size": 99}, "min_count, vocab_size have no effect with tokenizer"),
        (
            {"tasks": {"snli": 1}, "symmetric_loss": True},
            "symmetric_loss has no effect with tasks: snli: give response_prediction a sampling weight in tasks",
        ),
        (
            {"tasks": {"snli": 1, "response_prediction": 1}, "similarity_scale": 3.0},
            "similarity_scale has no effect with tasks: snli, response_prediction: give one of captions, paraphrases, "
            "entailment, distillation, neighbors a sampling weight",
        ),
        ({"score_teacher_share": 0.5}, "score_teacher_share has no effect with score_teachers: none: list models in"),
        ({"initialize_from": "m", "vocab_size": 99}, "drop it (to reset an option of a preset: --vocab_size none)"),
    ],
)  # fmt: skip
def test_values_out_of_bounds_and_without_effect_are_refused(value: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        build_settings(**value)


def test_the_learning_rate_of_the_tables_is_given_or_follows_the_optimizer() -> None:
    assert Settings(learning_rate=0.1).table_learning_rate_ratio() == 1
    assert Settings(learning_rate=0.1, optimizer="adamw").table_learning_rate_ratio() == 20
    assert Settings(learning_rate=0.1, table_learning_rate=0.4).table_learning_rate_ratio() == 4


def test_tasks_are_trained_in_the_order_of_the_option_unless_they_have_no_weight_or_no_data():
    every = {"snli": 0.5, "entailment": 0, "response_prediction": 1}
    assert trained_tasks({"tasks": every}) == ["snli", "response_prediction"]
    assert trained_tasks({"tasks": every, "snli_share": 0.0}) == ["response_prediction"]


def test_the_tasks_that_read_options_exist():
    assert {task for each in FIELDS.values() for task in each.metadata["tasks"]} == set(TASKS)


# -- preset files -----------------------------------------------------------------------------------------------------


def test_presets_that_extend_each_other_are_named(preset, tmp_path):
    (tmp_path / "other.yaml").write_text("extends: preset\n")
    with pytest.raises(InputError, match=r"these presets extend each other: preset -> other -> preset"):
        parse_settings([preset("extends: other\n")])


@pytest.mark.parametrize("name", ["base", "base.yaml", "../{folder}/base", "{path}"])
def test_a_preset_extends_another_option_by_option_by_its_name_or_path(preset, tmp_path, name):
    (tmp_path / "base.yaml").write_text(BASE + "model_config: {embedding_size: 8}\nbatch_size: 16\nseed: 3\n")
    name = name.format(folder=tmp_path.name, path=tmp_path / "base.yaml")
    (tmp_path / "middle.yaml").write_text(f"extends: {name}\nmodel_config: {{hidden_sizes: [4]}}\n")
    settings = parse_settings([preset("extends: middle\nseed: 5\nmodel_config.activation: relu\n")])
    assert (settings.pairs, settings.batch_size, settings.seed) == (["here"], 16, 5)
    assert settings.model_config == {"embedding_size": 8, "hidden_sizes": [4], "activation": "relu"}


def test_a_preset_of_ones_own_extends_one_that_ships_with_convsim(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shipped = parse_settings(["reddit_dan"])
    Path("reddit_dan.yaml").write_text("extends: reddit_dan\nseed: 5\nmodel_config: {embedding_size: 8}\n")
    assert parse_settings(["reddit_dan.yaml"]) == dataclasses.replace(
        shipped, seed=5, model_config=shipped.model_config | {"embedding_size": 8}
    )
    Path("mine.yaml").write_text("extends: reddit_dan\ninitialize_from: base\n")
    mine = parse_settings(["mine"])
    assert (mine.initialize_from, mine.model_type, mine.model_config) == (base_model(), None, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "extends: mne\n",
            r"preset.yaml: extends: there is no preset 'mne'; did you mean 'mine'\?; .* mine, ",
        ),
        ("extends: preset\n", r"extends: there is no preset 'preset'"),
        ("extends: ../mine\n", r"extends: there is no preset '\.\./mine'"),
        ("- a list\n", r"preset.yaml: expected a mapping of options, found list$"),
        ("a: [b\n", r"preset.yaml: not readable as YAML: while parsing .* line 2, column 1"),
    ],
)
def test_a_preset_that_cannot_be_read_is_refused_in_one_line(preset, tmp_path, text, message):
    (tmp_path / "mine.yaml").write_text(BASE)
    with pytest.raises(InputError, match=message):
        parse_settings([preset(text)])


def test_a_missing_preset_is_named_with_the_existing_ones():
    with pytest.raises(InputError, match=r"quikstart\.yaml'; did you mean 'quickstart'.*best_dan"):
        parse_settings(["trainer/presets/quikstart.yaml"])
    with pytest.raises(InputError, match="the first argument must be a preset"):
        parse_settings(["--max_steps", "3"])


def test_without_arguments_the_presets_are_listed_with_their_descriptions(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["trainer/run.py"])
    assert run.main() == 0
    printed = " ".join(capsys.readouterr().out.split())
    for path in PRESETS.glob("*.yaml"):
        description = path.read_text().splitlines()[0]
        assert description.startswith("# ") and f"{path.stem} {description[2:]}" in printed


def test_help_has_every_option_in_its_group(capsys):
    with pytest.raises(SystemExit) as end:
        parse_settings(["--help"])
    assert end.value.code == 0
    printed = capsys.readouterr().out
    headings = [line for line in printed.splitlines() if line.endswith(":") and not line.startswith(" ")]
    for heading in ("model:", "data:", "tasks:", "optimization:", "evaluation:", "run:", "Hub:"):
        assert heading in headings
    for name in FIELDS:
        assert printed.count(f"\n  --{name} ") == 1, name


# -- extensions -------------------------------------------------------------------------------------------------------


def test_an_extension_is_imported_once(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "imported", [], raising=False)
    for folder in "ab":
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "counted.py").write_text("import sys\nsys.imported.append(__file__)\n")
    first, other = (str(tmp_path / folder / "counted.py") for folder in "ab")
    load_extensions([first, first])
    monkeypatch.chdir(tmp_path / "a")
    load_extensions(["counted.py"])
    assert sys.imported == [first]
    load_extensions([other])  # another file of the same name
    assert sys.imported == [first, other] and sys.modules.pop("convsim_extension_counted").__file__ == other


def test_an_extension_that_is_no_python_file_or_fails_is_named(tmp_path):
    with pytest.raises(InputError, match=r"extensions: missing\.py is not a Python file$"):
        load_extensions(["missing.py"])
    (tmp_path / "broken.py").write_text("import nothing_of_this_name")
    with pytest.raises(InputError, match=r"broken.py cannot be imported: ModuleNotFoundError"):
        load_extensions([str(tmp_path / "broken.py")])
