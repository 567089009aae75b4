"""Worker processes that end with their parent, leave Ctrl+C to it, and count together what they have read."""

import multiprocessing
import os
import signal
import threading
from multiprocessing.context import SpawnContext, SpawnProcess
from typing import Any


class _Process(SpawnProcess):
    """A process that Ctrl+C does not reach while it starts, when it would print a traceback; later it is ignored."""

    def start(self) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            super().start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


class WorkerContext(SpawnContext):
    """The context of a pool whose processes `start_worker` initializes."""

    Process = _Process


_bytes_read: Any  # of all workers together


def start_worker(counter: Any) -> None:
    """Initialize a worker; `counter` is an integer that all workers and their parent share."""
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
