"""Locks an output while it is written, so that two processes do not write it at the same time."""

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from filelock import FileLock, Timeout

from data_scripts.errors import InputError
from data_scripts.read.storage import is_url
from data_scripts.write.files import cannot_write, describe

LOCK = ".convsim-lock"  # the end of every lock's name


def lock_beside(output: Path) -> Path:
    """The lock of an output that is replaced as a whole."""
    return output.with_name(f".{output.name}{LOCK}")


def lock_inside(folder: Path) -> Path:
    """The lock of a folder whose files are replaced one by one."""
    return folder / LOCK


@contextmanager
def locked(output: Path, file: Path, seconds: float = 0) -> Iterator[None]:
    """Hold the lock `file` of an output. The operating system releases the lock of a process that dies.

    A URL is not locked.

    Args:
        output: named in errors.
        file: `lock_beside` or `lock_inside` the output; it is deleted at the end.
        seconds: how long to wait for a process that holds the lock.

    Raises:
        InputError: another process holds the lock, or the file cannot be created.
    """
    if is_url(output):  # the user must see to it that one process writes there
        yield
        return
    lock = FileLock(file, timeout=seconds)
    try:
        lock.acquire()
    except Timeout:
        raise InputError(
            f"{output}: another process is writing there; wait until it has finished, or name another output"
        ) from None
    except OSError as error:
        raise InputError(cannot_write(output, describe(error))) from error
    try:
        yield
    finally:
        # Before the release, so that no other process can have locked it. FileLock notices a deleted file.
        with suppress(OSError):
            file.unlink()
        lock.release()
