"""Replaces the folder of an index as a whole, under a lock, so that a complete index is there at every moment."""

import ctypes
import errno
import json
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from modeling_convsim.encoding.checksums import CHECKSUMS
from modeling_convsim.encoding.new_files import (
    cannot_write,
    explain_write_errors,
    is_temporary_of,
    locked,
    temporary_path,
)

INDEX_FILES = frozenset({"index.json", "replies.parquet", "vectors.npy", "replies.faiss", CHECKSUMS})
INDEX_KEYS = frozenset({"model", "weights_sha256", "side", "replies", "duplicate_cosine", "calibration"})
MARKER = ".convsim-index-partial"  # a file in temporary folders; nothing is deleted that does not have it
AT_FDCWD, RENAME_EXCHANGE = -100, 2  # of Linux


def check_index_folder(folder: Path) -> None:
    """Raises ValueError if writing an index to a folder would replace something else."""
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not _is_index(folder):
        raise ValueError(
            f"{folder} exists and is not an index (no readable index.json): choose another folder, or delete this one"
        )
    if others := sorted({path.name for path in folder.iterdir()} - INDEX_FILES):
        raise ValueError(f"{folder} holds {others[0]} beside an index: move it away, or choose another folder")


def _is_index(folder: Path) -> bool:
    try:
        settings = json.loads((folder / "index.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(settings, dict) and settings.keys() >= INDEX_KEYS


@contextmanager
def lock_index(folder: Path) -> Iterator[None]:
    """Holds the lock of an index's folder; it may be taken again within the block.

    Raises:
        ValueError: Another process holds the lock, or it cannot be created.
    """
    folder = folder.resolve()
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(str(cannot_write(folder, error))) from error
    with locked(folder, "index"):
        yield


@contextmanager
def new_index_folder(folder: Path) -> Iterator[Path]:
    """Yields a temporary folder that replaces the index's folder if the block succeeds; its lock is held.

    Raises:
        ValueError: The folder holds something else, or another process writes to it.
        OSError: It cannot be written; the old index stays.
    """
    folder = folder.resolve()
    check_index_folder(folder)
    with lock_index(folder):
        for other in folder.parent.iterdir():
            if is_temporary_of(folder, other):
                _clean_up(other, folder)
        partial = temporary_path(folder)
        try:
            with explain_write_errors(folder, partial):
                partial.mkdir()
                (partial / MARKER).touch()
                (partial / "new").mkdir()
                yield partial / "new"
            check_index_folder(folder)  # it may have changed meanwhile
            try:
                _replace(partial / "new", folder, partial / "replaced")
            except OSError as error:
                raise cannot_write(folder, error) from error
        finally:
            _clean_up(partial, folder)


def _clean_up(partial: Path, folder: Path) -> None:
    """Removes a temporary folder, but not the old index, if the process was killed between two renames."""
    if not partial.is_dir():
        return
    if (partial / MARKER).is_file():
        if (partial / "replaced").exists() and not folder.exists():
            (partial / "replaced").rename(folder)
        for name in ("new", "replaced"):  # the marker last, so that what a kill leaves can still be removed
            shutil.rmtree(partial / name, ignore_errors=True)
        (partial / MARKER).unlink()
    with suppress(OSError):  # only if it is empty
        partial.rmdir()


def _replace(new: Path, folder: Path, replaced: Path) -> None:
    """Renames `new` to `folder`; an old one there becomes `new` or `replaced`. An error leaves both as they were.

    On Linux, the two are exchanged in one step. Elsewhere, a process that is killed between two renames leaves no
    `folder`, but `replaced`.
    """
    if not folder.exists():
        new.rename(folder)
    elif not _exchange(new, folder):
        folder.rename(replaced)
        try:
            new.rename(folder)
        except BaseException:
            replaced.rename(folder)
            raise


def _exchange(one: Path, other: Path) -> bool:
    """Exchanges two paths in one step; False if the system or the file system cannot."""
    rename = getattr(ctypes.CDLL(None, use_errno=True), "renameat2", None) if sys.platform == "linux" else None
    if rename is None:
        return False
    if rename(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE) == 0:
        return True
    code = ctypes.get_errno()
    if code in (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP):
        return False
    raise OSError(code, os.strerror(code), str(one), None, str(other))
