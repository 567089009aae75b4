"""The commands: each module of this package and of `data_scripts.public` is a command with the module's name.

Such a module has a docstring, whose first line is shown in the list of commands; `add_arguments(parser)`; and
`run(args)`. Large libraries are imported in functions, so that `--help` does not wait for them. There is no
other list of commands.
"""

import argparse
import importlib
from itertools import chain
from pathlib import Path

from modeling_convsim.files.command_line import ArgumentParser

PROGRAM = "convsim data"
PACKAGES = ("commands", "public")
ROOT = Path(__file__).parents[1]


def find_commands() -> dict[str, Path]:
    """Find the commands in the package; returns name -> file of its module."""
    files = chain.from_iterable((ROOT / package).glob("[!_]*.py") for package in PACKAGES)
    return {file.stem: file for file in sorted(files, key=lambda file: file.stem)}


def summary(file: Path) -> str:
    """The first line of the docstring of a module, which is not imported."""
    with file.open(encoding="utf-8") as lines:
        return lines.readline().strip().strip('"')


def command_parser(name: str, program: str = PROGRAM) -> ArgumentParser:
    """The parser of a command, whose module is imported; `run` of what it parses runs the command.

    Args:
        name: one of `find_commands`.
        program: what the user ran, for the help.
    """
    module = importlib.import_module(f"data_scripts.{find_commands()[name].parent.name}.{name}")
    parser = ArgumentParser(
        prog=f"{program} {name}", description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    module.add_arguments(parser)
    parser.set_defaults(run=module.run)
    return parser
