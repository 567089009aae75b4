"""Arrays in cache files with checksums; files are written atomically, and damaged ones are not read."""

import logging
import os
import uuid
import zipfile
from contextlib import suppress
from pathlib import Path

import numpy as np
import xxhash

from data_scripts.files.errors import InputError

logger = logging.getLogger(__name__)


def read_array(path: Path) -> np.ndarray | None:
    """Return the array that `write_array` wrote; None if there is no such file, or if it is damaged."""
    if not path.exists():
        return None
    try:
        with zipfile.ZipFile(path) as archive:
            if damaged := archive.testzip():  # compares the checksums
                raise ValueError(f"the checksum of {damaged} is wrong")
            with archive.open(f"{path.stem}.npy") as file:  # not the array of another file's name
                return np.lib.format.read_array(file, allow_pickle=False)
    except Exception as error:  # whatever is wrong with the file, its contents can be computed again
        logger.warning("%s: damaged (%s); it is computed again", path, error)
        return None


def write_array(path: Path, array: np.ndarray) -> None:
    """Write an array with its checksum, under a unique temporary name that is changed to `path` at the end.

    Raises:
        InputError: the file cannot be written.
    """
    temporary = temporary_name(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        np.savez(temporary, **{path.stem: array})  # type: ignore[arg-type]
        os.replace(temporary, path)
    except OSError as error:
        raise not_writable(path, error) from error
    finally:
        with suppress(OSError):  # it was renamed, or never written
            temporary.unlink()


def temporary_name(path: Path) -> Path:
    """Return a hidden path in the same folder that no other process uses, on any machine, with the same suffix."""
    return path.with_name(f".{path.stem}.{uuid.uuid4().hex}{path.suffix}")


def not_writable(path: Path, error: OSError) -> InputError:
    """Return the error to raise if a cache file cannot be written."""
    return InputError(f"{path}: cannot be written ({error.strerror or error}); name another folder with --cache_dir")


def digest_texts(digest: xxhash.xxh3_128, texts: list[str]) -> None:
    """Add texts to a digest, with their lengths: the same characters, split in other places, are different texts."""
    encoded = [text.encode() for text in texts]
    digest.update(np.fromiter(map(len, encoded), np.int64, count=len(encoded)).tobytes())
    digest.update(b"".join(encoded))
