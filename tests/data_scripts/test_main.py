import re
import subprocess
import sys

import pytest

from data_scripts.__main__ import COMMANDS, main

HEAVY = ("torch", "transformers", "datasets", "ibis", "duckdb", "pyarrow", "numpy", "tokenizers")


def test_help_lists_every_command_with_its_line(capsys):
    with pytest.raises(SystemExit) as stopped:
        main(["--help"])
    assert stopped.value.code == 0
    printed = capsys.readouterr().out
    for command in COMMANDS:
        assert re.search(rf"^    {command}\s+\w+ \w+ \w+", printed, re.MULTILINE), command


def test_help_imports_no_heavy_library():
    script = (
        "import sys; from data_scripts.__main__ import main\n"
        "try: main(['--help'])\n"
        f"except SystemExit: sys.exit(','.join(name for name in {HEAVY!r} if name in sys.modules) or 0)"
    )
    finished = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_explains_itself(command, capsys):
    with pytest.raises(SystemExit) as stopped:
        main([command, "--help"])
    assert stopped.value.code == 0
    assert "--output" in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [[], ["unknown"], ["reddit"], ["reddit", "RC.bz2", "-o", "out", "--split", "x"]])
def test_a_wrong_command_line_exits_with_2(arguments, capsys):
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    assert "usage: python -m data_scripts" in capsys.readouterr().err


def test_a_users_mistake_is_one_line_without_traceback(tmp_path):
    dump = tmp_path / "RC_9.bz2"
    command = [sys.executable, "-m", "data_scripts", "reddit", str(dump), "--output", str(tmp_path / "out")]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 2
    assert finished.stderr == f"error: {dump}: cannot be read (No such file or directory); check the path\n"
