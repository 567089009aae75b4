"""Runs a function in a forked process that is killed before it changes the file system, for each change in turn."""

import os
import signal
import sys
from collections.abc import Callable, Iterator

CHANGES = {"os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.truncate"}  # names of audit events, beside "open"


def kill_at_each_call(function: Callable[[], object]) -> Iterator[int]:
    """Yield the number of the call before which the function was killed, and at last that after which it had ended.

    What the function leaves must be put in order before the next item is taken.
    """
    for calls in range(1, 200):
        child = os.fork()
        if child == 0:
            _run(function, calls)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        assert code in (0, -signal.SIGKILL), f"call {calls}: exit code {code}"
        yield calls
        if code == 0:
            return
    raise AssertionError("the function makes more calls than expected")


def _run(function: Callable[[], object], calls: int) -> None:
    code, left = 1, calls

    def count(event: str, arguments: tuple) -> None:
        nonlocal left
        opens = event == "open" and isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR)
        if not opens and event not in CHANGES:
            return
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    try:
        sys.addaudithook(count)
        function()
        code = 0
    finally:
        left = -1
        os._exit(code)
