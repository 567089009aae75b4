"""Download public datasets by name, and build their folders.

NAME is a dataset of the catalog, which is printed without NAME; or a preset (.yaml), whose datasets are all built.
Each dataset becomes the folder OUTPUT/NAME, as the command in the catalog writes it. Folders that exist are left.
Datasets on the Hub are read by their ids; other files are downloaded to OUTPUT/downloads, which may be deleted
afterwards. An interrupted run continues with the same command.

Examples: python -m data_scripts download
          python -m data_scripts download snli captions/multi30k
          python -m data_scripts download trainer/presets/best_dan.yaml
"""

from __future__ import annotations

import argparse
import fnmatch
import re
import shutil
import time
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from tqdm import tqdm

from data_scripts.commands import Command, command_parser, find_commands
from data_scripts.files.command_line import add_output_argument, disk_path, suggest
from data_scripts.files.errors import InputError
from data_scripts.files.folders import digest_of
from data_scripts.files.hub import TOO_SLOW, is_slow
from data_scripts.files.storage import lock_beside, locked, make_folder
from data_scripts.public_datasets import DATA, PublicDataset, PublicFile, public_datasets, public_name

if TYPE_CHECKING:
    import httpx

DOWNLOADS = "downloads"
REDDIT = "reddit"  # the command that keeps the comments that it has read, so that it can continue
READ_FILES = ("conversations", REDDIT)  # commands whose sources are files; the others read a folder
_FOLDER = re.compile(rf"(?<![\w./-]){DATA}/[\w./-]+")  # of a dataset, in a preset
_COMMENT = re.compile(r"(?:^|(?<=\s))#.*", re.MULTILINE)  # of YAML
_EXTENDS = re.compile(r"^extends: *(\S+)", re.MULTILINE)
ATTEMPTS = 5
TIMEOUT_SECONDS = 60.0  # without an answer, or without more of one
WAIT_SECONDS = 1.0  # before the second attempt; twice as long before each one after it
AGAIN = "run the command again, and the download continues"
_BUSY = (408, 425, 429, 500, 502, 503, 504)  # statuses that another attempt may not get
_PARTIAL, _NOT_SATISFIABLE = 206, 416


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="datasets of the catalog, or presets (.yaml)")
    output_help = "folder of the datasets' folders (default: %(default)s)"
    add_output_argument(parser, output_help, required=False, default=Path(DATA))
    parser.add_argument(
        "--originals",
        type=disk_path,
        metavar="FOLDER",
        help="folder with local copies: a dataset whose original files are in FOLDER/NAME is read from there",
    )


def run(args: argparse.Namespace) -> None:
    """Build the datasets that do not exist yet; without names, print the catalog."""
    if not args.names:
        print(_table(public_datasets().values()))
        return
    if args.originals and not args.originals.is_dir():
        raise InputError(f"--originals {args.originals}: no such folder")
    names = list(dict.fromkeys(name for given in args.names for name in _names(given)))
    missing = [public_datasets()[name] for name in names if not _exists(args.output / name)]
    print(f"{len(names) - len(missing)} of {len(names)} datasets exist in {args.output}", flush=True)
    remote = [each for each in missing if not _has_copy(each, args.originals)]
    if remote:
        _check_space(remote, args.output)
    commands = find_commands()
    for number, dataset in enumerate(missing, start=1):
        copies = args.originals / dataset.name if _has_copy(dataset, args.originals) else None
        print(f"\n[{number}/{len(missing)}] {dataset.name}: {copies or _origin(dataset)}", flush=True)
        downloads = args.output / DOWNLOADS / dataset.name
        if copies:
            words = _as_sources(dataset, copies)
        elif dataset.hub:
            words = [*dataset.hub, *(["--comments", str(downloads)] if dataset.command == REDDIT else [])]
        else:
            words = _download(dataset, downloads)
        _build(dataset, words, args.output / dataset.name, commands[dataset.command])


def _has_copy(dataset: PublicDataset, originals: Path | None) -> bool:
    return originals is not None and (originals / dataset.name).is_dir()


def _names(given: str) -> list[str]:
    """The datasets that an argument names."""
    if given.endswith((".yaml", ".yml")):
        return names_in_preset(Path(given))
    name = public_name(given) or given.rstrip("/")  # data/snli is snli
    if name not in public_datasets():
        hint = suggest(name, public_datasets())
        raise InputError(f"'{given}': no such public dataset{hint}; python -m data_scripts download lists them")
    return [name]


