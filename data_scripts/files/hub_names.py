"""Names of datasets on the Hub, and what tells them from paths.

A source is OWNER/NAME, OWNER/NAME:CONFIG for one of its configurations, or OWNER/NAME:PATTERN for some of its files,
such as data/2006/*.parquet; each with @REVISION after it if needed.
"""

import argparse
import re
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

from data_scripts.files.errors import InputError
from data_scripts.public_datasets import public_name

CONVERTED = "refs/convert/parquet"  # the branch with the Hub's own Parquet copy, which has a folder per configuration
_REPOSITORY = re.compile(r"[A-Za-z0-9_][\w.-]*/[\w.-]+")


class HubName(NamedTuple):
    """The parts of a source; `config` and `revision` may be empty."""

    repository: str
    config: str
    revision: str


def parse_hub_name(source: str) -> HubName:
    """The parts of REPOSITORY:CONFIG@REVISION; a repository has no @ and no colon in its name."""
    name, _, revision = source.partition("@")
    repository, _, config = name.partition(":")
    return HubName(repository, config, revision)


def is_path(source: str) -> bool:
    """Whether a source is a path and not a Hub id: it looks like a path, or its first folder exists.

    Raises:
        InputError: it is a URL.
    """
    refuse_url(source)
    is_local = source.startswith(("/", ".", "~")) or Path(source.partition("/")[0]).exists()
    return is_local or public_name(source) is not None


def refuse_url(source: str) -> None:
    """Refuse a URL where only paths and Hub ids are read, instead of looking for a folder with its scheme's name.

    Raises:
        InputError: it is a URL.
    """
    if "://" in source:
        raise InputError(
            f"{source}: a URL, expected a path; only the dumps, --comments and --output of `reddit`, and the --output "
            "of `conversations`, may be URLs: copy the files to a disk"
        )


def local_path(text: str) -> Path:
    """A path as the value of an option that does not take URLs."""
    try:
        refuse_url(text)
    except InputError as error:
        raise argparse.ArgumentTypeError(str(error)) from error
    return Path(text)


def is_hub_name(source: str, suffixes: Collection[str]) -> bool:
    """Whether an input that is usually a file is a Hub id: OWNER/NAME, without one of the suffixes of such files."""
    repository = parse_hub_name(source).repository
    return bool(_REPOSITORY.fullmatch(repository)) and Path(repository).suffix not in suffixes and not is_path(source)
