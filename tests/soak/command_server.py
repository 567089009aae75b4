"""A process that imports libraries once, and forks for each command that it runs: a fault costs no second import.

This file is also that process: `python -m tests.soak.command_server MODULE …`.
"""

import importlib
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LIMIT = 120  # seconds after which a command counts as one that never ends
NOBODY = 65534  # the user without rights, because permissions do not stop root


@dataclass(frozen=True)
class Ended:
    """How a command ended.

    Attributes:
        code: the exit code; negative for a signal. `None`: it did not end in time and was killed.
        seconds: how long it ran.
        messages: lines of stderr, without progress bars and library logs: those that begin with "error: ", and all
            lines of a traceback.
    """

    code: int | None
    seconds: float
    messages: list[str]


class CommandServer:
    """Runs commands, each in a new process group; a context manager.

    Args:
        modules: imported before the first command.
        environment: added to the environment of the commands.
    """

    def __init__(self, modules: Sequence[str], environment: Mapping[str, str] = {}) -> None:
        variables = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.command_server", *modules],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=ROOT,
            env={**os.environ, **variables, **environment},
        )

    def run(
        self,
        module: str,
        arguments: Sequence[object],
        *,
        number: signal.Signals | None = None,
        after: float = 0,
        file_bytes: int | None = None,
        as_nobody: bool = False,
    ) -> Ended:
        """Run `MODULE.main(arguments)`.

        Args:
            module: a module with a function `main`.
            arguments: the words of the command line.
            number: a signal for the command: SIGTERM goes to its process, others to its process group.
            after: seconds after which the signal is sent.
            file_bytes: size at which writing to a file fails, as it does on a full disk.
            as_nobody: run without the rights of root.
        """
        assert self.process.stdin and self.process.stdout
        request = [module, [str(word) for word in arguments], number, after, file_bytes, as_nobody]
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return Ended(*json.loads(self.process.stdout.readline()))

    def __enter__(self) -> "CommandServer":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.process.kill()
        self.process.communicate()


def _serve() -> None:
    for module in sys.argv[1:]:
        importlib.import_module(module)
    answers = os.dup(1)
    for line in sys.stdin:
        module, arguments, *fault = json.loads(line)
        os.write(answers, (json.dumps(_run(module, arguments, *fault)) + "\n").encode())


def _run(
    module: str, arguments: list[str], number: int | None, after: float, file_bytes: int | None, as_nobody: bool
) -> list[Any]:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    started = time.monotonic()
    child = os.fork()
    if child == 0:
        _become_command(module, arguments, writing, file_bytes, as_nobody)
    os.close(writing)
    with suppress(OSError):  # both processes do this, because one of them is late
        os.setpgid(child, child)
    code: int | None = None
    log = b""
    limit = started + LIMIT
    while True:
        log += _read(reading)
        done, status = os.waitpid(child, os.WNOHANG)
        now = time.monotonic()
        if done:
            code = os.waitstatus_to_exitcode(status)
            break
        if number is not None and now - started >= after:
            (os.kill if number == signal.SIGTERM else os.killpg)(child, number)
            number = None
        elif now >= limit:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            break
        time.sleep(0.002)
    seconds = time.monotonic() - started
    log += _read(reading)
    os.close(reading)
    return [code, seconds, _messages(log.decode(errors="replace"))]


def _read(pipe: int) -> bytes:
    try:
        return os.read(pipe, 1 << 16)
    except BlockingIOError:
        return b""


def _become_command(module: str, arguments: list[str], log: int, file_bytes: int | None, as_nobody: bool) -> None:
    code = 99
    try:
        os.setpgid(0, 0)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.dup2(log, 2)
        if as_nobody and os.geteuid() == 0:
            os.setgid(NOBODY)
            os.setuid(NOBODY)
        if file_bytes is not None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (file_bytes, file_bytes))
        code = importlib.import_module(module).main(arguments)
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
        code = 1
    finally:
        os._exit(code)


def _messages(text: str) -> list[str]:
    lines = [line for part in text.split("\n") for line in part.split("\r")]
    first = next((number for number, line in enumerate(lines) if line.startswith("Traceback")), None)
    # One may follow a progress bar that was interrupted.
    errors = [line[line.index("error: ") :] for line in lines if re.search(r"(?<![\w ])error: ", line)]
    return errors + ([line for line in lines[first:] if line.strip()][-30:] if first is not None else [])


if __name__ == "__main__":
    _serve()
