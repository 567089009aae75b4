"""Catalog of public datasets (public_datasets.yaml): the command that builds each folder of `data/`, and its source."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

CATALOG = Path(__file__).with_suffix(".yaml")
DATA = "data"  # the folder of the datasets, unless an option names another


@dataclass(frozen=True)
class PublicFile:
    """A file that is downloaded for a command.

    Attributes:
        address: https:// or http://.
        name: the name of the local file, or of what is unpacked from a .zip; by default that in the address or .zip.
        sha256: the file's checksum, if we have seen the file.
        members: of a .zip, the files that are unpacked: names with * and ?.
        folder: the subfolder in which the file, or its members, are.
    """

    address: str
    name: str = ""
    sha256: str = ""
    members: Sequence[str] = ()
    folder: str = ""

    @property
    def local_name(self) -> str:
        """The name of what is downloaded."""
        return self.address.rpartition("/")[2] if self.members or not self.name else self.name


@dataclass(frozen=True)
class PublicDataset:
    """A dataset that can be built by its name.

    Attributes:
        name: the folder in `data/`, such as captions/multi30k.
        command: the command that builds it.
        hub: Hub ids (OWNER/NAME, with :CONFIG or :PATTERN, and @REVISION) that the command reads itself.
        files: what is downloaded for the command; a dataset has either `hub` or `files`, the sample neither.
        options: further words of the command.
        license: as the Hub spells it; empty if its source states none.
        megabytes: size of the download; None if no source states it.
    """

    name: str
    command: str
    hub: Sequence[str] = ()
    files: Sequence[PublicFile] = ()
    options: Sequence[str] = ()
    license: str = ""
    megabytes: float | None = None


@cache
def public_datasets() -> dict[str, PublicDataset]:
    """The catalog: name -> dataset, in its order."""
    import yaml  # imported here, so that --help does not wait for it

    entries = yaml.safe_load(CATALOG.read_text(encoding="utf-8"))
    return {name: _dataset(name, entry) for name, entry in entries.items()}


def _dataset(name: str, entry: Mapping[str, Any]) -> PublicDataset:
    files = [PublicFile(**({"address": each} if isinstance(each, str) else each)) for each in entry.get("files", ())]
    return PublicDataset(name, **{**entry, "files": files})


def public_name(path: str | Path) -> str | None:
    """The name of the public dataset whose folder in `data/` this is; None for any other path."""
    first, *rest = Path(path).parts or ("",)
    name = "/".join(rest)
    return name if first == DATA and name in public_datasets() else None


def how_to_build(path: str | Path) -> str:
    """The end of an error message about a missing folder: the command that builds it; empty for an unknown folder."""
    name = public_name(path)
    return f"; build it: convsim data download {name}" if name else ""
