import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from data_scripts.errors import InputError
from trainer import run
from trainer.arguments import table_learning_rate_ratio
from trainer.command_line import arguments_class, build_arguments, parse_arguments, suggest_option
from trainer.preset_files import load_extensions, read_preset
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
        ("token_dropout: 0.1\n", [], "unknown key 'token_dropout'; did you mean 'model_config.token_dropout'"),
        ("hidden_siz: 8\nmodel_type: transformer\n", [], "'hidden_siz'; did you mean 'model_config.hidden_size'"),
        ("qwertyuiop: 1\n", [], "unknown key 'qwertyuiop'; `python trainer/run.py --help` lists the options"),
        ("model_config: {embeding_size: 1}\n", [], "model_config has 'embeding_size'; did you mean 'embedding_size'"),
        ("best_metric: stbs.dev.all.pearson\n", [], "starts with 'stbs'; did you mean 'stsb'"),
        ("extends: preset\n", [], "extends is 'preset'; expected the name of another preset"),  # itself
        ("extends: preset_\n", [], "extends is 'preset_'; expected the name of another preset"),
        ("batch_size: many\n", [], "batch_size: expected a whole number, got 'many'"),
        ("overwrite: maybe\n", [], "overwrite: expected true or false, got 'maybe'"),
        ("batch_size: 0\n", [], "batch_size is 0; expected 2 or more"),
        ("snli_share: 1.5\n", [], "snli_share is 1.5; expected 1 or less"),
        ("word_vector_seed: 4294967296\n", [], "word_vector_seed is 4294967296; expected 4294967295 or less"),
        ("learning_rate: 0\n", [], "learning_rate is 0.0; expected more than 0"),
        ("model_type: lstm\n", [], "model_type is 'lstm'; did you mean 'bilstm'.; expected one of .*bilstm.*dan"),
        (
            "matryoshka_dims: [8]\ntasks: {snli: 1}\nsnli: here\n",
            [],
            "matryoshka_dims has no effect with tasks: snli: give one of captions, .* a sampling weight",
        ),
        ("snli_share: 0\ntasks: {snli: 1}\nsnli: here\n", [], "snli_share is 0, but the run trains on snli alone"),
        ("extends: nowhere\n", [], "extends is 'nowhere'; expected the name of another preset"),
        ("extensions: [nowhere.py]\n", [], "extensions: nowhere.py is not a Python file"),
        ("optimizer: adam\n", [], "optimizer is 'adam'; expected one of sgd, adamw"),
        ("tasks: {chess: 1}\n", [], "tasks has 'chess'; expected one of .*response_prediction, snli"),
        ("tasks: {respons_prediction: 1}\n", [], "tasks has 'respons_prediction'; did you mean 'response_prediction'"),
        ("tasks: {snli: 1}\n", [], "snli is needed"),
        ("tasks: {response_prediction: -1}\n", [], "sampling weight -1; expected a number of 0 or more"),
        ("- a\n- b\n", [], "expected a mapping of options, found list"),
        ("[a: \n", [], "not readable as YAML"),
        (BASE, ["--max_stepz", "4"], "command line: unknown argument '--max_stepz'; did you mean '--max_steps'"),
        (
            BASE,
            ["--learning-rat", "0.1"],
            "command line: unknown argument '--learning_rat'; did you mean '--learning_rate'",
        ),
        (
            BASE,
            ["--token_dropout=0"],
            "unknown argument '--token_dropout'; did you mean '--model_config.token_dropout'",
        ),
        (BASE, ["--model_config.embeding_size", "8"], "model_config has 'embeding_size'; did you mean"),
        (BASE, ["--tasks.snly", "1"], "tasks has 'snly'; did you mean 'snli'"),
        (BASE, ["--tasks.snli"], "argument --tasks.snli: expected --tasks.KEY VALUE"),
        (BASE, ["stray"], "command line: unknown argument 'stray'"),
        (BASE, ["--push_to_hub", "true"], "hub_model_id is needed"),
        (BASE, ["--best_metric", "sts.2012.MSRpar.pearson"], "sts are test sets: name a result of dev"),
        (BASE, ["--word_vectors", "skipgram"], "expected random, skip_gram, an existing file or folder"),
        (BASE, ["--resume", "true", "--overwrite", "true"], "exclude each other"),
        (BASE, ["--sharded", "true", "--average_from", "0.5"], "average_from averages whole models: drop sharded"),
    ],
)
def test_wrong_setting_is_named(preset, text, overrides, message):
    complete = "tasks" in text or not text.partition(":")[0].strip().isidentifier()
    with pytest.raises(InputError, match=message):
        parse_arguments([preset(text if complete else BASE + text), *overrides])


