from pathlib import Path

import pytest

from data_scripts.errors import InputError
from trainer.arguments import table_learning_rate_ratio
from trainer.command_line import build_arguments, parse_arguments
from trainer.tasks import TASKS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def preset(tmp_path: Path):
    def write(text: str) -> str:
        path = tmp_path / "preset.yaml"
        path.write_text(text, encoding="utf-8")
        return str(path)

    return write


BASE = "pairs: [here]\ntasks: {response_prediction: 1}\n"


def test_command_line_wins_over_preset(preset):
    arguments = parse_arguments([preset(BASE + "max_steps: 7\nseed: 3\n"), "--max_steps", "9"])
    assert (arguments.max_steps, arguments.seed, arguments.pairs) == (9, 3, ["here"])


def test_yaml_number_without_a_dot_is_a_float(preset):
    assert parse_arguments([preset(BASE + "learning_rate: 1e-3\n")]).learning_rate == 1e-3


def test_model_config_of_the_command_line_adds_to_the_preset(preset):
    path = preset(BASE + "model_config: {embedding_size: 8, word_embedding_size: 4}\n")
    arguments = parse_arguments([path, "--model_config", '{"embedding_size": 16}'])
    assert arguments.model_config == {"embedding_size": 16, "word_embedding_size": 4}


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        ("learning_rat: 1\n", [], "unknown key 'learning_rat'; did you mean 'learning_rate'"),
        ("batch_size: many\n", [], "batch_size: expected a whole number, got 'many'"),
        ("overwrite: maybe\n", [], "overwrite: expected true or false, got 'maybe'"),
        ("batch_size: 0\n", [], "batch_size is 0; expected 2 or more"),
        ("snli_share: 1.5\n", [], "snli_share is 1.5; expected 1 or less"),
        ("learning_rate: 0\n", [], "learning_rate is 0.0; expected more than 0"),
        ("model_type: lstm\n", [], "model_type is 'lstm'; expected one of .*bilstm.*dan"),
        ("matryoshka_dims: [8]\ntasks: {snli: 1}\nsnli: here\n", [], "matryoshka_dims applies to the tasks captions"),
        ("snli_share: 0\ntasks: {snli: 1}\nsnli: here\n", [], "snli_share is 0, but the run trains on snli alone"),
        ("extends: nowhere\n", [], "extends is 'nowhere'; expected the name of another preset"),
        ("extensions: [nowhere.py]\n", [], "extensions: nowhere.py is no Python file"),
        ("optimizer: adam\n", [], "optimizer is 'adam'; expected one of sgd, adamw"),
        ("tasks: {chess: 1}\n", [], "tasks has 'chess'; expected one of .*response_prediction, snli"),
        ("tasks: {snli: 1}\n", [], "snli is needed"),
        ("tasks: {response_prediction: -1}\n", [], "sampling weight -1; expected a number of 0 or more"),
        ("- a\n- b\n", [], "expected a mapping of options, found list"),
        ("[a: \n", [], "not readable as YAML"),
        (BASE, ["--max_stepz", "4"], "command line: unrecognized arguments: --max_stepz"),
        (BASE, ["--push_to_hub", "true"], "hub_model_id is needed"),
        (BASE, ["--best_metric", "sts.2012.MSRpar.pearson"], "sts are test sets: name a result of dev"),
        (BASE, ["--word_vectors", "skipgram"], "expected random, skip_gram, or an existing file or folder"),
        (BASE, ["--resume", "true", "--overwrite", "true"], "exclude each other"),
    ],
)
def test_bad_setting_is_named(preset, text, overrides, message):
    complete = "tasks" in text or not text.partition(":")[0].strip().isidentifier()
    with pytest.raises(InputError, match=message):
        parse_arguments([preset(text if complete else BASE + text), *overrides])


def test_missing_preset_is_named_with_those_there_are():
    with pytest.raises(InputError, match=r"nowhere\.yaml: no such preset file.*quickstart"):
        parse_arguments(["nowhere.yaml"])


@pytest.mark.parametrize("path", sorted((ROOT / "trainer" / "presets").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_preset_parses(path):
    assert parse_arguments([str(path)]).max_steps > 0


@pytest.mark.parametrize(
    ("options", "overrides", "expected"),
    [
        ("optimizer: sgd\nlearning_rate: 0.5\n", [], 0.5),
        ("optimizer: adamw\nlearning_rate: 0.001\n", [], 0.02),
        ("optimizer: adamw\nlearning_rate: 0.001\n", ["--learning_rate", "0.01"], 0.2),
        ("optimizer: adamw\ntable_learning_rate: 0.3\n", ["--learning_rate", "0.01"], 0.3),
    ],
)
def test_rate_of_the_tables_is_written_out_whatever_it_came_from(options, overrides, expected, preset):
    arguments = parse_arguments([preset(BASE + options), *overrides])
    assert arguments.table_learning_rate == pytest.approx(expected)
    assert table_learning_rate_ratio(arguments) * arguments.learning_rate == pytest.approx(expected)


def test_a_preset_extends_another_option_by_option(preset, tmp_path):
    (tmp_path / "base.yaml").write_text(BASE + "model_config: {embedding_size: 8}\nbatch_size: 16\nseed: 3\n")
    (tmp_path / "middle.yaml").write_text("extends: base\nmodel_config: {hidden_sizes: [4]}\n")
    arguments = parse_arguments([preset("extends: middle\nseed: 5\n")])
    assert (arguments.pairs, arguments.batch_size, arguments.seed) == (["here"], 16, 5)
    assert arguments.model_config == {"hidden_sizes": [4]}


def test_presets_that_extend_each_other_are_refused(preset, tmp_path):
    (tmp_path / "other.yaml").write_text("extends: preset\n")
    with pytest.raises(InputError, match=r"extends: .* extend each other"):
        parse_arguments([preset("extends: other\n")])


def test_every_option_of_a_task_is_an_option_of_a_run():
    arguments = build_arguments(pairs=["here"], tasks={"response_prediction": 1})
    for task in TASKS.values():
        assert isinstance(arguments, task.Options), task.name
        assert hasattr(arguments, task.required_option), task.name


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


@pytest.mark.parametrize("where", ["preset", "command line"])
def test_an_extension_adds_its_task_and_options(preset, tmp_path, where):
    path = tmp_path / f"toy_{where.replace(' ', '_')}.py"
    path.write_text(TOY_TASK)
    text = "tasks: {toy: 1}\ntoys: [box]\ntoy_weight: 0.5\n"
    try:
        if where == "preset":
            arguments = parse_arguments([preset(f"extensions: ['{path}']\n" + text)])
        else:
            arguments = parse_arguments([preset(text), "--extensions", str(path), "--seed", "4"])
        assert (arguments.toys, arguments.toy_weight, arguments.extensions) == (["box"], 0.5, [str(path)])
    finally:
        TASKS.pop("toy", None)


def test_an_extension_that_fails_is_named(preset, tmp_path):
    path = tmp_path / "broken_extension.py"
    path.write_text("import nothing_of_this_name")
    with pytest.raises(InputError, match=r"broken_extension.py cannot be imported: ModuleNotFoundError"):
        parse_arguments([preset(BASE + f"extensions: ['{path}']\n")])
