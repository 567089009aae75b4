"""Datasets on the Hub by name; `datasets` is imported when one is opened.

Private and gated datasets are read with the token of `hf auth login` or of the variable HF_TOKEN.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from data_scripts.files.hub_errors import hub_errors
from data_scripts.files.hub_names import CONVERTED, HubName, parse_hub_name
from data_scripts.files.text_files import split_from_value

if TYPE_CHECKING:
    from datasets import Dataset, DatasetBuilder, DatasetDict, Features, IterableDataset

SPLIT_COLUMN = "split"
BLOCK_BYTES = 1 << 14  # that are read beyond a part of a column if others hold images or the like


class HubDataset:
    """A dataset on the Hub; if HF_HUB_OFFLINE is set, one in the cache of `datasets`.

    Its methods raise an InputError that tells the cause if it cannot be read.
    """

    def __init__(self, source: str) -> None:
        import datasets

        _limit_attempts()
        self.source = source
        self._is_offline = datasets.config.HF_HUB_OFFLINE
        self._arguments, self._options = _load_arguments(parse_hub_name(source))

    @cached_property
    def features(self) -> Features:
        """The columns and their types, from its card, its first file or (for CSV) its first row."""
        import datasets

        if self._is_offline:
            return next(iter(self.load().values())).features
        with hub_errors(self.source):
            if self._builder.info.features:
                return self._builder.info.features
            rows = next(iter(self._builder.as_streaming_dataset().values()))
            return rows.features or datasets.Dataset.from_list(list(rows.take(1))).features

    @property
    def commit(self) -> str:
        """Identifies the state of its files."""
        return "" if self._is_offline else self._builder.hash

    @cached_property
    def _builder(self) -> DatasetBuilder:
        import datasets

        return datasets.load_dataset_builder(*self._arguments, **self._options)

    def load(self) -> DatasetDict:
        """Download it to the cache of `datasets`, unless it is there, and load it.

        Of a dataset with images or the like, only the other columns are downloaded; they are held in memory.
        """
        return self._loaded

    @cached_property
    def _loaded(self) -> DatasetDict:
        import datasets

        texts = None if self._is_offline else [name for name, each in self.features.items() if not _is_media(each)]
        with hub_errors(self.source):
            if texts is None:
                splits = dict(datasets.load_dataset(*self._arguments, **self._options))
            elif len(texts) == len(self.features):
                self._builder.download_and_prepare()
                splits = self._builder.as_dataset()
            else:
                splits = {
                    name: datasets.Dataset.from_list(list(rows), features=rows.features)
                    for name, rows in self._stream(texts).items()
                }
        return assign_splits(datasets.DatasetDict(rename_splits(splits)))

    def stream(self, columns: Iterable[str]) -> Mapping[str, Dataset | IterableDataset]:
        """Split -> its rows, which are read while they are iterated over, without a copy on the disk.

        Of Parquet files, only these columns are downloaded. A column `split` assigns the rows of a dataset with one
        split to splits, and the rows of each are then read separately. The rows of CSV have no `features`.
        """
        columns = list(dict.fromkeys(columns))
        if self._is_offline:
            return self.load()
        splits = self._stream(columns)
        if len(splits) > 1 or SPLIT_COLUMN not in self.features or SPLIT_COLUMN in columns:
            return rename_splits(splits)
        (values,) = self._stream([SPLIT_COLUMN]).values()
        with hub_errors(self.source):
            assigned = _assignments(dict.fromkeys(row[SPLIT_COLUMN] for row in values))
        if not assigned:
            return rename_splits(splits)
        (rows,) = self._stream([*columns, SPLIT_COLUMN]).values()
        return {
            split: rows.filter(given.__contains__, input_columns=SPLIT_COLUMN).select_columns(columns)
            for split, given in assigned.items()
        }

    def _stream(self, columns: list[str]) -> dict[str, IterableDataset]:
        import datasets

        with hub_errors(self.source):
            if any(map(_is_media, self.features.values())):
                # Otherwise 5 MiB are read for each part of a column, and so the images that follow it.
                options = self._options | {"storage_options": {"hf": {"block_size": BLOCK_BYTES}}}
                builder = datasets.load_dataset_builder(*self._arguments, **options)
            else:
                builder = copy(self._builder)  # a new one would ask the Hub for the names of the files again
                builder.info = self._builder.info.copy()
            if hasattr(builder.config, "columns"):  # of Parquet
                builder.config = replace(builder.config, columns=columns)
            streams = builder.as_streaming_dataset()
        return {name: rows.select_columns(columns) for name, rows in streams.items()}


def _limit_attempts() -> None:
    """Let `datasets` repeat the reading of a stream once: `huggingface_hub` repeats each of its requests five times.

    By default, `datasets` makes twenty attempts, up to a minute apart.
    """
    from datasets import config

    config.STREAMING_READ_MAX_RETRIES = config.STREAMING_OPEN_MAX_RETRIES = 2
    config.STREAMING_READ_RETRY_INTERVAL = config.STREAMING_OPEN_RETRY_INTERVAL = 1
    config.STREAMING_READ_RATE_LIMIT_RETRY_INTERVAL = config.STREAMING_READ_SERVER_UNAVAILABLE_RETRY_INTERVAL = 1


def _is_media(feature: Any) -> bool:
    import datasets

    is_binary = getattr(feature, "dtype", "") in ("binary", "large_binary")
    return is_binary or isinstance(feature, datasets.Image | datasets.Audio | datasets.Video)


def _load_arguments(name: HubName) -> tuple[list[str], dict[str, Any]]:
    """The arguments of `load_dataset`, without and with names."""
    arguments, options = [name.repository], {"revision": name.revision} if name.revision else {}
    if "/" in name.config or "*" in name.config:  # no configuration has these in its name
        options["data_files"] = name.config
    elif name.config and name.revision == CONVERTED:
        options["data_dir"] = name.config
    elif name.config:
        arguments.append(name.config)
    return arguments, options


def rename_splits(splits: dict[str, Any]) -> dict[str, Any]:
    """The splits with `dev` and the like as `validation`, unless two of them would have the same name."""
    names = [re.sub(r"^(dev|valid|val)(?![a-z])", "validation", name) for name in splits]
    return dict(zip(names if len(set(names)) == len(names) else splits, splits.values(), strict=True))


def assign_splits(splits: DatasetDict) -> DatasetDict:
    """The rows of a dataset with one split and a column `split` by that column, if it names splits."""
    from datasets import DatasetDict

    if len(splits) != 1:
        return splits
    (rows,) = splits.values()
    if SPLIT_COLUMN not in rows.column_names:
        return splits
    values = rows[SPLIT_COLUMN][:]
    assigned = _assignments(dict.fromkeys(values))
    if not assigned:
        return splits
    return DatasetDict(
        {
            split: rows.select([index for index, value in enumerate(values) if value in given])
            for split, given in assigned.items()
        }
    )


def _assignments(values: Iterable[Any]) -> dict[str, list[Any]]:
    """Split -> the values of a column that name it; empty if a value names none."""
    assigned: dict[str, list[Any]] = {}
    for value in values:
        split = split_from_value(value)
        if split is None:
            return {}
        assigned.setdefault(split, []).append(value)
    return assigned
