"""Writes a file completely or not at all: under a temporary name beside it, which is then renamed."""

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)


def temporary_path(path: Path) -> Path:
    """A new name beside a path."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}.partial")


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
