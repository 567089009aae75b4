"""Call a function in another process: a new interpreter, or a fork of this one."""

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from importlib import import_module
from multiprocessing import get_context
from threading import Thread
from typing import Any

MARK = "returned: "


class ProcessError(Exception):
    """A process failed; the message contains its output."""


def call(
    function: str,
    arguments: Sequence[Any],
    fork: bool = False,
    watch: Callable[[int], object] | None = None,
    watch_every: float = 0.5,
) -> Any:
    """Call `PACKAGE.MODULE.FUNCTION(*arguments)` in another process.

    Args:
        function: the function; its arguments and its result must be JSON values.
        arguments: its arguments.
        fork: fork this process with all modules that it has imported, which saves seconds, instead of starting a new
            interpreter, whose memory holds only what the function needs.
        watch: called with the process's id when it has started, and every `watch_every` seconds while it runs.
        watch_every: seconds between two calls of `watch`.

    Raises:
        ProcessError: the function raised an exception, or the process was killed.
    """
    with tempfile.TemporaryFile("w+") as output:
        start = _start_fork if fork else _start_interpreter
        pid, wait = start([function, json.dumps(arguments), str(os.getpid())], output.fileno())
        code = None
        while code is None:
            if watch:
                watch(pid)
            code = wait(watch_every if watch else None)
        output.seek(0)
        lines = output.read().splitlines()
    marked = [line for line in lines if line.startswith(MARK)]
    if code or not marked:
        raise ProcessError(f"{function} {arguments} ended with code {code}:\n" + "\n".join(lines))
    return json.loads(marked[-1].removeprefix(MARK))


_Started = tuple[int, Callable[[float | None], int | None]]  # process id; waits some seconds and returns the exit code


def _start_interpreter(arguments: list[str], output: int) -> _Started:
    command = [sys.executable, "-m", "tests.benchmarks.processes", *arguments]
    process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)

    def wait(seconds: float | None) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(seconds)
        return None

    return process.pid, wait


def _start_fork(arguments: list[str], output: int) -> _Started:
    process = get_context("fork").Process(target=_print_to, args=(output, *arguments))
    process.start()
    assert process.pid is not None

    def wait(seconds: float | None) -> int | None:
        process.join(seconds)
        return process.exitcode

    return process.pid, wait


def _print_to(output: int, *arguments: str) -> None:
    for stream in (1, 2):
        os.dup2(output, stream)
    _print(*arguments)


def _print(function: str, arguments: str, parent: str) -> None:
    Thread(target=_end_with, args=(int(parent),), daemon=True).start()
    module, _, name = function.rpartition(".")
    returned = getattr(import_module(module), name)(*json.loads(arguments))
    print(f"\n{MARK}{json.dumps(returned)}", flush=True)


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, so that a killed benchmark does not leave a measurement running."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    _print(*sys.argv[1:])
