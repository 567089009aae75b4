"""Loads datasets by folder or by name on the Hub, and checks their columns; `datasets` is imported by the loaders."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_scripts.errors import InputError
from data_scripts.public_datasets import how_to_build, public_name
from data_scripts.read.checksums import verify_dataset
from data_scripts.read.hub_client import limit_waiting
from data_scripts.read.text_files import split_from_name
from data_scripts.schemas import PAIR_SCHEMA, SPLITS

if TYPE_CHECKING:
    from datasets import DatasetDict

_CANNOT_WRITE = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)
_SHARD = re.compile(r"(.+)-\d{5}-of-\d{5}\.parquet")  # of a split, as `datasets` and our commands name them


def existing_folder(source: str | Path) -> Path:
    """`source` as the path of a folder that exists.

    Raises:
        InputError: it is a file, or does not exist.
    """
    folder = Path(source)
    if not folder.is_dir():
        problem = "a file, expected a folder" if folder.exists() else f"no such folder{how_to_build(folder)}"
        raise InputError(f"{source}: {problem}")
    return folder


def is_path(source: str) -> bool:
    """Whether a source is a path and not a Hub id: it looks like one, or its first folder exists.

    The folder of a public dataset in data/ is a path even if data/ does not exist.
    """
    is_local = source.startswith(("/", ".", "~")) or Path(source.partition("/")[0]).exists()
    return is_local or public_name(source) is not None


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

    Args:
        source: a path; or OWNER/NAME on the Hub, with `:CONFIG` or `@REVISION` after it if needed. Files named
            `SPLIT-00000-of-00001.parquet`, as our commands name them, are that split; other names are read as
            `datasets` reads them.
        columns: the columns that each split must have.

    Raises:
        InputError: the source is neither a folder nor a dataset on the Hub, or a column is missing.
    """
    import datasets
    from datasets.exceptions import DatasetsError
    from huggingface_hub.errors import HTTPError

    path = Path(source)
    if is_path(source) and not path.is_file():
        existing_folder(source)
    arguments: list[Any] = [source]
    options: dict[str, Any] = {}
    if is_path(source):
        verify_dataset(path)
        check_parquet([path] if path.is_file() else sorted(path.rglob("*.parquet")))
        reason = "nothing in it can be read as a dataset" + (f" with {', '.join(columns)}" if columns else "")
        if files := _parquet_files(path):
            arguments, options = ["parquet"], {"data_files": files}
    else:
        limit_waiting()
        reason = "no such folder here, and the Hub has no dataset of this name"
        name, _, revision = source.partition("@")
        arguments = name.split(":", 1)
        options = {"revision": revision} if revision else {}
    try:
        splits = datasets.load_dataset(*arguments, **options)
    except (HTTPError, OSError, ValueError, RuntimeError, DatasetsError) as error:
        if "scripts are no longer supported" in str(error):
            reason = f"it needs a loading script; try the Hub's own Parquet copy: {source}@refs/convert/parquet"
        raise InputError(f"{source}: {reason} ({error})") from error
    for name, split in splits.items():
        missing = [column for column in columns if column not in split.column_names]
        if missing:
            raise InputError(
                f"{source}: split {name} has no column {', '.join(missing)}; expected {', '.join(columns)}, "
                f"found {', '.join(split.column_names)}"
            )
    return splits


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
    import datasets
    from datasets.exceptions import DatasetsError
    from huggingface_hub.errors import HTTPError

    from data_scripts.features import PAIR_FEATURES

    folder = Path(source)
    if is_path(source):
        existing_folder(source)
    try:
        if folder.is_dir():
            verify_dataset(folder)
            check_parquet(sorted(folder.glob("*.parquet")))
            pairs = datasets.load_dataset("parquet", data_files=_pair_files(folder))
        else:
            limit_waiting()
            pairs = datasets.load_dataset(source)
    except (HTTPError, OSError, ValueError, RuntimeError, DatasetsError) as error:
        reason = error.__cause__ or error  # `datasets` wraps the original error
        if isinstance(reason, OSError) and reason.errno in _CANNOT_WRITE:
            raise InputError(
                f"{datasets.config.HF_DATASETS_CACHE}: cannot be written ({reason.strerror}); free some disk space, or "
                "set HF_DATASETS_CACHE to another folder"
            ) from error
        raise InputError(f"{source}: neither a readable folder of pairs nor a dataset on the Hub ({reason})") from error
    for name, split in pairs.items():
        if set(PAIR_SCHEMA.names) - set(split.column_names):
            raise InputError(
                f"{source}: split {name} has the columns {', '.join(split.column_names)}; "
                f"expected {', '.join(PAIR_SCHEMA.names)}"
            )
    pairs = pairs.select_columns(PAIR_SCHEMA.names)
    # A cast writes every row again, and what our commands wrote needs none.
    same = all(split.features == PAIR_FEATURES for split in pairs.values())
    return pairs if same else pairs.cast(PAIR_FEATURES)


def _pair_files(folder: Path) -> dict[str, list[str]]:
    files = {split: sorted(map(str, folder.glob(f"{split}-*.parquet"))) for split in SPLITS}
    files = {split: paths for split, paths in files.items() if paths}
    if not files:
        raise InputError(f"{folder}: no train-*.parquet, validation-*.parquet or test-*.parquet in this folder")
    return files
