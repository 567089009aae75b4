"""Paths on a disk, and URLs of object storage and HDFS, as objects with the interface of `pathlib`."""

import argparse
import io
import secrets
from pathlib import Path, PurePath
from typing import Any, cast

from data_scripts.files.errors import InputError, one_line

RENAME = ("file", "local", "hdfs")  # storage with folders, and where a file can be renamed in one step
PART_BYTES = 1 << 23  # of a file on object storage, that a request reads


def storage_path(text: str) -> Path:
    """The path that a text names: a `Path` without a scheme, else a `UPath`, which has the same interface.

    Raises:
        InputError: nothing that is installed reads URLs of this kind, or the storage cannot be reached.
    """
    scheme, separator, _ = text.partition("://")
    if not separator:
        return Path(text)
    # Imported here, because most paths are on a disk.
    from data_scripts.files.object_storage import UPath

    try:
        path = UPath(text)
        path.fs  # noqa: B018 (connects)
    except ImportError as error:
        raise InputError(f"{text}: {error} (with pip install)") from error
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


def is_object_storage(path: Path) -> bool:
    """Whether a path is on storage without folders, where a file's name begins with the names of its folders."""
    return is_url(path) and cast(Any, path).protocol not in RENAME


def readable(file: Path) -> Any:
    """A Parquet file as pyarrow takes it: a path on a disk, or an open file."""
    return file.open("rb") if is_url(file) else file


def open_stream(file: Path) -> io.BufferedReader:
    """Open a file that is read from its beginning to its end, in few requests to object storage."""
    filesystem = getattr(cast(Any, file).fs, "fs", None) if is_object_storage(file) else None  # pyarrow's
    if filesystem is not None:
        return io.BufferedReader(filesystem.open_input_file(cast(Any, file).path), PART_BYTES)
    return cast(io.BufferedReader, file.open("rb"))


def upload(file: Path, target: Path) -> None:
    """Copy a complete local file to a URL, under a temporary name first where the storage can rename files.

    An interruption may leave a part of the file on object storage: only manifests say which files are complete.

    Raises:
        InputError: fewer bytes arrived.
    """
    remote = cast(Any, target)
    new = remote.with_name(f".{target.name}.{secrets.token_hex(6)}.partial") if remote.protocol in RENAME else remote
    new.fs.put_file(str(file), new.path)
    if new != remote:
        new.fs.mv(new.path, remote.path)
    _check_size(target, file.stat().st_size)


def move(source: Path, target: Path) -> None:
    """Rename a file of a storage within it; object storage copies it without the data passing through this process.

    Raises:
        InputError: fewer bytes arrived.
    """
    size = source.stat().st_size
    if not is_object_storage(target):
        target.parent.mkdir(parents=True, exist_ok=True)
    cast(Any, source).fs.mv(cast(Any, source).path, cast(Any, target).path)
    _check_size(target, size)


def _check_size(target: Path, size: int) -> None:
    found = target.stat().st_size
    if found != size:
        raise InputError(f"{target}: {found:,} of {size:,} bytes arrived; run the command again")
