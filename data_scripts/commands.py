"""Finds the commands: each module in `chats`, `sources`, `tools` and `sample` that declares `COMMANDS` is a command.

Such a module has a docstring, whose first line is shown in the list of commands; `COMMANDS`, a tuple of the command's
names, the main one first; `add_arguments(parser)`; and `run(args)`. Large libraries are imported in functions, so that
`--help` does not wait for them. A source whose datasets are used for evaluation may also have
`load_evaluation(source)`, which returns the splits; `leakage --against` uses it.

No other list of commands exists. Names and docstrings are read without importing the modules.
"""

import argparse
import ast
import functools
import importlib
import importlib.util
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from data_scripts.command_line import ArgumentParser
from data_scripts.errors import InputError

PROGRAM = "python -m data_scripts"
FOLDERS = ("chats", "sources", "tools", "sample")


@dataclass(frozen=True)
class Command:
    """A command that has not been imported yet.

    Attributes:
        names: the names of the command; the first is the main one.
        docstring: the docstring of its module.
        path: the file of its module.
        module: the name of its module; None for a file outside of the package.
    """

    names: tuple[str, ...]
    docstring: str
    path: Path
    module: str | None

    def load(self) -> ModuleType:
        """Import the module."""
        if self.module:
            return importlib.import_module(self.module)
        return _import_file(self.path)

    def parser(self, name: str) -> ArgumentParser:
        """The parser of the command, which is imported; `run` of what it parses runs the command.

        Args:
            name: the name that the user gave.
        """
        parser = ArgumentParser(
            prog=f"{PROGRAM} {name}",
            description=self.docstring,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        module = self.load()
        module.add_arguments(parser)
        parser.set_defaults(run=module.run)
        return parser


@functools.cache  # reading the modules takes 30 ms
def find_commands() -> dict[str, Command]:
    """Find the commands in the package; returns name -> command, for all names of each command."""
    package = Path(__file__).parent
    commands: dict[str, Command] = {}
    for folder in FOLDERS:
        for path in sorted((package / folder).glob("*.py")):
            command = _parse(path, f"data_scripts.{folder}.{path.stem}")
            for name in command.names:
                if name in commands:
                    raise ValueError(f"{path}: the command {name} is already in {commands[name].path}")
                commands[name] = command
    return commands


def command_from_file(path: Path) -> Command:
    """Find the command in a file outside of the package, which follows the same convention.

    Raises:
        InputError: the file cannot be read, is not Python, or does not follow the convention.
    """
    try:
        command = _parse(path, None)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    except (SyntaxError, ValueError) as error:
        raise InputError(f"{path}: not a Python file ({error})") from error
    if not command.names or not command.docstring:
        raise InputError(
            f'{path}: expected a docstring, COMMANDS = ("name",), add_arguments(parser) and run(args), as in the files '
            f"of {Path(__file__).parent / 'sources'}"
        )
    return command


def _parse(path: Path, module: str | None) -> Command:
    """Read a module's names and docstring; a module without `COMMANDS` has no names."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    names: tuple[str, ...] = ()
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and [ast.unparse(target) for target in statement.targets] == ["COMMANDS"]:
            names = tuple(ast.literal_eval(statement.value))
    return Command(names, ast.get_docstring(tree) or "", path, module)


def _import_file(path: Path) -> ModuleType:
    name = f"data_scripts_file_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    for function in ("add_arguments", "run"):
        if not hasattr(module, function):
            raise InputError(f"{path}: has no function {function}; a command needs add_arguments(parser) and run(args)")
    return module
