"""Writes a file completely or not at all: under a temporary name beside it, which is then renamed."""

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)


def temporary_path(path: Path) -> Path:
    """A new name beside a path."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}.partial")


def is_temporary_of(path: Path, other: Path) -> bool:
    """Whether another path may be a `temporary_path` of this one."""
    return re.fullmatch(rf"\.{re.escape(path.name)}\.[0-9a-f]{{12}}\.partial", other.name) is not None


@contextmanager
def locked(output: Path, kind: str) -> Iterator[None]:
    """Holds the lock of an output, called `kind` in the message; it may be taken again within the block.

    The operating system releases the lock of a process that dies.

    Raises:
        ValueError: Another process holds the lock, or it cannot be created.
    """
    file = output.with_name(f".{output.name}.convsim-lock")
    try:
        lock = FileLock(file, timeout=0, is_singleton=True)
        lock.acquire()
    except Timeout:
        raise ValueError(
            f"{output}: another process is writing this {kind}; wait until it has finished, or name another output"
        ) from None
    except OSError as error:
        raise ValueError(str(cannot_write(output, error))) from error
    try:
        yield
    finally:
        if lock.lock_counter == 1:
            # Before the release, so that no other process can have locked it. FileLock notices a deleted file.
            with suppress(OSError):
                file.unlink()
        lock.release()


@contextmanager
def new_locked_file(path: Path) -> Iterator[Path]:
    """`new_file` under a lock; removes what killed processes left of earlier ones.

    Raises:
        ValueError: Another process is writing the file.
        OSError: It cannot be written; the message names it and says what to do.
    """
    path = path.resolve()
    with locked(path, "file"):
        for other in path.parent.iterdir():
            if is_temporary_of(path, other) and other.is_file():
                other.unlink()
        with new_file(path) as temporary:
            yield temporary


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yields a temporary path beside `path`, for a file that becomes `path` if the block succeeds.

    A failure leaves the old file as it was, and no temporary file.

    Raises:
        OSError: The file cannot be written; the message names it and says what to do.
    """
    path = path.resolve()  # what a link names is replaced, not the link
    if path.exists() and not path.is_file():
        raise OSError(f"{path}: is not a regular file; name another one")
    temporary = temporary_path(path)
    try:
        with explain_write_errors(path, temporary):
            yield temporary
            os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_array(path: Path, array: np.ndarray) -> None:
    """Writes a .npy file. `np.save` does not notice when a full disk takes all but the last bytes.

    Raises:
        OSError: The file cannot be written.
    """
    array = np.ascontiguousarray(array)
    with path.open("wb") as stream:
        np.lib.format.write_array_header_1_0(stream, np.lib.format.header_data_from_array_1_0(array))
        stream.write(array.data)


@contextmanager
def explain_write_errors(output: Path, temporary: Path) -> Iterator[None]:
    """Raises an error of writing `temporary` again with a message that names the output; other errors pass."""
    try:
        yield
    except OSError as error:
        names_ours = str(temporary) in f"{error} {error.filename} {error.filename2}"
        if names_ours or error.errno in (*DISK_IS_FULL, errno.EROFS, errno.EFBIG):
            raise cannot_write(output, error) from error
        raise


def cannot_write(output: Path, error: OSError) -> OSError:
    """The error that an output cannot be written, with what to do."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    remedy = "free some disk space" if error.errno in DISK_IS_FULL else "check the permissions of its folder"
    return OSError(f"{output}: cannot be written ({reason}); {remedy}, or name another output")
