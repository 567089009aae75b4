"""Worker processes that end with their parent, leave Ctrl+C to it, and count together what they have read."""

import multiprocessing
import os
import signal
import threading
from typing import Any

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
