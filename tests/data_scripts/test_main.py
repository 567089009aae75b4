import re

import pytest

from data_scripts.__main__ import main
from data_scripts.commands import command_parser, find_commands, summary

COMMANDS = find_commands()
MAIN_NAMES = list(COMMANDS)


def test_every_command_is_found_and_has_a_docstring_add_arguments_and_run():
    names = "books captions conversations cqa download inspect nli paraphrases reddit sample sts stsb"
    expected = names.split()
    assert expected == MAIN_NAMES
    for name, file in COMMANDS.items():
        parser = command_parser(name)
        assert parser.description.startswith(summary(file)) and summary(file).endswith(".")
        assert callable(parser.get_default("run"))


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_lists_every_command_with_its_summary(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    for command in MAIN_NAMES:
        assert re.search(rf"^    {command}( \(.*\))?\s+\w+ \w+ \w+", printed, re.MULTILINE), command


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
