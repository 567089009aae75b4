"""`--help` of every command works, has its name, and imports no library that takes seconds."""

import subprocess
import sys
from pathlib import Path

import pytest

from data_scripts.commands import find_commands
from trainer.console import COMMANDS

ROOT = Path(__file__).resolve().parents[2]
HEAVY = (
    "datasets evaluate gensim gradio ibis matplotlib pandas polars scipy sentence_transformers sklearn torch "
    "transformers"
).split()
WITH_MODELS = [*HEAVY, "modeling_convsim.encoding.encoder"]
# Runs modules or files as `python` does, each with the words --help; then prints which heavy libraries are imported.
PROGRAM = """
import contextlib, io, runpy, sys
heavy, *commands = sys.argv[1:]
for command in commands:
    name, *words = command.split()
    sys.argv = [name, *words, "--help"]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        try:
            if name.endswith(".py"):
                runpy.run_path(name, run_name="__main__")
            else:
                runpy.run_module(name, run_name="__main__", alter_sys=True)
        except SystemExit as exit:
            assert not exit.code, command
    usage = " ".join(["usage: convsim", *words]) if name == "trainer.console" else "usage: "
    assert printed.getvalue().startswith(usage), command
    assert not (imported := [library for library in heavy.split() if library in sys.modules]), (command, imported)
"""


def trainer_commands() -> list[str]:
    """The modules of the trainer that can be run; the files of the metrics' Spaces have no command line."""
    folder = ROOT / "trainer"
    files = [path for path in sorted(folder.rglob("*.py")) if 'if __name__ == "__main__"' in path.read_text("utf-8")]
    names = [path.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for path in files]
    others = ("trainer.run", "trainer.report.word2vec")  # a file, below; a command of the report's plan alone
    return [name.removesuffix(".__main__") for name in names if not name.endswith(".app") and name not in others]


DATA_COMMANDS = [f"data_scripts {name}" for name in find_commands()]


@pytest.mark.parametrize(
    ("commands", "heavy"),
    [
        (["trainer/run.py", *trainer_commands()], WITH_MODELS),
        (["data_scripts", *DATA_COMMANDS], [*WITH_MODELS, "duckdb", "huggingface_hub", "pyspark", "tokenizers"]),
        ([f"trainer.console {name}" for name in COMMANDS], WITH_MODELS),
    ],
    ids=["trainer", "data_scripts", "convsim"],
)
def test_help_of_every_command_imports_nothing_heavy(commands: list[str], heavy: list[str]) -> None:
    assert len(commands) > 2
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, " ".join(heavy), *commands], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-2000:]
