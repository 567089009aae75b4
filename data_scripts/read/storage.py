"""Paths on a disk, and URLs of object storage and HDFS, as objects with the interface of `pathlib`.

pyarrow reads and writes s3://, gs:// and hdfs://, so that nothing else must be installed. It finds the credentials
where the programs of these providers look for them; AWS_ENDPOINT_URL names another server than Amazon's. URLs of other
kinds need fsspec's package for them.
"""

import argparse
import io
import os
import secrets
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import fsspec
from fsspec.implementations.arrow import ArrowFSWrapper
from upath import UPath

from data_scripts.errors import InputError, one_line

RENAME = ("file", "local", "hdfs")  # storage with folders, and where a file can be renamed in one step
PART_BYTES = 1 << 23  # of a file on object storage, that a request reads


class _ObjectStorage(ArrowFSWrapper):
    """A filesystem of pyarrow for `fsspec`, whose wrapper lacks what `UPath` asks of the class."""

    root_marker = ""

    @classmethod
    def _parent(cls, path: str) -> str:
        return cls._strip_protocol(path).rpartition("/")[0]


class _S3(_ObjectStorage):
    protocol = "s3"

    def __init__(self, **_: Any) -> None:
        from pyarrow.fs import S3FileSystem

        endpoint = urlsplit(os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", ""))
        server = {"endpoint_override": endpoint.netloc, "scheme": endpoint.scheme} if endpoint.netloc else {}
        super().__init__(fs=S3FileSystem(**server))


class _GoogleCloud(_ObjectStorage):
    protocol = "gs"

    def __init__(self, **_: Any) -> None:
        from pyarrow.fs import GcsFileSystem

        super().__init__(fs=GcsFileSystem())


# On import, so that a process that is sent such a path can read it.
fsspec.register_implementation("s3", _S3, clobber=True)
fsspec.register_implementation("gs", _GoogleCloud, clobber=True)


def storage_path(text: str) -> Path:
    """The path that a text names: a `Path` without a scheme, else a `UPath`, which has the same interface.

    Raises:
        InputError: nothing that is installed reads URLs of this kind, or the storage cannot be reached.
    """
    scheme, separator, _ = text.partition("://")
    if not separator:
        return Path(text)
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
    return isinstance(path, UPath)


def is_object_storage(path: Path) -> bool:
    """Whether a path is on storage without folders, where a file's name begins with the names of its folders."""
    return isinstance(path, UPath) and path.protocol not in RENAME


def readable(file: Path) -> Any:
    """A Parquet file as pyarrow takes it: a path on a disk, or an open file."""
    return file.open("rb") if is_url(file) else file


def open_stream(file: Path) -> io.BufferedReader:
    """Open a file that is read from its beginning to its end, in few requests to object storage."""
    if isinstance(file, UPath) and isinstance(file.fs, _ObjectStorage):
        return io.BufferedReader(file.fs.fs.open_input_file(file.path), PART_BYTES)
    return cast(io.BufferedReader, file.open("rb"))


def upload(file: Path, target: Path) -> None:
    """Copy a complete local file to a URL, under a temporary name first where the storage can rename files.

    An interruption may leave a part of the file on object storage: only manifests say which files are complete.

    Raises:
        InputError: fewer bytes arrived.
    """
    remote = cast(UPath, target)
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
    if cast(UPath, target).protocol in RENAME:
        target.parent.mkdir(parents=True, exist_ok=True)
    cast(UPath, source).fs.mv(cast(UPath, source).path, cast(UPath, target).path)
    _check_size(target, size)


def _check_size(target: Path, size: int) -> None:
    found = target.stat().st_size
    if found != size:
        raise InputError(f"{target}: {found:,} of {size:,} bytes arrived; run the command again")
