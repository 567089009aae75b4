"""Writes and verifies SHA256SUMS, the checksums of the files of a folder, in the format of `sha256sum --check`."""

import hashlib
import os
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from data_scripts.files.errors import InputError
from data_scripts.files.new_files import new_file, write_text
from data_scripts.files.storage import open_stream

CHECKSUMS = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


def digest_of(file: Path, flush: bool = False) -> str:
    """The SHA-256 of a file, in hexadecimal; with `flush`, its content is on the disk afterwards."""
    with open_stream(file) as stream:
        if flush:
            os.fsync(stream.fileno())
        return hashlib.file_digest(stream, "sha256").hexdigest()


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
        raise InputError(f"{path} is damaged")
    return {line[2]: line[1] for line in lines if line}


def write_checksums(
    folder: Path, names: Iterable[str], known: Mapping[str, str] | None = None, flush: bool = False
) -> None:
    """Write SHA256SUMS of files of a folder, in place of an earlier one.

    Args:
        folder: the folder.
        names: the files, relative to it.
        known: name -> SHA-256 of files that need not be read.
        flush: make sure that the files and SHA256SUMS are on the disk afterwards.

    Raises:
        InputError: a file cannot be read, or SHA256SUMS cannot be written.
    """
    known = known or {}
    digests = {name: known.get(name) or digest_of(folder / name, flush) for name in names if name != CHECKSUMS}
    write_text(folder / CHECKSUMS, "".join(f"{digest}  {name}\n" for name, digest in sorted(digests.items())))
    if flush:
        digest_of(folder / CHECKSUMS, flush)


def find_damage(folder: Path, names: Collection[str] | None = None) -> str | None:
    """How the files of a folder differ from its checksums; None if they do not, or if it has no checksums.

    Args:
        folder: the folder.
        names: the files to verify, relative to the folder (default: all). A file without a checksum is not verified.
    """
    try:
        digests = read_checksums(folder)
        for name in sorted(digests if names is None else digests.keys() & set(names)):
            if not (folder / name).is_file():
                return f"{name} is missing"
            if digest_of(folder / name) != digests[name]:
                return f"{name} is damaged: its checksum differs from that in {CHECKSUMS}"
    except InputError as error:
        return str(error)
    except OSError as error:
        return f"{error.filename} cannot be read ({error.strerror})"
    return None


def check_files(folder: Path, names: Collection[str] | None = None) -> None:
    """Check files of a folder with `find_damage`.

    Raises:
        InputError: one is missing or damaged.
    """
    if damage := find_damage(folder, names):
        remedy = f"restore it, or, if you changed it yourself, delete {folder / CHECKSUMS}"
        raise InputError(f"{folder}: {damage}; {remedy}")


def verify_dataset(path: Path) -> None:
    """Check a dataset's folder, or a part of it, against the SHA256SUMS there and in the two folders above.

    Raises:
        InputError: a file is missing or damaged.
    """
    for folder in (path, *path.parents[:2]):
        if (folder / CHECKSUMS).is_file():
            names = None if path == folder else [n for n in read_checksums(folder) if path in _and_above(folder / n)]
            check_files(folder, names)


def _and_above(file: Path) -> tuple[Path, ...]:
    return file, *file.parents


def replace_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files of a folder, and, if it has checksums, theirs.

    The files have no checksum while they are replaced, so that they are not taken for damaged after a kill.

    Raises:
        InputError: a file cannot be written, or SHA256SUMS is damaged.
    """
    before = read_checksums(folder)
    others = {name: digest for name, digest in before.items() if name not in contents}
    if others:
        write_checksums(folder, others, others)
    else:
        (folder / CHECKSUMS).unlink(missing_ok=True)
    for name, content in contents.items():
        (folder / name).parent.mkdir(exist_ok=True)
        with new_file(folder / name) as temporary:
            temporary.write_bytes(content)
    if before:
        new = {name: hashlib.sha256(content).hexdigest() for name, content in contents.items()}
        write_checksums(folder, {**others, **new}, {**others, **new})
