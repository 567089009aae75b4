"""Checksums of the files of a saved folder, which tell whole files from damaged ones.

`SHA256SUMS` has the format of coreutils, so that `sha256sum --check SHA256SUMS` verifies a folder without this package.
"""

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from modeling_convsim.encoding.new_files import new_file

CHECKSUMS = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


def write_checksums(folder: Path, names: Iterable[str]) -> None:
    """Writes the checksums of files of a folder, named relative to it, in place of earlier ones.

    Raises:
        OSError: A file cannot be read, or the checksums cannot be written.
    """
    _write(folder, {name: {_digest(folder / name)} for name in names})


def find_damage(folder: Path, names: Collection[str] | None = None) -> str | None:
    """Returns how the files of a folder differ from its checksums; None if they do not, or if it has no checksums.

    Args:
        folder: The folder.
        names: The files to verify, relative to the folder; by default all that have a checksum. A file without one is
            not verified.
    """
    try:
        digests = read_checksums(folder)
        for name in sorted(digests if names is None else digests.keys() & set(names)):
            if not (folder / name).is_file():
                return f"{name} is missing"
            if _digest(folder / name) not in digests[name]:
                return f"{name} is damaged: its checksum differs from that in {CHECKSUMS}"
    except ValueError as error:
        return str(error)
    except OSError as error:
        return f"{error.filename} cannot be read ({error.strerror})"
    return None


def replace_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Writes files of a folder, and, if it has checksums, theirs.

    While a file is replaced, it has the checksums of both contents, so that it is not taken for damaged if the process
    is killed.

    Raises:
        OSError: A file cannot be written.
        ValueError: The checksums are damaged.
    """
    before = read_checksums(folder)
    after = {name: {hashlib.sha256(content).hexdigest()} for name, content in contents.items()}
    if before:
        _write(folder, {name: digests | after.get(name, set()) for name, digests in before.items()})
    for name, content in contents.items():
        path = folder / name
        if path.parent != folder:
            path.parent.mkdir(exist_ok=True)
        with new_file(path) as temporary:
            temporary.write_bytes(content)
    if before:
        _write(folder, before | after)


def read_checksums(folder: Path) -> dict[str, set[str]]:
    """Returns the possible SHA-256 digests of each file with a checksum; nothing for a folder without checksums.

    Raises:
        ValueError: The file with the checksums is damaged.
    """
    digests: dict[str, set[str]] = {}
    if not (folder / CHECKSUMS).exists():
        return digests
    lines = (folder / CHECKSUMS).read_bytes().decode(errors="replace").splitlines()
    for line in lines:
        match = _LINE.fullmatch(line)
        if not match:
            raise ValueError(f"{CHECKSUMS} is damaged")
        digests.setdefault(match[2], set()).add(match[1])
    if not digests:
        raise ValueError(f"{CHECKSUMS} is empty")
    return digests


def _write(folder: Path, digests: Mapping[str, Iterable[str]]) -> None:
    lines = [f"{digest}  {name}\n" for name in sorted(digests) for digest in sorted(digests[name])]
    with new_file(folder / CHECKSUMS) as temporary:
        temporary.write_text("".join(lines), encoding="utf-8")


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
