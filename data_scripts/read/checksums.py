"""Verifies the files of a dataset that one of our commands wrote, by the checksums in its folder."""

import hashlib
import re
from pathlib import Path

from data_scripts.errors import InputError
from data_scripts.read.storage import open_stream

CHECKSUMS = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")  # as sha256sum writes and reads it


def digest_of(file: Path) -> str:
    """The SHA-256 of a file, in hexadecimal."""
    with open_stream(file) as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def verify_dataset(path: Path) -> None:
    """Check a dataset's folder, or a part of it, against the SHA256SUMS there and in the two folders above.

    Datasets of other origin, and those of earlier versions, have no checksums and are not checked.

    Raises:
        InputError: a file has changed since it was written, or is missing, or SHA256SUMS is damaged.
    """
    for folder in (path, *path.parents[:2]):
        for name, digest in read_checksums(folder).items():
            file = folder / name
            if file != path and path not in file.parents:
                continue
            if not file.is_file():
                raise InputError(f"{file}: is missing, but {folder / CHECKSUMS} names it; {_remedy(folder)}")
            if digest_of(file) != digest:
                raise InputError(f"{file}: has changed since it was written (another SHA-256); {_remedy(folder)}")


def read_checksums(folder: Path) -> dict[str, str]:
    """Name of a file, relative to the folder -> SHA-256; empty without SHA256SUMS.

    Raises:
        InputError: it is damaged.
    """
    path = folder / CHECKSUMS
    if not path.is_file():
        return {}
    lines = [_LINE.fullmatch(line) for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]
    if not lines or not all(lines):
        raise InputError(f"{path}: damaged; {_remedy(folder)}")
    return {line[2]: line[1] for line in lines if line}


def _remedy(folder: Path) -> str:
    return f"write or download {folder} again, or delete its {CHECKSUMS} if you changed the files yourself"
