"""Prepare data for the trainer. `convsim data NAME --help` explains a command."""

import argparse
import sys
from pathlib import Path

from data_scripts.commands import PROGRAM, command_parser, find_commands, summary
from modeling_convsim.files.command_line import ArgumentParser, run_stoppable, suggest


def _overview(commands: dict[str, Path]) -> ArgumentParser:
    """The parser of `--help` without a command: it lists the commands, none of which is imported."""
    parser = ArgumentParser(
        prog=PROGRAM,
        usage=f"{PROGRAM} NAME ...",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parsers = parser.add_subparsers(metavar="NAME")
    for name, file in commands.items():
        parsers.add_parser(name, help=summary(file).replace("%", "%%"))
    return parser


def main(arguments: list[str], program: str = PROGRAM) -> int:
    """Run one command; returns the exit code: 0, 2 after a user's mistake (one line on stderr), or 128 + signal.

    Args:
        arguments: the command and its arguments.
        program: what the user ran, for the help.
    """
    return run_stoppable(lambda: _run(arguments, program))


def _run(arguments: list[str], program: str) -> int:
    name = arguments[0] if arguments else "--help"
    commands = find_commands()
    if name.startswith("-"):
        _overview(commands).parse_args([name])
    if name not in commands:
        _overview(commands).error(f"unknown command '{name}'{suggest(name, commands)}")
    args = command_parser(name, program).parse_args(arguments[1:])
    args.run(args)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
