"""Loads datasets by folder or by name on the Hub, and checks their columns; `datasets` is imported by the loaders."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from data_scripts.errors import InputError
from data_scripts.public_datasets import how_to_build
from data_scripts.read.checksums import verify_dataset
from data_scripts.read.hub import HubDataset, assign_splits
from data_scripts.read.hub_errors import disk_error
from data_scripts.read.hub_names import is_path, refuse_url
from data_scripts.read.text_files import split_from_name
from data_scripts.schemas import PAIR_SCHEMA, SPLITS

if TYPE_CHECKING:
    from datasets import DatasetDict

_SHARD = re.compile(r"(.+)-\d{5}-of-\d{5}\.parquet")  # of a split, as `datasets` and our commands name them


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
    """Refuse Parquet files that exceed the limits of `parquet_files`, because `datasets` has no limits.

    Raises:
        InputError: a file exceeds a limit. Whoever reads the files reports those that cannot be read.
    """
    # Imported here, so that --help does not wait for pyarrow.
    from data_scripts.read.parquet_files import UNREADABLE, ParquetSizeError, check_row_groups

    for file in files:
        if file.suffix != ".parquet":
            continue
        try:
            check_row_groups(file)
        except ParquetSizeError as error:
            raise InputError(str(error)) from error
        except UNREADABLE:
            continue


def load_columns(source: str, columns: tuple[str, ...]) -> DatasetDict:
    """Load a folder of Parquet, JSON lines or CSV, a Parquet file, or a dataset on the Hub, and check its columns.

    A column `split` assigns the rows of a dataset with one split to splits.

    Args:
        source: a path; or OWNER/NAME on the Hub, with `:CONFIG` or `@REVISION` after it if needed. Files named
            `SPLIT-00000-of-00001.parquet`, as our commands name them, are that split; other names are read as
            `datasets` reads them.
        columns: the columns that each split must have.

    Raises:
        InputError: the source is neither a folder nor a dataset on the Hub, or a column is missing.
    """
    if is_path(source):
        splits = assign_splits(_load_folder(source, columns))
    else:
        dataset = HubDataset(source)
        _check_columns(dataset.features, columns, source)  # before it is downloaded
        splits = dataset.load()
    for name, split in splits.items():
        _check_columns(split.column_names, columns, f"{source}: split {name}")
    return splits


def _check_columns(available: Iterable[str], columns: tuple[str, ...], location: str) -> None:
    missing = [column for column in columns if column not in available]
    if missing:
        raise InputError(
            f"{location} has no column {', '.join(missing)}; expected {', '.join(columns)}, "
            f"found {', '.join(available)}"
        )


def _load_folder(source: str, columns: tuple[str, ...]) -> DatasetDict:
    import datasets
    from datasets.exceptions import DatasetsError

    path = Path(source)
    if not path.is_file():
        existing_folder(source)
    verify_dataset(path)
    check_parquet([path] if path.is_file() else sorted(path.rglob("*.parquet")))
    files = _parquet_files(path)
    try:
        return datasets.load_dataset("parquet", data_files=files) if files else datasets.load_dataset(source)
    except (OSError, ValueError, RuntimeError, DatasetsError) as error:
        if reason := disk_error(error):
            raise InputError(reason) from error
        needed = f" with {', '.join(columns)}" if columns else ""
        raise InputError(f"{source}: nothing in it can be read as a dataset{needed} ({error})") from error


def _parquet_files(path: Path) -> dict[str, list[str]]:
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


def load_pairs(source: str) -> DatasetDict:
    """Load pairs by folder (as this package's commands write it) or by name on the Hub.

    Returns:
        The splits that exist (`train`, `validation`, `test`), each with the features `PAIR_FEATURES`.

    Raises:
        InputError: no such folder or repository, or a column of `input, response, thread, source` is missing.
    """
    from data_scripts.features import PAIR_FEATURES

    pairs = _load_pair_files(existing_folder(source)) if is_path(source) else HubDataset(source).load()
    for name, split in pairs.items():
        if set(PAIR_SCHEMA.names) - set(split.column_names):
            raise InputError(
                f"{source}: split {name} has the columns {', '.join(split.column_names)}; "
                f"expected {', '.join(PAIR_SCHEMA.names)}; `python -m data_scripts conversations` makes pairs of others"
            )
    pairs = pairs.select_columns(PAIR_SCHEMA.names)
    # A cast writes every row again, and what our commands wrote needs none.
    same = all(split.features == PAIR_FEATURES for split in pairs.values())
    return pairs if same else pairs.cast(PAIR_FEATURES)


def _load_pair_files(folder: Path) -> DatasetDict:
    import datasets
    from datasets.exceptions import DatasetsError

    try:
        verify_dataset(folder)
        check_parquet(sorted(folder.glob("*.parquet")))
        return datasets.load_dataset("parquet", data_files=_pair_files(folder))
    except (OSError, ValueError, RuntimeError, DatasetsError) as error:
        if reason := disk_error(error):
            raise InputError(reason) from error
        cause = error.__cause__ or error  # `datasets` wraps the original error
        raise InputError(f"{folder}: not a readable folder of pairs ({cause})") from error


def _pair_files(folder: Path) -> dict[str, list[str]]:
    files = {split: sorted(map(str, folder.glob(f"{split}-*.parquet"))) for split in SPLITS}
    files = {split: paths for split, paths in files.items() if paths}
    if not files:
        raise InputError(f"{folder}: no train-*.parquet, validation-*.parquet or test-*.parquet in this folder")
    return files
