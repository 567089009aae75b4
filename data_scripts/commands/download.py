"""Download public datasets by name, and convert them for training.

NAME is a dataset of the catalog, or the name or path of a preset, to get all of its public datasets. Without NAME, the
catalog is printed. The command listed there writes each dataset to OUTPUT/NAME. Existing folders are not changed.
Datasets on the Hub are read directly; other files are downloaded to OUTPUT/downloads/NAME, unless they already exist.

Examples: convsim data download
          convsim data download snli captions/multi30k
          convsim data download best_dan
"""

from __future__ import annotations

import argparse
import fnmatch
import hashlib
import re
import zipfile
import zlib
from collections.abc import Iterable
from pathlib import Path

from data_scripts.commands import PROGRAM, command_parser
from data_scripts.presets import PRESETS, find_preset, read_presets
from data_scripts.public_datasets import DATA, PublicDataset, public_datasets, public_name
from modeling_convsim.files.command_line import add_output_argument, suggest
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.storage import make_folder, new_file

DOWNLOADS = "downloads"
REDDIT = "reddit"  # this command keeps the comments that it has read, and can continue from them
READ_FILES = ("conversations", REDDIT)  # commands whose sources are files; the others read a folder
TIMEOUT_SECONDS = 60.0  # without any data from the server


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.add_argument("names", nargs="*", metavar="NAME", help="datasets or presets (default: print the catalog)")
    output_help = "folder in which the dataset folders are created (default: %(default)s)"
    add_output_argument(parser, output_help, required=False, default=Path(DATA))


def run(args: argparse.Namespace) -> None:
    """Build the datasets that do not exist yet; without names, print the catalog."""
    if not args.names:
        print(_table(public_datasets().values()))
        return
    names = list(dict.fromkeys(name for given in args.names for name in _names(given)))
    if not names:
        raise InputError(f"{' '.join(args.names)}: uses no public dataset, so there is nothing to download")
    missing = [public_datasets()[name] for name in names if not any((args.output / name).glob("*"))]
    print(f"{len(names) - len(missing)} of {len(names)} datasets already exist in {args.output}", flush=True)
    for number, dataset in enumerate(missing, start=1):
        print(f"\n[{number}/{len(missing)}] {dataset.name}: {_origin(dataset)}, {_size(dataset)} MB", flush=True)
        downloads = args.output / DOWNLOADS / dataset.name
        if dataset.hub:
            words = [*dataset.hub, *(["--comments", str(downloads)] if dataset.command == REDDIT else [])]
        else:
            words = _download(dataset, downloads)
        _build(dataset, words, args.output / dataset.name)


def _names(given: str) -> list[str]:
    """The datasets that an argument names."""
    name = public_name(given) or given.rstrip("/")  # data/snli is snli
    if name in public_datasets():
        return [name]
    try:
        preset = find_preset(given)
    except InputError:
        known = [*public_datasets(), *(file.stem for file in PRESETS.glob("*.yaml"))]
        hint = suggest(name, known)
        raise InputError(
            f"'{given}': no such public dataset or preset{hint}; `{PROGRAM} download` lists them"
        ) from None
    return names_in_preset(preset)


def names_in_preset(path: Path) -> list[str]:
    """The public datasets whose folders in data/ the options of a preset name.

    Raises:
        InputError: a preset cannot be read.
    """
    options = {name: value for _, changes in read_presets(path) for name, value in changes.items()}
    sources = [source for value in options.values() for source in (value if isinstance(value, list) else [value])]
    return list(dict.fromkeys(name for source in sources if (name := public_name(str(source)))))


def _download(dataset: PublicDataset, folder: Path) -> list[str]:
    """Download the files of a dataset to a folder; returns the sources of its command."""
    for file in dataset.files:
        path = folder / file.folder / file.local_name
        make_folder(path.parent)
        download_file(file.address, path, file.sha256)
        if file.members:
            unpack_members(path, file.members, file.name)
    return _as_sources(dataset, folder)


def download_file(address: str, path: Path, sha256: str = "") -> None:
    """Download a file, unless it is there already.

    Args:
        address: http:// or https://.
        path: the file, which only gets its name when it is complete.
        sha256: its checksum; the download is checked if one is given.

    Raises:
        InputError: there is no such file, no connection, or no answer; the file has another checksum; or it cannot be
            written.
    """
    import aiohttp
    import fsspec
    from fsspec.callbacks import TqdmCallback

    if path.is_file():
        return
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=TIMEOUT_SECONDS, sock_read=TIMEOUT_SECONDS)
    system = fsspec.filesystem("http", client_kwargs={"timeout": timeout})
    progress = TqdmCallback(tqdm_kwargs={"delay": 1, "unit": "B", "unit_scale": True, "desc": path.name})
    with new_file(path) as partial:
        try:
            system.get_file(address, str(partial), callback=progress)
        except (aiohttp.ClientError, TimeoutError, FileNotFoundError) as error:
            cause = "the file does not exist" if isinstance(error, FileNotFoundError) else str(error) or "no answer"
            raise InputError(f"{address}: cannot be downloaded ({cause}); check the connection") from error
        with partial.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        if sha256 and digest != sha256:
            raise InputError(
                f"{address}: the SHA-256 is {digest}, expected {sha256}: the file has changed, or the download is "
                "damaged; run the command again"
            )


def unpack_members(archive: Path, patterns: Iterable[str], name: str = "") -> None:
    """Unpack the files of a .zip whose names match beside it, without their folders.

    Args:
        archive: the .zip.
        patterns: names with * and ?, which match slashes too.
        name: the name of the file that is unpacked, if it gets another one.

    Raises:
        InputError: it is not a .zip, a pattern matches no file, or a file is damaged.
    """
    try:
        with zipfile.ZipFile(archive) as unzipped:
            for pattern in patterns:
                # macOS adds a file ._NAME for each file.
                members = [each for each in fnmatch.filter(unzipped.namelist(), pattern) if "/._" not in each]
                if not members:
                    raise InputError(f"{archive}: contains no file {pattern}; the archive may have changed")
                for member in members:
                    with (
                        unzipped.open(member) as source,
                        new_file(archive.with_name(name or Path(member).name)) as path,
                    ):
                        path.write_bytes(source.read())
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise InputError(f"{archive}: not a readable .zip ({error}); delete it, and run the command again") from error


def _as_sources(dataset: PublicDataset, folder: Path) -> list[str]:
    """The sources of the command: the folder, or the files in it."""
    if not dataset.files:  # the sample, which ships with convsim
        return []
    if dataset.command not in READ_FILES:
        return [str(folder)]
    visible = sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))
    return [str(file) for file in visible if file.suffix != ".zip"]


def _build(dataset: PublicDataset, words: list[str], output: Path) -> None:
    parser = command_parser(dataset.command)
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
    """Where a dataset comes from, in a few words: Hub ids or hosts."""
    names = [re.sub(":.*/.*", "", name) for name in dataset.hub]
    hosts = [file.address.split("/")[2] for file in dataset.files]
    return ", ".join(dict.fromkeys(names or hosts)) or "ships with convsim"
