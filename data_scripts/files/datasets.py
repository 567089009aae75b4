"""Loads datasets by path or by name on the Hub, and checks their columns; `datasets` is imported by the loaders."""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from data_scripts.files.checksums import verify_dataset
from data_scripts.files.errors import InputError
from data_scripts.files.hub import HubDataset, assign_splits
from data_scripts.files.hub_errors import disk_error
from data_scripts.files.hub_names import is_path, refuse_url
from data_scripts.files.text_files import split_from_name
from data_scripts.public_datasets import how_to_build
from data_scripts.schemas import PAIR_SCHEMA

if TYPE_CHECKING:
    from datasets import DatasetDict

_SHARD = re.compile(r"(.+)-\d{5}-of-\d{5}\.parquet")  # of a split, as `datasets` and our commands name them
_NO_PAIRS = "; `python -m data_scripts conversations` makes pairs of others"


def existing_folder(source: str | Path) -> Path:
    """`source` as the path of a folder that exists.

    Raises:
        InputError: it is a file or a URL, or does not exist.
    """
    refuse_url(str(source))
    folder = Path(source)
    if not str(source):
        raise InputError("'': an empty name, expected a folder")
    if not folder.is_dir():
        problem = "a file, expected a folder" if folder.exists() else f"no such folder{how_to_build(folder)}"
        raise InputError(f"{source}: {problem}")
    return folder


def check_parquet(files: Iterable[Path]) -> None:
    """Refuse Parquet files with too large row groups, because `datasets` has no limit.

    Raises:
        InputError: there is one. Whoever reads the files reports those that cannot be read.
    """
    # Imported here, so that --help does not wait for pyarrow.
    from data_scripts.files.parquet_files import UNREADABLE, check_row_groups

    for file in files:
        with suppress(*UNREADABLE):
            check_row_groups(file)


def load_columns(source: str, columns: tuple[str, ...], hint: str = "") -> DatasetDict:
    """Load a folder of Parquet, JSON lines or CSV, a Parquet file, or a dataset on the Hub, and check its columns.

    A column `split` assigns the rows of a dataset with one split to splits.

    Args:
        source: a path; or OWNER/NAME on the Hub, with `:CONFIG` or `@REVISION` after it if needed. Files named
            `SPLIT-00000-of-00001.parquet`, as our commands name them, are that split; other names are read as
            `datasets` reads them.
        columns: the columns that each split must have.
        hint: the end of the message if one is missing.

    Raises:
        InputError: the source is neither a folder nor a dataset on the Hub, or a column is missing.
    """
    if is_path(source):
        splits = assign_splits(_load_path(source, columns))
    else:
        dataset = HubDataset(source)
        _check_columns(dataset.features, columns, source, hint)  # before it is downloaded
        splits = dataset.load()
    for name, split in splits.items():
        _check_columns(split.column_names, columns, f"{source}: split {name}", hint)
    return splits


def load_pairs(source: str) -> DatasetDict:
    """Load pairs by path or by name on the Hub, as `load_columns` does, with the features `PAIR_FEATURES` alone.

    Raises:
        InputError: no such folder or repository, or a column of `input, response, thread, source` is missing.
    """
    from data_scripts.features import PAIR_FEATURES

    pairs = load_columns(source, tuple(PAIR_SCHEMA.names), _NO_PAIRS).select_columns(PAIR_SCHEMA.names)
    # A cast writes every row again, and what our commands wrote needs none.
    same = all(split.features == PAIR_FEATURES for split in pairs.values())
    return pairs if same else pairs.cast(PAIR_FEATURES)


def _check_columns(available: Iterable[str], columns: tuple[str, ...], location: str, hint: str) -> None:
    missing = [column for column in columns if column not in available]
    if missing:
        raise InputError(
            f"{location} has no column {', '.join(missing)}; expected {', '.join(columns)}, "
            f"found {', '.join(available)}{hint}"
        )


def _load_path(source: str, columns: tuple[str, ...]) -> DatasetDict:
    import datasets
    from datasets.exceptions import DatasetsError

    path = Path(source)
    if not path.is_file():
        existing_folder(source)
    verify_dataset(path)
    check_parquet([path] if path.suffix == ".parquet" else path.rglob("*.parquet"))
    files = _split_files(path)
    try:
        return datasets.load_dataset("parquet", data_files=files) if files else datasets.load_dataset(source)
    except (OSError, ValueError, RuntimeError, DatasetsError) as error:
        if reason := disk_error(error):
            raise InputError(reason) from error
        needed = f" with {', '.join(columns)}" if columns else ""
        cause = error.__cause__ or error  # `datasets` wraps the original error
        raise InputError(f"{source}: nothing in it can be read as a dataset{needed} ({cause})") from error


def _split_files(path: Path) -> dict[str, list[str]]:
    """Split -> files, of one Parquet file or of a folder whose Parquet files are all named after splits."""
    if path.is_file():
        return {split_from_name(path.stem): [str(path)]}
    files: dict[str, list[str]] = {}
    for file in sorted(path.glob("*.parquet")):
        match = _SHARD.fullmatch(file.name)
        if not match:
            return {}
        files.setdefault(match[1], []).append(str(file))
    return files
