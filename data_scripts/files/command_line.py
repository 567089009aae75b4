"""The project's conventions for command lines and worker processes, for all packages."""

import argparse
import difflib
import multiprocessing
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from data_scripts.files.errors import USER_ERRORS, InputError, refuse_url, user_message

UTF8_LOCALE = "set another one, such as LC_ALL=C.UTF-8, or PYTHONUTF8=1"


class ArgumentParser(argparse.ArgumentParser):
    """An argument parser that follows the project's conventions.

    Options are declared with underscores (`--batch_size`) and accepted with hyphens too (`--batch-size`). Options
    cannot be abbreviated. An error is one line, which suggests the option that was probably meant; the exit code is 2.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **kwargs})

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: Any = None
    ) -> tuple[Any, list[str]]:
        """Parses the options this parser knows; returns the namespace and the words left over."""
        words = list(sys.argv[1:] if args is None else args)
        if not_utf8 := next((word for word in words if re.search("[\ud800-\udfff]", word)), None):
            encoding = sys.getfilesystemencoding()
            self.error(
                f"the argument {not_utf8!a} is not UTF-8, which libraries expect of paths; rename the file"
                if encoding == "utf-8"
                else f"the argument {not_utf8!a} has letters that the encoding of this locale, {encoding}, lacks; "
                f"{UTF8_LOCALE}"
            )
        end = words.index("--") if "--" in words else len(words)
        return super().parse_known_args([*map(with_underscores, words[:end]), *words[end:]], namespace)

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parses a whole command line; exits with a suggestion at the first word that it does not know."""
        words = list(sys.argv[1:] if args is None else args)
        words = words[: words.index("--")] if "--" in words else words
        options, known = [with_underscores(word) for word in words if re.match("--[^ ]+$", word)], _options(self)
        # Unknown options are reported first: a misspelled required option is not missing.
        unknown = [option for option in options if option.split("=")[0] not in known]
        if not unknown:
            namespace, unknown = self.parse_known_args(args, namespace)
        if unknown:
            word = next((word for word in unknown if word.startswith("-")), unknown[0])
            self.error(f"unknown argument '{word}'{suggest(word.split('=')[0], known)}")
        return namespace

    def error(self, message: str) -> NoReturn:
        """Prints the message in one line and exits with code 2."""
        message = " ".join(message.splitlines())
        self.exit(2, f"error: {message} (options: {self.prog} --help)\n")


def run_stoppable(run: Callable[[], int]) -> int:
    """Call a function that returns an exit code; a user error gives one line and the code 2.

    So do a working folder that was deleted, and a text that the encoding of the locale cannot print.

    SIGINT and SIGTERM stop it with one line and the code 128 + signal.

    What it was writing is removed as after an error, and worker processes end. A second signal ends it at once.
    """
    received: list[int] = []
    process = os.getpid()

    def stop(number: int, frame: object) -> None:
        signal.signal(number, signal.SIG_DFL)
        if os.getpid() != process:  # a worker that was forked
            os.kill(os.getpid(), number)
        received.append(number)
        for worker in multiprocessing.active_children():  # otherwise their pool would wait until they have finished
            worker.terminate()
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        _check_working_folder()
        return run()
    except BaseException as error:  # some libraries raise an exception of their own when they are interrupted
        if not received:
            if isinstance(error, UnicodeEncodeError) and error.encoding.lower() not in ("utf-8", "utf8"):
                error = InputError(f"the output's encoding, {error.encoding}, lacks some letters; {UTF8_LOCALE}")
            if not isinstance(error, USER_ERRORS):
                raise
            print(f"error: {user_message(error)}", file=sys.stderr)
            return 2
        name = signal.Signals(received[0]).name
        print(f"error: stopped by {name}; an output that was not complete was not written", file=sys.stderr)
        return 128 + received[0]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_working_folder() -> None:
    try:
        Path.cwd()
    except FileNotFoundError as error:
        raise InputError("the working folder was deleted; change to one that exists") from error


def disk_path(text: str) -> Path:
    """A path as the value of an option that does not take URLs."""
    try:
        refuse_url(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return Path(text)


def refuse_existing_file(option: str, output: Path, overwrite: bool, inputs: Sequence[str] = ()) -> None:
    """Refuse an output file that would replace an input, or, without `--overwrite`, any file.

    Raises:
        InputError: the message names the option.
    """
    if not output.exists():
        return
    if any(Path(name).exists() and output.samefile(name) for name in inputs):
        raise InputError(f"{option} {output}: is the file that is read; name another one")
    if not overwrite:
        raise InputError(f"{option} {output}: exists; name another file, or replace it with --overwrite")


def add_output_argument(parser: Any, help: str, **options: Any) -> None:
    """Add the option `-o/--output` to a parser or a group: a folder on a disk, unless `options` say otherwise."""
    settings = {"type": disk_path, "required": True, "metavar": "FOLDER", **options}
    parser.add_argument("-o", "--output", help=help, **settings)


def with_underscores(word: str) -> str:
    """`--batch-size=8` as `--batch_size=8`; a word that is no long option stays as it is."""
    return re.sub(r"^--[A-Za-z0-9][^=]*", lambda name: "--" + name[0][2:].replace("-", "_"), word)


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of an error message that names the known name most similar to `name`; empty if none is similar."""
    matches = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean '{matches[0]}'?" if matches else ""


def _options(parser: argparse.ArgumentParser) -> list[str]:
    """All options of a parser and of its subcommands."""
    options: list[str] = []
    for action in parser._actions:
        options += action.option_strings
        if isinstance(action, argparse._SubParsersAction):
            options += [option for command in action.choices.values() for option in _options(command)]
    return options


_bytes_read: Any  # of all workers together


def start_worker(counter: Any) -> None:
    """Initialize a worker of a pool; `counter` is an integer that all workers and their parent share."""
    global _bytes_read
    _bytes_read = counter
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl+C reaches all processes; the parent ends them
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    """Exit when the parent does: otherwise, after a kill, a worker would write into the files of the next run."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def count_bytes(count: int) -> None:
    """Add bytes that this worker has read to the shared counter."""
    with _bytes_read.get_lock():
        _bytes_read.value += count
