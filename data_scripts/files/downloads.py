"""Downloads files by address; an interrupted download continues where it stopped."""

from __future__ import annotations

import fnmatch
import shutil
import time
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from data_scripts.files.errors import InputError
from data_scripts.files.folders import digest_of

if TYPE_CHECKING:
    import httpx

ATTEMPTS = 5
TIMEOUT_SECONDS = 60.0  # without an answer, or without more of one
WAIT_SECONDS = 1.0  # before the second attempt; twice as long before each one after it
AGAIN = "run the command again, and the download continues"
_BUSY = (408, 425, 429, 500, 502, 503, 504)  # statuses that another attempt may not get
_PARTIAL, _NOT_SATISFIABLE = 206, 416


def download_file(address: str, path: Path, sha256: str = "") -> None:
    """Download a file; one that is there already is left, because it only gets its name when it is complete.

    Args:
        address: http:// or https://.
        path: the file; its folder is created. `path` with `.part` holds what has been read until now.
        sha256: its checksum; the download is checked if one is given.

    Raises:
        InputError: there is no such file, no connection, or no answer after several attempts; the file has another
            checksum; or it cannot be written.
    """
    import httpx

    if path.is_file():
        return
    part = path.with_name(f"{path.name}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with httpx.Client(follow_redirects=True, timeout=TIMEOUT_SECONDS) as client:
            _read_with_retries(client, address, part)
        _check(address, part, sha256)
        part.replace(path)
    except OSError as error:
        reason = error.strerror or error
        raise InputError(
            f"{part}: cannot be written ({reason}); free some disk space, or name another folder; {AGAIN}"
        ) from error


def _read_with_retries(client: httpx.Client, address: str, part: Path) -> None:
    import httpx

    for attempt in range(ATTEMPTS):
        if attempt:
            time.sleep(WAIT_SECONDS * 2 ** (attempt - 1))
        try:
            return _read(client, address, part)
        except httpx.HTTPStatusError as error:
            cause = f"{error.response.status_code} {error.response.reason_phrase}"
            if error.response.status_code not in _BUSY:
                raise InputError(f"{address}: cannot be downloaded ({cause}); has the file been moved?") from error
        except httpx.HTTPError as error:
            cause = str(error) or type(error).__name__
    raise InputError(f"{address}: cannot be downloaded ({cause}, {ATTEMPTS} times); check the connection; {AGAIN}")


def _read(client: httpx.Client, address: str, part: Path) -> None:
    """Append what is missing to the partial file, or start again if the server sends the whole file."""
    start = part.stat().st_size if part.is_file() else 0
    # Without compression of the transfer, positions are those in the file.
    headers = {"Accept-Encoding": "identity"} | ({"Range": f"bytes={start}-"} if start else {})
    with client.stream("GET", address, headers=headers) as response:
        if start and response.status_code == _NOT_SATISFIABLE:  # nothing is missing, or it is another file now
            part.unlink()
            return _read(client, address, part)
        response.raise_for_status()
        if response.status_code != _PARTIAL or _first_byte(response) != start:
            start = 0
        length = response.headers.get("Content-Length")
        total = start + int(length) if length else None
        with (
            part.open("ab" if start else "wb") as file,
            tqdm(total=total, initial=start, unit="B", unit_scale=True, delay=1, desc=part.stem) as bar,
        ):
            for block in response.iter_raw():
                file.write(block)
                bar.update(len(block))


def _first_byte(response: httpx.Response) -> int:
    value = response.headers.get("Content-Range", "").removeprefix("bytes ").partition("-")[0]
    return int(value) if value.isdecimal() else -1


def _check(address: str, part: Path, sha256: str) -> None:
    if sha256 and (digest := digest_of(part)) != sha256:
        part.unlink()
        raise InputError(
            f"{address}: has the SHA-256 {digest}, expected {sha256}: the file has changed, or its transfer was "
            "damaged; it was removed. Run the command again"
        )


def unpack_members(archive: Path, patterns: Iterable[str], folder: Path, name: str = "") -> None:
    """Unpack the files of a .zip whose names match, without their folders.

    Args:
        archive: the .zip.
        patterns: names with * and ?, which match slashes too.
        folder: is created.
        name: the name of the file that is unpacked, if it gets another one.

    Raises:
        InputError: it is not a .zip, a pattern matches no file (or several, with `name`), or a file is damaged or
            cannot be written.
    """
    try:
        with zipfile.ZipFile(archive) as unzipped:
            folder.mkdir(parents=True, exist_ok=True)
            for pattern in patterns:
                members = [each for each in fnmatch.filter(unzipped.namelist(), pattern) if _is_content(each)]
                if not members or (name and len(members) > 1):
                    problem = f"{len(members)} files named {pattern}" if members else f"no {pattern}"
                    raise InputError(f"{archive}: contains {problem}; has the archive changed?")
                for member in members:
                    with unzipped.open(member) as source, (folder / (name or Path(member).name)).open("wb") as target:
                        shutil.copyfileobj(source, target)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        raise InputError(f"{archive}: not a readable .zip ({error}); delete it, and {AGAIN}") from error
    except OSError as error:
        raise InputError(f"{folder}: cannot be written ({error.strerror or error}); free some disk space") from error


def _is_content(member: str) -> bool:
    """Whether a member of a .zip is a file, and not one that macOS adds for each file."""
    return not member.endswith("/") and not Path(member).name.startswith("._")