INEFFECTIVE = [
    ("initialize_from: a/model\n", "word_vectors: skip_gram\n", "word_vectors has no effect with initialize_from"),
    ("initialize_from: a/model\n", "token_weights: sif\n", "token_weights has no effect with initialize_from"),
    (
        "initialize_from: a/model\n",
        "tokenizer_kind: wordpiece\nmin_count: 3\n",
        "tokenizer_kind, min_count have no effect",
    ),
    ("tokenizer: a/model\n", "vocab_size: 300\n", "vocab_size has no effect with tokenizer.*--vocab_size none"),
    (
        "optimizer: sgd\n",
        "weight_decay: 0.1\n",
        "weight_decay has no effect with optimizer: sgd: set optimizer to adamw",
    ),
    ("late_from: 1.0\n", "late_batch_size: 256\n", "late_batch_size has no effect with late_from: 1"),
    ("late_from: 1.0\n", "late_learning_rate: 0.1\n", "late_learning_rate has no effect with late_from: 1"),
    (
        "late_batch_size: null\n",
        "late_from: 0.5\n",
        "late_from has no effect without late_batch_size or late_learning_rate",
    ),
    ("word_vectors: random\n", "word_vector_passes: 2\n", "word_vector_passes has no effect with word_vectors: random"),
    ("word_vectors: random\n", "word_vector_seed: 1\n", "word_vector_seed has no effect with word_vectors: random"),
    ("word_vectors: random\n", "texts: [here]\n", "texts has no effect with word_vectors: random: set word_vectors to"),
    ("epochs: 1\n", "max_steps: 10\n", "max_steps has no effect with epochs: drop epochs, or drop it"),
    ("push_to_hub: false\n", "hub_model_id: me/it\n", "hub_model_id has no effect with push_to_hub: false"),
    (
        "",
        "teacher: a/model\n",
        "teacher has no effect with tasks: response_prediction: give one of distillation, response_distillation",
    ),
    ("", "captions: [here]\n", "captions has no effect with tasks: response_prediction"),
    ("", "snli_share: 0.5\n", "snli_share has no effect with tasks: response_prediction: give snli a sampling weight"),
    (
        "",
        "similarity_scale: 5\n",
        "similarity_scale has no effect with tasks: response_prediction: give one of captions",
    ),
]


@pytest.mark.parametrize(("other", "ignored", "message"), INEFFECTIVE)
def test_an_option_without_effect_is_refused(preset, other, ignored, message):
    parse_arguments([preset(BASE + other)])
    with pytest.raises(InputError, match=message):
        parse_arguments([preset(BASE + other + ignored)])


@pytest.mark.parametrize(("other", "ignored", "message"), INEFFECTIVE)
def test_an_option_without_effect_can_be_reset_on_the_command_line(preset, other, ignored, message):
    reset = [word for name in yaml.safe_load(ignored) for word in (f"--{name}", *([] if "[" in ignored else ["none"]))]
    assert parse_arguments([preset(BASE + other + ignored), *reset])


def test_a_task_of_weight_zero_keeps_its_options(preset):
    options = "pairs: [here]\ncaptions: [there]\nsimilarity_scale: 5\ntasks: {response_prediction: 1, captions: 0}\n"
    assert parse_arguments([preset(options)]).captions == ["there"]
    assert parse_arguments([preset(BASE), "--captions", "there", "--tasks.captions", "0"]).tasks == {
        "response_prediction": 1,
        "captions": 0,
    }


