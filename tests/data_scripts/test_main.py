import re

import pytest

from data_scripts.__main__ import main
from data_scripts.commands import find_commands


@pytest.mark.parametrize("arguments", [[], ["--help"]])
def test_help_lists_every_command_with_its_summary(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    for command in find_commands():
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
