from pathlib import Path

import pytest

from data_scripts.errors import InputError
from trainer.command_line import parse_arguments

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
        ("optimizer: adam\n", [], "optimizer is 'adam'; expected one of sgd, adamw"),
        ("tasks: {chess: 1}\n", [], "tasks has 'chess'; expected one of response_prediction, snli"),
        ("tasks: {snli: 1}\n", [], "snli is needed"),
        ("tasks: {response_prediction: -1}\n", [], "odds -1; expected a number of 0 or more"),
        ("- a\n- b\n", [], "expected a mapping of options, found list"),
        ("[a: \n", [], "not readable as YAML"),
        (BASE, ["--max_stepz", "4"], "command line: unrecognized arguments: --max_stepz"),
        (BASE, ["--push_to_hub", "true"], "hub_model_id is needed"),
        (BASE, ["--best_metric", "sts.2012.MSRpar.pearson"], "sts are test sets: name a result of dev"),
        (BASE, ["--word_vectors", "skipgram"], "expected random, skip_gram, or a file or folder that is there"),
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


def test_paper_schedule_is_the_papers():
    arguments = parse_arguments([str(ROOT / "trainer/presets/paper_dan.yaml")])
    before, after = 30_000_000 - 1, 30_000_000
    assert (arguments.batch_size_at(before), arguments.learning_rate_at(before)) == (128, 0.01)
    assert (arguments.batch_size_at(after), arguments.learning_rate_at(after)) == (256, 0.001)


def test_batch_sizes_are_those_of_the_single_steps(preset):
    for late_from in (0.0, 0.3, 0.34, 1.0):
        text = BASE + f"max_steps: 10\nbatch_size: 8\nlate_batch_size: 16\nlate_from: {late_from}\n"
        arguments = parse_arguments([preset(text)])
        assert arguments.batch_sizes().tolist() == [arguments.batch_size_at(step) for step in range(10)]


def test_rate_rises_over_the_warm_up_and_falls_linearly(preset):
    text = BASE + "learning_rate: 1.0\nwarmup: 0.1\ndecay: linear\nmax_steps: 100\n"
    rates = [parse_arguments([preset(text)]).learning_rate_at(step) for step in range(100)]
    assert rates[0] == pytest.approx(0.1) and rates[8] == pytest.approx(0.9)
    assert max(rates) == pytest.approx(1.0)
    assert rates[55] == pytest.approx(0.5) and rates[99] == pytest.approx(1 / 90)


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
    assert arguments.table_ratio() * arguments.learning_rate == pytest.approx(expected)