def test_a_dataset_may_be_used_without_a_task_of_its_own(preset):
    # The evaluation sentences of SNLI are removed from the training data, and a teacher encodes all training texts.
    assert parse_arguments([preset(BASE + "snli: there\n")]).snli == "there"
    distillation = "tasks: {distillation: 1}\nteacher: a/model\npairs: [here]\ncaptions: [there]\n"
    assert parse_arguments([preset(distillation)]).captions == ["there"]


@pytest.mark.parametrize("path", sorted((ROOT / "trainer" / "presets").glob("*.yaml")), ids=lambda path: path.stem)
def test_the_written_out_settings_of_a_run_are_a_preset(path, preset):
    arguments = parse_arguments([str(path)])
    assert parse_arguments([preset(yaml.safe_dump(dataclasses.asdict(arguments)))]) == arguments


def test_options_are_accepted_with_hyphens(preset):
    arguments = parse_arguments(
        [preset(BASE), "--max-steps", "9", "--learning-rate=0.5", "--model-config.embedding_size", "8"]
    )
    assert (arguments.max_steps, arguments.learning_rate) == (9, 0.5)
    assert arguments.model_config == {"embedding_size": 8}


def test_a_single_field_of_the_config_is_set_on_the_command_line(preset):
    path = preset(BASE + "model_config: {embedding_size: 8, token_dropout: 0.5}\n")
    arguments = parse_arguments([path, "--model_config.token_dropout", "0", "--model_config.hidden_sizes=[4, 4]"])
    assert arguments.model_config == {"embedding_size": 8, "token_dropout": 0, "hidden_sizes": [4, 4]}


def test_the_number_of_steps_is_1000_unless_epochs_are_given(preset):
    assert parse_arguments([preset(BASE)]).max_steps == 1000
    by_epochs = parse_arguments([preset(BASE), "--epochs", "2"])
    assert (by_epochs.max_steps, by_epochs.epochs) == (None, 2)


@pytest.mark.parametrize(
    ("name", "model_type", "suggestion"),
    [
        ("learning_rat", "dan", "learning_rate"),
        ("token_dropout", "dan", "model_config.token_dropout"),
        ("token_dropot", "dan", "model_config.token_dropout"),
        ("model_config.token_dropot", "dan", "model_config.token_dropout"),
        ("hidden_dropout", "transformer", "model_config.hidden_dropout"),
        ("tasks.snly", "dan", "tasks.snli"),
    ],
)
def test_a_similar_option_or_nested_key_is_suggested(name, model_type, suggestion):
    assert suggest_option(name, model_type) == f"; did you mean '{suggestion}'?"


def test_without_a_similar_option_nothing_is_suggested():
    assert suggest_option("qwertyuiop", "dan") == ""


def test_without_arguments_the_presets_are_listed_with_their_descriptions(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["trainer/run.py"])
    assert run.main() == 0
    printed = capsys.readouterr().out
    lines = printed[printed.index("presets (") :].splitlines()
    end = lines.index("")
    heading, rows, how = lines[0], lines[1:end], lines[end + 1]
    assert heading == "presets (trainer/presets/NAME.yaml):"
    paths = sorted((ROOT / "trainer" / "presets").glob("*.yaml"))
    descriptions = [path.read_text().splitlines()[0] for path in paths]
    assert all(description.startswith("# ") and description.endswith(".") for description in descriptions)
    assert [row.split(maxsplit=1) for row in rows] == [
        [path.stem, description[2:]] for path, description in zip(paths, descriptions, strict=True)
    ]
    assert len({row.index(description[2:]) for row, description in zip(rows, descriptions, strict=True)}) == 1
    assert how.startswith("Run one with `python trainer/run.py trainer/presets/quickstart.yaml`, or on several")


def test_an_option_before_the_preset_is_refused():
    with pytest.raises(InputError, match="the first argument must be a preset"):
        parse_arguments(["--max_steps", "3"])


