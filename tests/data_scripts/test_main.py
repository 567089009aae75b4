import ast
import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from data_scripts.__main__ import main
from data_scripts.commands import find_commands
from data_scripts.features import NLI_FEATURES
from data_scripts.files.datasets import load_columns

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


def imported_by_help(*command: str, libraries: Sequence[str] = HEAVY) -> list[str]:
    """Which of some libraries `--help` imports, in a new process."""
    script = (
        f"import sys; from data_scripts.__main__ import main\ntry: main([*{command!r}, '--help'])\n"
        f"except SystemExit: print([name for name in {libraries!r} if name in sys.modules], file=sys.stderr)"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return ast.literal_eval(finished.stderr)


def test_help_imports_no_large_library():
    assert imported_by_help(libraries=[*HEAVY, "pyarrow", "numpy"]) == []


@pytest.mark.parametrize("command", MAIN_NAMES)
def test_the_help_of_a_command_imports_no_large_library(command):
    assert imported_by_help(command) == []


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_shows_its_options_with_underscores(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    assert ("--output" in printed or command == "inspect") and not re.search(r"--[a-z]+-[a-z]", printed)


@pytest.mark.parametrize("command", ["reddit", "conversations"])
def test_many_options_are_grouped_by_topic(command, capsys):
    with pytest.raises(SystemExit):
        main([command, "--help"])
    topics = re.findall(r"^(\w+):$", capsys.readouterr().out, re.MULTILINE)
    assert [topic for topic in topics if topic != "Examples"] == "options input cleaning engine output Hub".split()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["redit"], "unknown command 'redit'; did you mean 'reddit'? (options: python -m data_scripts --help)"),
        (["--vesion"], "unknown argument '--vesion' (options: python -m data_scripts --help)"),
        (["reddit"], "are required: FILE_OR_FOLDER (options: python -m data_scripts reddit --help)"),
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


def test_a_users_mistake_is_one_line_without_a_traceback(tmp_path):
    dump = tmp_path / "RC_9.bz2"
    command = [sys.executable, "-m", "data_scripts", "reddit", str(dump), "--output", str(tmp_path / "out")]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 2
    assert finished.stderr == f"error: {dump}: cannot be read (No such file or directory); check the path\n"


TOY_SOURCE = '''"""Read a toy dataset: lines of a premise, a hypothesis and a label, with | between them.

A second paragraph with 100 % of the details.
"""

from dataclasses import dataclass
from pathlib import Path

from datasets import Dataset, DatasetDict

from data_scripts.errors import InputError
from data_scripts.features import NLI_FEATURES
from data_scripts.files.text_files import text_lines
from data_scripts.schemas import NLI_LABELS
from data_scripts.files.dataset_folders import add_dataset_arguments, write_dataset, write_splits


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
    def write(folder, scratch, broken):
        examples = [vars(parse(*line)) for line in text_lines(Path(args.source))]
        write_splits(DatasetDict({"train": Dataset.from_list(examples, features=NLI_FEATURES)}), folder)
        return {"train": {"rows": len(examples)}}

    write_dataset(args, write)
'''


@pytest.fixture
def toy_source(tmp_path) -> str:
    path = tmp_path / "elsewhere" / "my_source.py"
    path.parent.mkdir()
    path.write_text(TOY_SOURCE, encoding="utf-8")
    return str(path)


def test_a_source_in_one_file_outside_of_the_package_runs_as_a_command(toy_source, tmp_path):
    (tmp_path / "toy.txt").write_text("A cat.|An animal.|entailment\nA cat.|A dog.|contradiction\n", encoding="utf-8")
    command = [sys.executable, "-m", "data_scripts", toy_source, str(tmp_path / "toy.txt"), "--license", "cc0-1.0"]
    finished = subprocess.run([*command, "-o", str(tmp_path / "out")], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr
    train = load_columns(str(tmp_path / "out"), tuple(NLI_FEATURES))["train"]
    assert train.features == NLI_FEATURES
    assert train.to_list() == [
        {"premise": "A cat.", "hypothesis": "An animal.", "label": 0},
        {"premise": "A cat.", "hypothesis": "A dog.", "label": 2},
    ]
    assert json.loads((tmp_path / "out" / "report.json").read_text()) == {"train": {"rows": 2}}
    assert "license: cc0-1.0" in (tmp_path / "out" / "README.md").read_text()


def test_the_dataset_of_such_a_source_passes_through_the_other_commands(toy_source, tmp_path):
    (tmp_path / "toy.txt").write_text("A cat.|An animal.|entailment\nA dog.|A cat.|contradiction\n", encoding="utf-8")
    assert main([toy_source, str(tmp_path / "toy.txt"), "-o", str(tmp_path / "toy")]) == 0
    (tmp_path / "test.tsv").write_text("premise\thypothesis\tlabel\nA dog.\tWho?\tn\n", encoding="utf-8")
    against = ["--against", f"nli={tmp_path / 'test.tsv'}", "-o", str(tmp_path / "clean")]
    assert main(["leakage", str(tmp_path / "toy"), *against]) == 0
    (file,) = (tmp_path / "clean").glob("*.parquet")
    assert pq.read_table(file)["premise"].to_pylist() == ["A cat."]


def test_the_help_of_such_a_source_imports_only_what_its_file_does(toy_source):
    path = Path(toy_source)
    lines = ["from datasets import Dataset, DatasetDict\n", "from data_scripts.features import NLI_FEATURES\n"]
    text = path.read_text(encoding="utf-8")
    for line in lines:
        text = text.replace(line, "").replace("def run(args):\n", f"def run(args):\n    {line}")
    path.write_text(text, encoding="utf-8")
    assert imported_by_help(toy_source) == []


def test_the_help_of_such_a_source_shows_its_docstring(toy_source, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([toy_source, "--help"])
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    assert "Read a toy dataset" in printed and "100 % of the details" in printed and "--overwrite" in printed


def test_mistakes_in_such_a_source_are_named(toy_source, tmp_path, capsys):
    (tmp_path / "toy.txt").write_text("A cat.|An animal.|perhaps\n", encoding="utf-8")
    assert main([toy_source, str(tmp_path / "toy.txt"), "-o", str(tmp_path / "out")]) == 2
    assert "toy.txt:1: label 'perhaps'; expected one of entailment" in capsys.readouterr().err


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
