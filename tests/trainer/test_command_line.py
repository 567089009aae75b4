"""Presets and command lines become the settings of a run; mistakes are named in one line."""

import dataclasses
import sys
from pathlib import Path

import pytest
import yaml

from data_scripts.files.errors import InputError
from trainer import run
from trainer.command_line import arguments_class, build_arguments, parse_arguments
from trainer.preset_files import PRESETS, load_extensions, read_preset
from trainer.tasks import TASKS

BASE = "pairs: [here]\ntasks: {response_prediction: 1}\n"
EVERY_PRESET = pytest.mark.parametrize("path", sorted(PRESETS.glob("*.yaml")), ids=lambda path: path.stem)


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
        ("", ["--max-steps", "9", "--learning-rate=0.5"], {"max_steps": 9, "learning_rate": 0.5}),
        ("", ["--pairs", "a", "b", "--seed", "1"], {"pairs": ["a", "b"], "seed": 1}),
        ("pairs: one\n", [], {"pairs": ["one"]}),
        ("vocab_size: 90\nstsb: s\n", ["--vocab_size", "none", "--stsb", "None"], {"vocab_size": 30_000, "stsb": None}),
        ("vocab_size: null\ntrackers: [none]\n", [], {"vocab_size": 30_000, "trackers": ["none"]}),
        ("word_vectors: skip_gram\ntexts: [a]\n", ["--texts"], {"texts": []}),
        ("overwrite: true\n", ["--overwrite", "False"], {"overwrite": False}),
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
        ("vocab_size: 90\ntoken_weights: sif\n", ["--initialize_from", "m"],
         {"vocab_size": 30_000, "token_weights": "ones"}),
    ],
)  # fmt: skip
def test_the_command_line_changes_the_preset(preset, text, words, expected):
    arguments = parse_arguments([preset(BASE + text), *words])
    assert {name: getattr(arguments, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("text", "words", "message"),
    [
        ("learning_rat: 1\n", [], r"preset\.yaml: unknown option 'learning_rat'; did you mean 'learning_rate'"),
        ("token_dropout: 0.1\n", [], "unknown option 'token_dropout'; did you mean 'model_config.token_dropout'"),
        ("qwertyuiop: 1\n", [], "unknown option 'qwertyuiop'; `python trainer/run.py --help` lists the options"),
        ("model_config: {embeding_size: 1}\n", [], "model_config has 'embeding_size'; did you mean 'embedding_size'"),
        ("best_metric: stbs.dev.all.pearson\n", [], "starts with 'stbs'; did you mean 'stsb'"),
        ("batch_size: many\n", [], r"preset\.yaml: batch_size: expected a whole number, got 'many'"),
        ("overwrite: maybe\n", [], "overwrite: expected true or false, got 'maybe'"),
        ("model_config: [1]\n", [], "model_config: expected"),
        ("model_type: lstm\n", [], "model_type is 'lstm'; did you mean 'bilstm'.; expected one of .*bilstm.*dan"),
        ("batch_size: 0\n", ["--seed", "1"], r"preset\.yaml: batch_size is 0; expected 2 or more"),
        ("", ["--max_stepz", "4"], "command line: unknown option 'max_stepz'; did you mean 'max_steps'"),
        ("", ["--model_type", "transformer", "--hidden_siz", "8"], "did you mean 'model_config.hidden_size'"),
        ("", ["--model_config", "{"], "model_config: expected a JSON mapping"),
        ("", ["--tasks.snly", "1"], "tasks has 'snly'; did you mean 'snli'"),
        ("", ["--tasks.snli"], "tasks.snli: expected --tasks.snli VALUE"),
        ("", ["--max_steps"], "max_steps: expected one value, got 0"),
        ("", ["stray"], "command line: unknown argument 'stray'"),
    ],
)
def test_a_wrong_setting_is_named(preset, text, words, message):
    with pytest.raises(InputError, match=message):
        parse_arguments([preset(BASE + text), *words])


@EVERY_PRESET
def test_the_written_out_settings_of_a_preset_are_a_preset(path, preset):
    arguments = parse_arguments([str(path)])
    assert arguments.max_steps or arguments.epochs or arguments.adapt
    assert parse_arguments([preset(yaml.safe_dump(dataclasses.asdict(arguments)))]) == arguments


# -- preset files -----------------------------------------------------------------------------------------------------


def test_presets_that_extend_each_other_are_named(preset, tmp_path):
    (tmp_path / "other.yaml").write_text("extends: preset\n")
    with pytest.raises(InputError, match=r"these presets extend each other: preset -> other -> preset"):
        parse_arguments([preset("extends: other\n")])


def test_a_preset_extends_another_option_by_option(preset, tmp_path):
    (tmp_path / "base.yaml").write_text(BASE + "model_config: {embedding_size: 8}\nbatch_size: 16\nseed: 3\n")
    (tmp_path / "middle.yaml").write_text("extends: base\nmodel_config: {hidden_sizes: [4]}\n")
    arguments = parse_arguments([preset("extends: middle\nseed: 5\n")])
    assert (arguments.pairs, arguments.batch_size, arguments.seed) == (["here"], 16, 5)
    assert arguments.model_config == {"hidden_sizes": [4]}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("extends: bse\n", r"extends is 'bse'; did you mean 'base'\?; expected the name of another preset in "),
        ("extends: preset\n", r"extends is 'preset'; expected the name of another preset"),
        ("extends: ../base\n", r"extends is '\.\./base'"),
        ("- a list\n", r"expected a mapping of options, found list$"),
        ("a: [b\n", r"not readable as YAML: while parsing .* line 2, column 1"),
    ],
)
def test_a_preset_that_cannot_be_read_is_refused_in_one_line(preset, tmp_path, text, message):
    (tmp_path / "base.yaml").write_text(BASE)
    with pytest.raises(InputError, match=message):
        read_preset(Path(preset(text)))


