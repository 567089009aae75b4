"""Writes a file completely or not at all: under a temporary name beside it, which is then renamed."""

import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from data_scripts.errors import InputError
from data_scripts.read.storage import is_object_storage, is_url, upload

TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{12}\.partial")  # a temporary name, from that of the output
DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)
CANNOT_WRITE = (*DISK_IS_FULL, errno.EROFS, errno.EFBIG)
# What libraries with their own exceptions say of a file that they cannot write: tokenizers, safetensors and DuckDB; and
# torch of a full disk.
LIBRARY_MESSAGES = {os.strerror(code): code for code in (errno.ENOSPC, errno.EFBIG, errno.EROFS)} | dict.fromkeys(
    ("PytorchStreamWriter failed", "iostream error", "unexpected pos"), errno.ENOSPC
)


def temporary_path(path: Path) -> Path:
    """A new name beside `path`."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}.partial")


def is_temporary_of(path: Path, other: Path) -> bool:
    """Whether another path may be a `temporary_path` of this one."""
    match = TEMPORARY.fullmatch(other.name)
    return match is not None and match[1] == path.name


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, for a file that becomes `path` if the block succeeds.

    For a URL, the temporary path is in the system's folder for temporary files.

    A failure leaves the old file as it was, and no temporary file.

    Raises:
        InputError: the file cannot be written.
    """
    if is_url(path):
        with TemporaryDirectory(prefix="convsim-") as folder:
            temporary = Path(folder, path.name)
            with report_write_errors(path, temporary):
                yield temporary
                upload(temporary, path)
        return
    path = path.resolve()  # what a link names is replaced, not the link
    if path.exists() and not path.is_file():
        raise InputError(f"{path}: is not a regular file; name another one")
    temporary = temporary_path(path)
    try:
        with report_write_errors(path, temporary):
            yield temporary
            os.replace(temporary, path)
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def write_text(path: Path, text: str) -> None:
    """Write a text file, as `new_file` does.

    Raises:
        InputError: the file cannot be written.
    """
    with new_file(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def check_own_text(path: Path, beginning: str) -> None:
    """Check that a text file may be replaced: it is missing, or begins as the files that a command writes do.

    Raises:
        InputError: the file is another one.
    """
    if not path.exists():
        return
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, ValueError):
        text = ""
    if not text.startswith(beginning):
        raise InputError(f"{path} would be replaced, but is not a file that this command wrote; name another folder")


def make_folder(folder: Path) -> None:
    """Create a folder, with those above it, unless it is there.

    Raises:
        InputError: it cannot be created.
    """
    try:
        if not is_object_storage(folder):
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(cannot_write(folder, describe(error))) from error


def remove_temporary_files(folder: Path) -> None:
    """Remove what killed processes left of `new_file` in a folder, which the caller has locked."""
    for file in [] if is_url(folder) else folder.iterdir():
        if TEMPORARY.fullmatch(file.name) and file.is_file():
            file.unlink()


@contextmanager
def report_write_errors(output: Path, temporary: Path) -> Iterator[None]:
    """Turn an error of writing `temporary` into an `InputError` that names `output`; other errors pass.

    Raises:
        InputError: the output cannot be written.
    """
    try:
        yield
    except InputError:
        raise
    except Exception as error:
        if reason := _reason(error, temporary):
            raise InputError(cannot_write(output, reason)) from error
        raise


def _reason(error: Exception, temporary: Path) -> str | None:
    """Why `temporary` could not be written; None for an error of another kind."""
    for message, code in LIBRARY_MESSAGES.items():
        if message in str(error):
            return os.strerror(code)
    if not isinstance(error, OSError):
        return None
    is_ours = error.errno in CANNOT_WRITE or str(temporary) in f"{error} {error.filename} {error.filename2}"
    return describe(error) if is_ours else None


def describe(error: OSError) -> str:
    """The reason of an error of the operating system, without the temporary names that it may hold."""
    return os.strerror(error.errno) if error.errno else str(error)


def cannot_write(output: Path, reason: str) -> str:
    """The message that an output cannot be written, and what to do."""
    is_full = reason in map(os.strerror, DISK_IS_FULL)
    remedy = "free some disk space" if is_full else "check the permissions of its folder"
    return f"{output}: cannot be written ({reason}); {remedy}, or name another output"
