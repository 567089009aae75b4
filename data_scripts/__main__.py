"""Prepare data for the trainer: python -m data_scripts NAME ... runs a command, NAME --help explains it.

NAME may also be the path of a Python file that has a command of your own, such as ./my_source.py.
"""

import argparse
import sys
from pathlib import Path

from data_scripts.commands import Command, command_from_file, find_commands
from data_scripts.errors import InputError


def _add_command(parsers: argparse._SubParsersAction, name: str, command: Command) -> argparse.ArgumentParser:
    return parsers.add_parser(
        name,
        aliases=[alias for alias in command.names if alias != name],
        help=command.docstring.splitlines()[0].replace("%", "%%"),  # argparse expands % here, not in the description
        description=command.docstring,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def _build_parser(chosen: str) -> argparse.ArgumentParser:
    """The parser of all commands, of which only the chosen one is imported and has its options."""
    parser = argparse.ArgumentParser(
        prog="python -m data_scripts", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parsers = parser.add_subparsers(metavar="NAME", required=True)
    if chosen.endswith(".py"):
        commands = {chosen: command_from_file(Path(chosen))}
    else:
        commands = {command.names[0]: command for command in find_commands().values()}
    for name, command in commands.items():
        command_parser = _add_command(parsers, name, command)
        if chosen in (name, *command.names):
            module = command.load()
            module.add_arguments(command_parser)
            command_parser.set_defaults(run=module.run)
    return parser


def main(arguments: list[str]) -> int:
    """Run one command; returns the exit code: 0, or 2 after a user's mistake, whose message goes to stderr."""
    try:
        args = _build_parser(arguments[0] if arguments else "").parse_args(arguments)
        args.run(args)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