def test_a_missing_preset_is_named_with_the_existing_ones():
    with pytest.raises(InputError, match=r"quikstart\.yaml: file not found; did you mean 'quickstart'.*best_dan"):
        parse_arguments(["trainer/presets/quikstart.yaml"])
    with pytest.raises(InputError, match="the first argument must be a preset"):
        parse_arguments(["--max_steps", "3"])


def test_without_arguments_the_presets_are_listed_with_their_descriptions(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["trainer/run.py"])
    assert run.main() == 0
    printed = " ".join(capsys.readouterr().out.split())
    for path in PRESETS.glob("*.yaml"):
        description = path.read_text().splitlines()[0]
        assert description.startswith("# ") and f"{path.stem} {description[2:]}" in printed


def test_help_has_every_option_in_its_group(capsys):
    with pytest.raises(SystemExit) as end:
        parse_arguments(["--help"])
    assert end.value.code == 0
    printed = capsys.readouterr().out
    headings = [line for line in printed.splitlines() if line.endswith(":") and not line.startswith(" ")]
    for heading in ("model:", "data:", "tasks:", "task snli:", "optimization:", "evaluation:", "run:", "Hub:"):
        assert heading in headings
    for option in dataclasses.fields(arguments_class()):
        assert printed.count(f"\n  --{option.name} ") == 1, option.name


# -- extensions -------------------------------------------------------------------------------------------------------

TOY_TASK = """
from dataclasses import dataclass
from trainer.arguments import Arguments, option
from trainer.tasks import Task, register_task

@dataclass
class ToyOptions(Arguments):
    toys: list[str] = option([], "folders of toys")
    toy_weight: float = option(2.0, "how much a toy weighs", above=0)

@register_task
class Toy(Task):
    name, label, card_line, Options, required_option = "toy", "toys", "Toys.", ToyOptions, "toys"
    build = __len__ = batch = loss = None
"""


@pytest.mark.parametrize("where", ["preset", "command_line"])
def test_an_extension_adds_its_task_and_options(preset, tmp_path, where, capsys):
    path = tmp_path / f"toy_{where}.py"
    path.write_text(TOY_TASK)
    text = "tasks: {toy: 1}\ntoys: [box]\ntoy_weight: 0.5\n"
    in_preset = where == "preset"
    argv = [preset(text + f"extensions: ['{path}']\n" * in_preset), *([] if in_preset else ["--extensions", str(path)])]
    try:
        arguments = parse_arguments(argv)
        assert (arguments.toys, arguments.toy_weight, arguments.extensions) == (["box"], 0.5, [str(path)])
        assert isinstance(build_arguments(pairs=["here"], tasks={"response_prediction": 1}), TASKS["toy"].Options)
        with pytest.raises(SystemExit):
            parse_arguments([*argv, "--help"])
        assert "how much a toy weighs" in capsys.readouterr().out
    finally:
        TASKS.pop("toy", None)


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


def test_an_extension_that_is_no_python_file_or_fails_is_named(preset, tmp_path):
    with pytest.raises(InputError, match=r"command line: extensions: missing\.py is not a Python file$"):
        parse_arguments([preset(BASE), "--extensions", "missing.py"])
    (tmp_path / "broken.py").write_text("import nothing_of_this_name")
    with pytest.raises(InputError, match=r"broken.py cannot be imported: ModuleNotFoundError"):
        parse_arguments([preset(BASE + f"extensions: ['{tmp_path / 'broken.py'}']\n")])
