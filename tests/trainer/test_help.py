"""`--help` of every command works and imports no library that takes seconds."""

import subprocess
import sys
from pathlib import Path

import pytest

from data_scripts.commands import find_commands

ROOT = Path(__file__).resolve().parents[2]
HEAVY = (
    "datasets evaluate gensim ibis matplotlib modeling_convsim pandas polars scipy sentence_transformers sklearn torch "
    "transformers"
).split()
# Runs a module or a file as `python` does, then prints which heavy libraries it has imported.
PROGRAM = """
import runpy, sys
command, heavy = sys.argv.pop(1), sys.argv.pop(1).split()
code = "no exit"
try:
    if command.endswith(".py"):
        runpy.run_path(command, run_name="__main__")
    else:
        runpy.run_module(command, run_name="__main__", alter_sys=True)
except SystemExit as exit:
    code = exit.code
print("imported:", *(name for name in heavy if name in sys.modules), file=sys.stderr)
sys.exit(code)
"""


def trainer_commands() -> list[str]:
    """The modules of the trainer that can be run; the files of the metrics' Spaces have no command line."""
    folder = ROOT / "trainer"
    files = [path for path in sorted(folder.rglob("*.py")) if 'if __name__ == "__main__"' in path.read_text("utf-8")]
    names = [path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for path in files]
    return [name.removesuffix(".__main__") for name in names if not name.endswith(".app") and name != "trainer.run"]


COMMANDS = [
    ("trainer/run.py",),
    *((name,) for name in trainer_commands()),
    ("data_scripts",),
    *(("data_scripts", name) for name in sorted({command.names[0] for command in find_commands().values()})),
]


def test_every_command_is_listed() -> None:
    known = {"evaluation", "evaluation.mteb_tasks", "publish", "export", "sweep", "seeds", "embeddings", "report"}
    assert {f"trainer.{name}" for name in known} <= {words[0] for words in COMMANDS}
    assert ("data_scripts", "conversations") in COMMANDS


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_imports_nothing_heavy(words: tuple[str, ...]) -> None:
    command, *rest = words
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, command, " ".join(HEAVY), *rest, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.startswith("usage: ")
    assert done.stderr.splitlines()[-1].split() == ["imported:"]