def test_help_groups_every_option_and_does_not_import_torch():
    code = (
        "import sys, runpy\nsys.argv = ['trainer/run.py', '--help']\n"
        "try:\n    runpy.run_path('trainer/run.py', run_name='__main__')\n"
        "finally:\n    assert not {'torch', 'transformers', 'datasets'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    usage, *_ = done.stdout.split("\n\n")
    assert len(usage.splitlines()) == 1
    headings = [line for line in done.stdout.splitlines() if line.endswith(":") and not line.startswith(" ")]
    for heading in ("model:", "data:", "tasks:", "task snli:", "optimization:", "evaluation:", "run:", "Hub:"):
        assert heading in headings
    for option in dataclasses.fields(arguments_class()):
        assert done.stdout.count(f"\n  --{option.name} ") == 1, option.name
    assert "quickstart" in done.stdout


def test_missing_preset_is_named_with_the_existing_ones():
    with pytest.raises(InputError, match=r"quikstart\.yaml: file not found; did you mean 'quickstart'.*best_dan"):
        parse_arguments(["trainer/presets/quikstart.yaml"])


@pytest.mark.parametrize("path", sorted((ROOT / "trainer" / "presets").glob("*.yaml")), ids=lambda path: path.stem)
def test_every_preset_parses(path):
    arguments = parse_arguments([str(path)])
    assert arguments.max_steps or arguments.epochs or arguments.adapt


@pytest.mark.parametrize(
    ("options", "overrides", "expected"),
    [
        ("optimizer: sgd\nlearning_rate: 0.5\n", [], 0.5),
        ("optimizer: adamw\nlearning_rate: 0.001\n", [], 0.02),
        ("optimizer: adamw\nlearning_rate: 0.001\n", ["--learning_rate", "0.01"], 0.2),
        ("optimizer: adamw\ntable_learning_rate: 0.3\n", ["--learning_rate", "0.01"], 0.3),
    ],
)
def test_learning_rate_of_the_embedding_matrices_is_written_out(options, overrides, expected, preset):
    arguments = parse_arguments([preset(BASE + options), *overrides])
    assert arguments.table_learning_rate == pytest.approx(expected)
    assert table_learning_rate_ratio(arguments) * arguments.learning_rate == pytest.approx(expected)


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
        ("extends: 7\n", r"extends is '7'; expected"),
        ("extends: ../base\n", r"extends is '\.\./base'"),
        ("- a list\n", r"expected a mapping of options, found list$"),
        ("a: [b\n", r"not readable as YAML: while parsing .* line 2, column 1"),
        ("a: 2020-99-99\n", r"not readable as YAML: month must be in 1\.\.12"),
    ],
)
def test_a_preset_that_cannot_be_read_is_refused_in_one_line(preset, tmp_path, text, message):
    (tmp_path / "base.yaml").write_text(BASE)
    with pytest.raises(InputError, match=message):
        read_preset(Path(preset(text)))


def test_an_empty_preset_has_no_options(preset):
    assert read_preset(Path(preset(""))) == {}


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


def test_an_extension_is_imported_once(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "imported", [], raising=False)
    for folder, file in (("a", "counted.py"), ("b", "counted.py")):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / file).write_text("import sys\nsys.imported.append((__name__, __file__))\n")
    first, other = (str(tmp_path / folder / "counted.py") for folder in "ab")
    load_extensions([first, first])
    monkeypatch.chdir(tmp_path / "a")
    load_extensions(["counted.py"])
    assert sys.imported == [("convsim_extension_counted", first)]
    load_extensions([other])  # another file of the same name
    assert sys.imported[1:] == [("convsim_extension_counted", other)]
    assert sys.modules.pop("convsim_extension_counted").__file__ == other


@pytest.mark.parametrize("name", ["missing.py", "notes.txt", "folder.py"])
def test_an_extension_that_is_no_python_file_is_refused(tmp_path, name):
    (tmp_path / "notes.txt").write_text("")
    (tmp_path / "folder.py").mkdir()
    with pytest.raises(InputError, match=rf"^extensions: .*{name} is not a Python file$"):
        load_extensions([str(tmp_path / name)])


def test_an_extension_that_fails_is_named(preset, tmp_path):
    path = tmp_path / "broken_extension.py"
    path.write_text("import nothing_of_this_name")
    with pytest.raises(InputError, match=r"broken_extension.py cannot be imported: ModuleNotFoundError"):
        parse_arguments([preset(BASE + f"extensions: ['{path}']\n")])
    assert "convsim_extension_broken_extension" not in sys.modules
