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
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

from modeling_convsim.files.errors import USER_ERRORS, InputError, one_line, refuse_url, user_message


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
        end = words.index("--") if "--" in words else len(words)
        return super().parse_known_args([*map(with_underscores, words[:end]), *words[end:]], namespace)

    def parse_args(self, args: Sequence[str] | None = None, namespace: Any = None) -> Any:  # type: ignore[override]
        """Parses a whole command line; exits with a suggestion at the first word that it does not know."""
        words = list(sys.argv[1:] if args is None else args)
        words = words[: words.index("--")] if "--" in words else words
        options = [with_underscores(word) for word in words if re.match("--[^ ]+$", word)]
        known = [option for action in self._actions for option in action.option_strings]
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
        self.exit(2, f"error: {one_line(message)} (options: {self.prog} --help)\n")


class _Output:
    """Standard output, or the log: on a full disk or without a reader, only what is printed is lost."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream
        self.error: OSError | None = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, text: str) -> int:
        self._try(lambda: self.stream.write(text))
        return len(text)

    def flush(self) -> None:
        self._try(self.stream.flush)

    def _try(self, call: Callable[[], object]) -> None:
        try:
            call()
        except OSError as error:
            self.error = self.error or error
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.stream.fileno())  # or Python tries again when it exits


def run_stoppable(run: Callable[[], int]) -> int:
    """Call a function that returns an exit code; a user error gives one line and the code 2.

    `stop_signals` stop it with one line and the code 128 + signal. What it was writing is removed as after an error,
    and worker processes end. A second signal ends it at once. While it runs, printing cannot fail; if what it printed
    was lost on a full disk, the code is 2.
    """
    streams = sys.stdout, sys.stderr
    output: Any = _Output(sys.stdout)
    log: Any = _Output(sys.stderr)
    sys.stdout, sys.stderr = output, log
    try:
        code = _run_until_signal(run)
        output.flush()
        if not code and output.error and not isinstance(output.error, BrokenPipeError):
            print(f"error: standard output: {output.error.strerror}; some output is lost", file=sys.stderr)
            return 2
        return code
    finally:
        sys.stdout, sys.stderr = streams


def _run_until_signal(run: Callable[[], int]) -> int:
    received: list[int] = []
    process = os.getpid()

    def stop(number: int, frame: object) -> None:
        # A shell and the system may both tell of a closed terminal.
        signal.signal(number, signal.SIG_IGN if signal.Signals(number).name == "SIGHUP" else signal.SIG_DFL)
        if os.getpid() != process:  # a worker that was forked
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        received.append(number)
        for worker in multiprocessing.active_children():  # otherwise their pool would wait until they have finished
            worker.terminate()
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in stop_signals()}
    try:
        return run()
    except BaseException as error:  # some libraries raise an exception of their own when they are interrupted
        if not received and isinstance(error, KeyboardInterrupt) and hasattr(error, "exit_code"):
            print(f"error: {error}", file=sys.stderr)  # a run noticed a signal itself
            return int(error.exit_code)
        if not received and isinstance(error, USER_ERRORS):
            print(f"error: {user_message(error)}", file=sys.stderr)
            return 2
        if not received:
            raise
        name = signal.Signals(received[0]).name
        print(f"error: stopped by {name}; an output that was not complete was not written", file=sys.stderr)
        return 128 + received[0]
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def stop_signals() -> list[signal.Signals]:
    """The signals that stop a command: SIGINT, SIGTERM, and SIGHUP, of a closed terminal, unless nohup ignores it."""
    hangup: signal.Signals | None = getattr(signal, "SIGHUP", None)  # not on Windows
    if hangup is None or signal.getsignal(hangup) == signal.SIG_IGN:
        return [signal.SIGINT, signal.SIGTERM]
    return [signal.SIGINT, signal.SIGTERM, hangup]


LARGEST = 2**31 - 1  # a whole number that every library takes


def whole_number(minimum: int, maximum: int = LARGEST) -> Callable[[str], int]:
    """The `type` of an option whose value is a whole number from `minimum` to `maximum`."""
    return _number_type(int, minimum, maximum, f"a whole number from {minimum:,} to {maximum:,}")


def number(minimum: float, maximum: float) -> Callable[[str], float]:
    """The `type` of an option whose value is a number from `minimum` to `maximum`."""
    return _number_type(float, minimum, maximum, f"a number from {minimum:g} to {maximum:g}")


def _number_type(kind: type[Any], minimum: float, maximum: float, expected: str) -> Callable[[str], Any]:
    def convert(text: str) -> Any:
        with suppress(ValueError):
            if minimum <= (value := kind(text)) <= maximum:
                return value
        raise argparse.ArgumentTypeError(f"{text}: expected {expected}")

    return convert


def disk_path(text: str) -> Path:
    """A path as the value of an option that does not take URLs."""
    try:
        refuse_url(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return Path(text)


def check_output_file(output: Path, overwrite: bool, inputs: Sequence[str] = ()) -> None:
    """Refuse an output file without a folder, one that would replace an input, or, without `--overwrite`, any file.

    Raises:
        InputError: the message names the option `--output`.
    """
    if not output.parent.is_dir():
        raise InputError(f"--output {output}: there is no folder {output.parent}; create it first")
    if not output.exists():
        return
    if any(Path(name).exists() and output.samefile(name) for name in inputs):
        raise InputError(f"--output {output}: is also the input; name another file")
    if not overwrite:
        raise InputError(f"--output {output}: exists; name another file, or replace it with --overwrite")


def add_output_argument(parser: Any, help: str, **options: Any) -> None:
    """Add the option `-o/--output` to a parser or a group: a folder on a disk, unless `options` say otherwise."""
    settings = {"type": disk_path, "required": True, "metavar": "FOLDER", **options}
    parser.add_argument("-o", "--output", help=help, **settings)


def add_dataset_arguments(parser: Any, output_help: str, **options: Any) -> None:
    """Add the options of every command that writes a dataset with a card; `options` are those of `--output`."""
    add_output_argument(parser, output_help, **options)
    parser.add_argument("--overwrite", action="store_true", help="replace an existing dataset that a command wrote")
    parser.add_argument(
        "--license",
        metavar="ID",
        help="license of the dataset, for its card and the cards of models trained on it: a license id of the Hub, "
        "such as cc-by-sa-4.0 or other",
    )


def with_underscores(word: str) -> str:
    """`--batch-size=8` as `--batch_size=8`; a word that is no long option stays as it is."""
    return re.sub(r"^--[A-Za-z0-9][^=]*", lambda name: "--" + name[0][2:].replace("-", "_"), word)


def suggest(name: str, known: Iterable[str]) -> str:
    """The end of an error message that names the known name most similar to `name`; empty if none is similar."""
    matches = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean '{matches[0]}'?" if matches else ""


def end_with_parent() -> None:
    """Let the parent of this worker process end it: Ctrl+C and a closed terminal, which reach both, are ignored."""

    def exit_with_parent() -> None:
        # Otherwise, after a kill, a worker would write into the files of the next run.
        parent = multiprocessing.parent_process()
        assert parent is not None
        parent.join()
        os._exit(1)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    threading.Thread(target=exit_with_parent, daemon=True).start()