def names_in_preset(path: Path) -> list[str]:
    """The public datasets whose folders in data/ a preset, or one that it extends, names.

    Raises:
        InputError: a preset cannot be read.
    """
    names: list[str] = []
    read: list[Path] = []
    while path not in read:
        read.append(path)
        try:
            text = _COMMENT.sub("", path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{path}: cannot be read ({getattr(error, 'strerror', '') or error})") from error
        names += [name for folder in _FOLDER.findall(text) if (name := public_name(folder))]
        if base := _EXTENDS.search(text):
            path = path.with_name(f"{base[1]}.yaml")
    return list(dict.fromkeys(names))


def _exists(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _check_space(datasets: list[PublicDataset], output: Path) -> None:
    """Print the sizes of the downloads, and check that they fit on the disk."""
    megabytes = sum(each.megabytes or 0 for each in datasets)
    sizes = ", ".join(f"{each.name} {_size(each)}" for each in datasets)
    print(f"to download: {sizes}; together about {megabytes:,.0f} MB, without unknown sizes (?)", flush=True)
    make_folder(output)
    if (free := shutil.disk_usage(output).free / 1e6) < megabytes:
        raise InputError(f"{output}: {free:,.0f} MB of disk space are free, and the downloads take {megabytes:,.0f} MB")


def _download(dataset: PublicDataset, folder: Path) -> list[str]:
    """Download the files of a dataset to a folder; returns the sources of its command."""
    make_folder(folder)
    with locked(folder, lock_beside(folder)):
        for file in dataset.files:
            subfolder = folder / file.folder
            path = subfolder / file.local_name
            _download_file(file, path)
            if file.members:
                unpack_members(path, file.members, subfolder, file.name)
    return _as_sources(dataset, folder)


def _download_file(file: PublicFile, path: Path) -> None:
    """Download a file from the first of its addresses that has it."""
    failures: list[str] = []
    for address in (file.address, *file.mirrors):
        try:
            return download_file(address, path, file.sha256)
        except InputError as error:
            failures.append(str(error))
    raise InputError("; ".join(failures))


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
    import httpx

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
            started = time.monotonic()
            for block in response.iter_raw():
                file.write(block)
                bar.update(len(block))
                if is_slow(started, response.num_bytes_downloaded):
                    raise httpx.ReadTimeout(f"the server {TOO_SLOW}")


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


def _as_sources(dataset: PublicDataset, folder: Path) -> list[str]:
    """What the command reads: the folder, or the files in it."""
    if dataset.command not in READ_FILES:
        return [str(folder)]
    visible = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    files = [str(file) for file in visible if file.suffix not in (".zip", ".part")]
    if not files:
        raise InputError(f"{folder}: contains no file")
    return files


def _build(dataset: PublicDataset, words: list[str], output: Path, command: Command) -> None:
    parser = command_parser(command.load(), dataset.command)
    license_option = ["--license", dataset.license] if dataset.license else []
    args = parser.parse_args([*words, "--output", str(output), *dataset.options, *license_option])
    args.run(args)


def _table(datasets: Iterable[PublicDataset]) -> str:
    rows = [("name", "command", "MB", "license", "source")]
    for each in datasets:
        rows.append((each.name, each.command, _size(each), each.license or "not stated", _origin(each)))
    name, command, size, license, _ = (max(map(len, column)) for column in zip(*rows, strict=True))
    line = f"{{:{name}}}  {{:{command}}}  {{:>{size}}}  {{:{license}}}  {{}}"
    return "\n".join(line.format(*row) for row in rows)


def _size(dataset: PublicDataset) -> str:
    return "?" if dataset.megabytes is None else f"{dataset.megabytes:.0f}"


def _origin(dataset: PublicDataset) -> str:
    """Where a dataset comes from, in a few words: Hub ids, repositories or hosts."""
    origins = []
    for address in dataset.addresses:
        host, _, path = address.rpartition("://")[2].partition("/")
        if host == "raw.githubusercontent.com":
            origins.append("github.com/" + "/".join(path.split("/")[:2]))
        else:
            origins.append(host if "://" in address else re.sub(":.*/.*", "", address))
    return ", ".join(dict.fromkeys(origins))
