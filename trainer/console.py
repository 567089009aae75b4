"""The console script `convsim`: each command is imported when it runs, so that help is fast."""

import argparse
import sys
from importlib import import_module
from typing import NamedTuple, NoReturn

OWN = ("data_scripts", "modeling_convsim", "trainer")


class Command(NamedTuple):
    """A command.

    Attributes:
        summary: its description in the list of commands.
        module: the module that runs it.
        extra: the extra of convsim with its dependencies.
        function: the function that runs it.
    """

    summary: str
    module: str
    extra: str
    function: str = "main"


COMMANDS = {
    "inspect": Command(
        "show how a chat log is read, and print the command for adapting", "data_scripts.__main__", "adapt"
    ),
    "adapt": Command(
        "adapt the base model to your chats, evaluate it, and index the replies", "trainer.adapt.__main__", "adapt"
    ),
    "review": Command("rate suggestions for held-out messages", "modeling_convsim.suggestion.review", "suggest"),
    "suggest": Command("suggest replies to messages", "modeling_convsim.suggestion.__main__", "suggest"),
    "serve": Command("serve suggestions as JSON", "modeling_convsim.suggestion.server", "suggest"),
    "demo": Command("serve a web page with suggestions", "modeling_convsim.suggestion.server", "demo", "demo"),
    "index": Command("index replies without adapting", "modeling_convsim.suggestion.__main__", "suggest", "index"),
    "encode": Command("encode a file of texts", "modeling_convsim.encoding.__main__", "suggest"),
    "train": Command("train a model with the settings of a preset", "trainer.run", "train"),
    "evaluate": Command("evaluate a saved model", "trainer.evaluation.__main__", "train"),
    "publish": Command("check a model and upload it to the Hub", "trainer.publish.__main__", "train"),
    "data": Command("prepare training data, one command per source", "data_scripts.__main__", "train"),
}


def main() -> int:
    """Run a command; returns its exit code: 0, 2 after a user's mistake (one line on stderr), or 128 + signal."""
    name, *words = sys.argv[1:] or ["--help"]
    if name not in COMMANDS:
        _refuse(name)
    try:
        return _run(name, words)
    except ModuleNotFoundError as error:
        missing = error.name or ""
        if missing.partition(".")[0] in ("", *OWN):
            raise
        from modeling_convsim.files.extras import missing_package

        print(f"error: {missing_package(error, missing, COMMANDS[name].extra, f'convsim {name}')}", file=sys.stderr)
        return 2


def _run(name: str, words: list[str]) -> int:
    command = COMMANDS[name]
    sys.argv[:] = [f"convsim {name}", *words]  # the trainer reads it
    run = getattr(import_module(command.module), command.function)
    if name == "inspect":
        return int(run([name, *words], "convsim"))
    return int(run(*([] if name == "train" else [words])))


def _refuse(name: str) -> NoReturn:
    """Print the help, the version, or the error on a command that does not exist, and exit."""
    parser = argparse.ArgumentParser(
        prog="convsim",
        usage="convsim COMMAND ...",
        description="Sentence encoders trained on conversations. COMMAND --help describes a command.",
    )
    parsers = parser.add_subparsers(metavar="COMMAND")
    for command, (summary, *_) in COMMANDS.items():
        parsers.add_parser(command, help=summary)
    parser.add_argument("--version", action="store_true", help="show the version and exit")
    if name in ("--help", "-h"):
        parser.parse_args([name])
    if name == "--version":
        from importlib.metadata import version

        print(f"convsim {version('convsim')}")
        sys.exit(0)
    from modeling_convsim.files.command_line import suggest

    parser.exit(2, f"error: unknown command '{name}'{suggest(name, COMMANDS)} (commands: convsim --help)\n")


if __name__ == "__main__":
    sys.exit(main())
