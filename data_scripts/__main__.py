"""Prepare data for the trainer: python -m data_scripts NAME ... runs one command, NAME --help explains it."""

import argparse
import ast
import importlib
import sys
from pathlib import Path

from data_scripts.errors import InputError

# Command -> module. Only the module of the command that is asked for is imported: the others' libraries take seconds.
COMMANDS = {
    "reddit": "sources.reddit",
    "conversations": "sources.conversations",
    "nli": "sources.nli",
    "snli": "sources.nli",
    "stsb": "sources.stsb",
    "sts": "sources.sts",
    "cqa": "sources.cqa",
    "captions": "sources.captions",
    "paraphrases": "sources.paraphrases",
    "books": "sources.books",
    "leakage": "tools.leakage",
    "tokenizer": "tools.tokenizer",
    "sample": "sample.generate",
}


def _docstring(module: str) -> str:
    source = Path(__file__).parent.joinpath(*module.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    return ast.get_docstring(ast.parse(source)) or ""


def main(arguments: list[str]) -> int:
    """Run one command; returns the exit code: 0, or 2 after a user's mistake, whose message goes to stderr."""
    parser = argparse.ArgumentParser(prog="python -m data_scripts", description=__doc__)
    commands = parser.add_subparsers(metavar="NAME", required=True)
    for name, module_name in COMMANDS.items():
        docstring = _docstring(module_name)
        command = commands.add_parser(
            name,
            help=docstring.splitlines()[0].replace("%", "%%"),
            description=docstring.replace("%", "%%"),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        if arguments and arguments[0] == name:
            module = importlib.import_module(f"data_scripts.{module_name}")
            module.add_arguments(command)
            command.set_defaults(run=module.run)
    chosen = parser.parse_args(arguments)
    try:
        chosen.run(chosen)
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
