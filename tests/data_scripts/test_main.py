import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from data_scripts.__main__ import main
from data_scripts.commands import find_commands
from data_scripts.files.datasets import load_columns
from data_scripts.schemas import NLI_SCHEMA, features

COMMANDS = find_commands()
MAIN_NAMES = sorted({command.name for command in COMMANDS.values()})
HEAVY = (
    "torch transformers datasets tokenizers ibis duckdb pyspark polars pandas scipy matplotlib huggingface_hub"
).split()


def test_every_command_is_found_and_has_a_docstring_add_arguments_and_run():
    names = "books captions conversations cqa download inspect leakage nli paraphrases reddit sample sts stsb tokenizer"
    expected = names.split()
    assert expected == MAIN_NAMES and set(COMMANDS) - {*expected} == {"snli"}
    for command in COMMANDS.values():
        module = command.load()
        assert module.__doc__.startswith(command.summary) and command.summary.endswith(".")
        assert callable(module.add_arguments) and callable(module.run)


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_lists_every_command_with_its_summary(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    for command in MAIN_NAMES:
        assert re.search(rf"^    {command}( \(.*\))?\s+\w+ \w+ \w+", printed, re.MULTILINE), command
    assert "nli (snli)" in printed


def test_help_imports_no_large_library():
    """The help of each command in turn, in a new process."""
    script = (
        "import sys; from data_scripts.__main__ import main\n"
        f"for words in ([], *([name] for name in {MAIN_NAMES!r})):\n"
        "    try: main([*words, '--help'])\n"
        f"    except SystemExit: print(words, [name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert finished.stderr.splitlines() == [f"{words} []" for words in ([], *([name] for name in MAIN_NAMES))]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["redit"], "unknown command 'redit'; did you mean 'reddit'? (options: convsim data --help)"),
        (["--vesion"], "unknown argument '--vesion' (options: convsim data --help)"),
        (["reddit"], "are required: FILE_OR_FOLDER (options: convsim data reddit --help)"),
        (["reddit", "RC.bz2", "-o", "out", "--split", "x"], "argument --split: invalid choice: 'x'"),
        (["reddit", "RC.bz2", "--outptu", "out"], "unknown argument '--outptu'; did you mean '--output'?"),
        (["nli", "data", "-o", "out", "--lisense", "mit"], "unknown argument '--lisense'; did you mean '--license'?"),
    ],
)
def test_a_wrong_command_line_is_one_line_with_exit_code_2(arguments, message, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and message in line


TOY_SOURCE = '''"""Read a toy dataset: lines of a premise, a hypothesis and a label, with | between them.

A second paragraph with 100 % of the details.
"""

from dataclasses import dataclass
from pathlib import Path

from datasets import Dataset, DatasetDict

from data_scripts.files.errors import InputError
from data_scripts.files.texts import text_lines
from data_scripts.schemas import NLI_LABELS, NLI_SCHEMA, features
from data_scripts.files.dataset_folders import add_dataset_arguments, write_loaded


@dataclass
class Example:
    premise: str
    hypothesis: str
    label: int


def add_arguments(parser):
    add_dataset_arguments(parser, "a .txt file")


def parse(location, line):
    premise, hypothesis, label = line.split("|")
    if label not in NLI_LABELS:
        raise InputError(f"{location}: label {label!r}; expected one of {', '.join(NLI_LABELS)}")
    return Example(premise, hypothesis, NLI_LABELS.index(label))


def run(args):
    def load(broken):
        examples = [vars(parse(*line)) for line in text_lines(Path(args.source))]
        splits = DatasetDict({"train": Dataset.from_list(examples, features=features(NLI_SCHEMA))})
        return splits, {"train": {"rows": len(examples)}}

    write_loaded(args, load)
'''


@pytest.fixture
def toy_source(tmp_path) -> str:
    path = tmp_path / "elsewhere" / "my_source.py"
    path.parent.mkdir()
    path.write_text(TOY_SOURCE, encoding="utf-8")
    return str(path)


def test_a_source_in_one_file_outside_of_the_package_runs_as_a_command(toy_source, tmp_path):
    (tmp_path / "toy.txt").write_text("A cat.|An animal.|entailment\nA cat.|A dog.|contradiction\n", encoding="utf-8")
    assert main([toy_source, str(tmp_path / "toy.txt"), "--license", "cc0-1.0", "-o", str(tmp_path / "out")]) == 0
    train = load_columns(str(tmp_path / "out"), tuple(NLI_SCHEMA.names))["train"]
    assert train.features == features(NLI_SCHEMA)
    assert train.to_list() == [
        {"premise": "A cat.", "hypothesis": "An animal.", "label": 0},
        {"premise": "A cat.", "hypothesis": "A dog.", "label": 2},
    ]
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == {"train": {"rows": 2}}
    assert "license: cc0-1.0" in (tmp_path / "out" / "README.md").read_text()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read as Python"),
        ("def run(:", "cannot be read as Python"),
        ('"""A command."""\ndef run(args): ...', "expected a docstring, add_arguments(parser) and run(args)"),
    ],
)
def test_a_file_that_is_not_a_command_is_rejected(tmp_path: Path, capsys, content, message):
    path = tmp_path / "my_source.py"
    if content is not None:
        path.write_text(content, encoding="utf-8")
    assert main([str(path), "--help"]) == 2
    assert f"error: {path}: " in (printed := capsys.readouterr().err) and message in printed
