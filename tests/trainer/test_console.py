"""The console script `convsim`: its help, our packages rather than the user's, and missing packages in one line."""

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from trainer import console

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = "import sys; from trainer.console import main; sys.exit(main())"  # as in the file that pip writes


def run(folder: Path, *words: str, code: str = SCRIPT) -> subprocess.CompletedProcess[str]:
    """Runs the script in a folder, whose files are not on `sys.path`, as they are not for a script."""
    command = [sys.executable, "-P", "-c", code, *words]
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of a user, whose packages have the names of ours."""
    for name in console.OWN:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not ours')")
    return tmp_path


def test_help_lists_the_commands_and_imports_nothing(folder: Path) -> None:
    for words in ([], ["--help"]):
        code = "import atexit; atexit.register(lambda: print(sorted(sys.modules))); " + SCRIPT.replace("; ", "\n")
        done = run(folder, *words, code="import sys; " + code.replace("import sys\n", ""))
        assert done.returncode == 0 and done.stdout.startswith("usage: convsim COMMAND"), done.stderr
        listed, modules = done.stdout.rsplit("\n", 2)[:2]
        assert not [name for name in console.COMMANDS if f"\n    {name} " not in listed]
        assert not {"modeling_convsim.files", "numpy", "pathlib", "yaml"} & set(eval(modules))


def test_the_version_is_that_of_the_package(folder: Path) -> None:
    done = run(folder, "--version")
    assert (done.returncode, done.stdout) == (0, f"convsim {version('convsim')}\n")


def test_a_misspelled_command_is_one_line(folder: Path) -> None:
    done = run(folder, "adopt")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: unknown command 'adopt'; did you mean 'adapt'? (commands: convsim --help)\n"


@pytest.mark.parametrize(
    ("words", "module", "extra"),
    [
        (["inspect", "chats.csv"], "msgspec", "adapt"),
        (["adapt", "chats.csv", "-o", "out"], "datasets", "adapt"),
        (["data", "reddit", "RC.zst", "-o", "out"], "msgspec", "train"),
    ],
)
def test_a_missing_package_is_one_line(folder: Path, words: list[str], module: str, extra: str) -> None:
    (folder / "chats.csv").write_text("input,response\nHello.,Hi.\n")
    (folder / "RC.zst").touch()
    done = run(folder, *words, code=f"import sys; sys.modules[{module!r}] = None\n{SCRIPT}")
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert done.stderr == f"error: convsim {words[0]} needs {module}: pip install -e '{ROOT}[{extra}]'\n"
