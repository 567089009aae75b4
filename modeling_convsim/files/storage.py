"""Paths on a disk and URLs of object storage and HDFS; writes a file completely or not at all, under a lock.

The file is written under a temporary name beside it, which is then renamed.
"""

import argparse
import errno
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path, PurePath
from tempfile import TemporaryDirectory
from typing import Any, cast

from modeling_convsim.files.errors import InputError, one_line

RENAME = ("file", "local", "hdfs")  # storage with folders, and where a file can be renamed in one step


def storage_path(text: str) -> Path:
    """The path that a text names: a `Path` without a scheme, else a `UPath`, which has the same interface.

    Raises:
        InputError: nothing that is installed reads URLs of this kind, or the storage cannot be reached.
    """
    scheme, separator, _ = text.partition("://")
    if not separator:
        return Path(text)
    from upath import UPath  # imported here, because most paths are on a disk

    try:
        path = UPath(text)
        path.fs  # noqa: B018 (connects)
    except ImportError as error:
        raise InputError(f"{text}: {error} (convsim[s3] and convsim[gcs] install what s3:// and gs:// need)") from error
    except (ValueError, OSError) as error:
        java = "; JAVA_HOME, HADOOP_HOME and CLASSPATH must name Hadoop's client" if scheme == "hdfs" else ""
        raise InputError(f"{text}: no access to {scheme}:// ({one_line(str(error), 300)}){java}") from error
    return cast(Path, path)


def storage_argument(text: str) -> Path:
    """`storage_path` for an option of a command."""
    try:
        return storage_path(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def is_url(path: Path) -> bool:
    """Whether a path was given as a URL, on storage that may not be able to rename or lock."""
    return not isinstance(path, PurePath)


def readable(file: Path) -> Any:
    """A Parquet file as pyarrow takes it: a path on a disk, or an open file."""
    return file.open("rb") if is_url(file) else file


def upload(file: Path, target: Path) -> None:
    """Copy a complete local file to a URL, under a temporary name first where the storage can rename files."""
    remote = cast(Any, target)
    new: Any = temporary_path(remote) if remote.protocol in RENAME else remote
    new.fs.put_file(str(file), new.path)
    if new != remote:
        new.fs.mv(new.path, remote.path)


LOCK = ".convsim-lock"  # the end of every lock's name
TEMPORARY = re.compile(r"\.(.+)\.[0-9a-f]{12}\.partial")  # a temporary name, from that of the output
DISK_IS_FULL = (errno.ENOSPC, errno.EDQUOT)
CANNOT_WRITE = (*DISK_IS_FULL, errno.EROFS, errno.EFBIG)
# tokenizers, safetensors, DuckDB and torch raise exceptions of their own, which have only a text, for a full disk.
LIBRARY_MESSAGES = {os.strerror(code): code for code in (errno.ENOSPC, errno.EFBIG, errno.EROFS)} | dict.fromkeys(
    ("PytorchStreamWriter failed", "iostream error", "unexpected pos"), errno.ENOSPC
)


def resolve_links(path: Path) -> Path:
    """The path that a path with links leads to.

    Raises:
        InputError: a symbolic link leads to itself.
    """
    try:
        resolved = path.resolve()
        is_loop = not is_url(path) and resolved.is_symlink()  # Python 3.13 raises no error
    except (OSError, RuntimeError):
        is_loop = True
    if is_loop:
        raise InputError(f"{path}: is a symbolic link to itself, or below one; delete the link, or name another path")
    return resolved


def temporary_path(path: Path) -> Path:
    """A new name beside `path`."""
    return path.with_name(f".{path.name}.{secrets.token_hex(6)}.partial")


@contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """Yield a temporary path beside `path`, for a file that becomes `path` if the block succeeds.

    For a URL, the temporary path is in the system's folder for temporary files. A failure leaves the old file as it
    was, and no temporary file.

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
    path = resolve_links(path)  # what a link names is replaced, not the link
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
    if path.exists() and not (path.is_file() and path.read_bytes().startswith(beginning.encode())):
        raise InputError(f"{path} would be replaced, but is not a file that this command wrote; name another folder")


def make_folder(folder: Path) -> None:
    """Create a folder, with those above it, unless it is there; object storage has no folders.

    Raises:
        InputError: it cannot be created.
    """
    try:
        if not is_url(folder) or cast(Any, folder).protocol in RENAME:
            folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise cannot_write(folder, error) from error


def remove_temporary_files(folder: Path, path: Path | None = None) -> None:
    """Remove what killed processes left of `new_file` in a locked folder: of all files, or of `path` alone."""
    for file in [] if is_url(folder) else folder.iterdir():
        match = TEMPORARY.fullmatch(file.name)
        if match and file.is_file() and (path is None or match[1] == path.name):
            file.unlink()


@contextmanager
def locked(output: Path, file: Path | None = None, seconds: float = 0) -> Iterator[None]:
    """Hold the lock of an output, which this process may take again within the block.

    The operating system releases the lock of a process that dies. A URL is not locked: the user must see to it that one
    process writes there.

    Args:
        output: named in errors.
        file: the lock, which is deleted at the end; by default, it is beside the output, which may be replaced.
        seconds: how long to wait for a process that holds the lock.

    Raises:
        InputError: another process holds the lock, or the file cannot be created.
    """
    from filelock import FileLock, Timeout  # imported here, so that commands start at once

    if is_url(output):
        yield
        return
    file = file or output.with_name(f".{output.name}{LOCK}")
    try:
        lock = FileLock(file, timeout=seconds, is_singleton=True)
        lock.acquire()
    except Timeout:
        raise InputError(
            f"{output}: another process is writing there; wait until it has finished, or name another output"
        ) from None
    except OSError as error:
        raise cannot_write(output, error) from error
    try:
        yield
    finally:
        if lock.lock_counter == 1:
            # Before the release, so that no other process can have locked it. FileLock notices a deleted file.
            with suppress(OSError):
                file.unlink()
        lock.release()


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
        codes = [code for message, code in LIBRARY_MESSAGES.items() if message in str(error)]
        if codes:
            raise cannot_write(output, OSError(codes[0], "")) from error
        if isinstance(error, OSError) and (
            error.errno in CANNOT_WRITE or str(temporary) in f"{error} {error.filename2}"
        ):
            raise cannot_write(output, error) from error
        raise


def cannot_write(output: Path, error: OSError) -> InputError:
    """The error that an output cannot be written, and what to do; without the temporary names in `error`."""
    reason = os.strerror(error.errno) if error.errno else str(error)
    remedy = "free some disk space" if error.errno in DISK_IS_FULL else "check the permissions of its folder"
    return InputError(f"{output}: cannot be written ({reason}); {remedy}, or name another output")
