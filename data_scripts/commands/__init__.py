"""The commands: each module of this package and of `data_scripts.public` is the command of its name.

Such a module has a docstring, whose first line is shown in the list of commands; `add_arguments(parser)`; and
`run(args)`. Large libraries are imported in functions, so that `--help` does not wait for them. No other list of
commands exists.
"""

import argparse
import importlib
import pkgutil
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from data_scripts.public import ALIASES
from modeling_convsim.files.command_line import ArgumentParser

PROGRAM = "convsim data"
PACKAGES = ("commands", "public")
ROOT = Path(__file__).parents[1]


@dataclass(frozen=True)
class Command:
    """A command that has not been imported yet.

    Attributes:
        name: the name of the command.
        module: the name of its module.
        path: the file of its module.
    """

    name: str
    module: str
    path: Path

    @property
    def summary(self) -> str:
        """The first line of the docstring."""
        with self.path.open(encoding="utf-8") as file:
            return file.readline().strip().strip('"')

    def load(self) -> ModuleType:
        """Import the module."""
        return importlib.import_module(self.module)


def find_commands() -> dict[str, Command]:
    """Find the commands in the package; returns name -> command."""
    found = [(package, module.name) for package in PACKAGES for module in pkgutil.iter_modules([str(ROOT / package)])]
    commands = {
        name: Command(name, f"data_scripts.{package}.{name}", ROOT / package / f"{name}.py") for package, name in found
    }
    return dict(sorted(commands.items())) | {alias: commands[name] for alias, name in ALIASES.items()}


def command_parser(module: ModuleType, name: str, program: str = PROGRAM) -> ArgumentParser:
    """The parser of a command's module; `run` of what it parses runs the command.

    Args:
        module: the imported module.
        name: the name that the user gave.
        program: what the user ran, for the help.
    """
    parser = ArgumentParser(
        prog=f"{program} {name}", description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    module.add_arguments(parser)
    parser.set_defaults(run=module.run)
    return parser
