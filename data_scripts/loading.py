"""Loads datasets by path or by name on the Hub, checks their columns and names their splits.

Private and gated datasets are read with the token of `hf auth login` or of the variable HF_TOKEN. `datasets` is
imported where it is used.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from data_scripts.public_datasets import how_to_build
from data_scripts.schemas import PAIR_SCHEMA, PAIR_TEXTS, features
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.hub import CONVERTED, dataset_problem, hub_errors, is_path, parse_hub_name
from modeling_convsim.files.records import BATCH_ROWS, SAMPLE_RECORDS, Records, Rows
from modeling_convsim.files.texts import BrokenLines

if TYPE_CHECKING:
    from datasets import ClassLabel, Dataset, DatasetBuilder, DatasetDict, Features, IterableDataset


SPLIT_COLUMN = "split"
BLOCK_BYTES = 1 << 14  # read beyond a part of a column if other columns contain images or other media


class HubDataset:
    """A dataset on the Hub; if HF_HUB_OFFLINE is set, one in the cache of `datasets`.

    Its methods raise an InputError that states the cause if it cannot be read.
    """

    def __init__(self, source: str) -> None:
        import datasets

        self.source = source
        self._is_offline = datasets.config.HF_HUB_OFFLINE
        name = parse_hub_name(source)
        # The arguments of `load_dataset`, without and with names.
        self._arguments: list[str] = [name.repository]
        self._options: dict[str, Any] = {"revision": name.revision} if name.revision else {}
        if "/" in name.config or "*" in name.config:  # no configuration has these in its name
            self._options["data_files"] = name.config
        elif name.config and name.revision == CONVERTED:
            self._options["data_dir"] = name.config
        elif name.config:
            self._arguments.append(name.config)

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

        If a dataset has images or other media, only the other columns are downloaded, and held in memory.
        """
        import datasets

        texts = [] if self._is_offline else [name for name, each in self.features.items() if not _is_media(each)]
        with hub_errors(self.source):
            if self._is_offline or len(texts) == len(self.features):
                splits = dict(datasets.load_dataset(*self._arguments, **self._options))
            else:
                splits = {
                    name: datasets.Dataset.from_list(list(rows), features=rows.features)
                    for name, rows in self.stream(texts).items()
                }
        return assign_splits(datasets.DatasetDict(rename_splits(splits)))

    def stream(self, columns: Collection[str]) -> Mapping[str, Dataset | IterableDataset]:
        """Split -> its rows, which are read while they are iterated over, without a copy on the disk.

        Of Parquet files, only these columns are downloaded. The rows of CSV have no `features`.
        """
        import datasets

        if self._is_offline:
            return {name: rows.select_columns(list(columns)) for name, rows in self.load().items()}
        options = dict(self._options)
        with hub_errors(self.source):
            if hasattr(self._builder.config, "columns"):  # of Parquet
                options["columns"] = list(columns)
            if any(map(_is_media, self.features.values())):
                # Otherwise 5 MiB are read for each part of a column, and so the images that follow it.
                options["storage_options"] = {"hf": {"block_size": BLOCK_BYTES}}
            streams = datasets.load_dataset(*self._arguments, **options, streaming=True)
        return {name: rows.select_columns(list(columns)) for name, rows in streams.items()}


def hub_records(source: str) -> Records:
    """The records of all splits of a dataset on the Hub, which are streamed."""
    dataset = HubDataset(source)
    columns = list(dataset.features)

    def rows(needed: Collection[str], broken: BrokenLines) -> Rows:
        streams = dataset.stream([name for name in columns if name in needed])
        for split, stream in streams.items():
            yield from dataset_rows(stream, f"{source}, split {split}")

    return Records(
        source, columns, True, [record for _, record in islice(rows(columns, BrokenLines()), SAMPLE_RECORDS)], rows
    )


def dataset_rows(
    rows: Dataset | IterableDataset, location: str, labels: Mapping[str, ClassLabel] | None = None
) -> Rows:
    """The rows of a split of a dataset, with their locations.

    Args:
        rows: the split.
        location: its name.
        labels: columns whose values are replaced by their names; -1 stays.

    Raises:
        InputError: the Hub does not give them, or a value cannot be read: it is not UTF-8, or a time after 9999.
    """
    from tqdm import tqdm

    number, size = 0, getattr(rows, "num_rows", None)
    with hub_errors(location), tqdm(total=size, delay=1, unit="row", unit_scale=True, desc=location) as bar:
        for batch in rows.iter(BATCH_ROWS):
            for name, label in (labels or {}).items():
                batch[name] = [each if each is None or each < 0 else label.int2str(each) for each in batch[name]]
            for values in zip(*batch.values(), strict=True):
                number += 1
                yield f"{location}, row {number}", dict(zip(batch, values, strict=True))
            bar.update(number - bar.n)


def _is_media(feature: Any) -> bool:
    import datasets

    is_binary = getattr(feature, "dtype", "") in ("binary", "large_binary")
    return is_binary or isinstance(feature, datasets.Image | datasets.Audio | datasets.Video)


def rename_splits(splits: dict[str, Any]) -> dict[str, Any]:
    """The splits with `dev` and the like as `validation`, unless two of them would have the same name."""
    names = [re.sub(r"^[a-z]+(?![a-z])", lambda word: SPLIT_NAMES.get(word[0], word[0]), name) for name in splits]
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
    splits_of = {value: find_split(str(value), complete=True) for value in dict.fromkeys(values)}
    if None in splits_of.values():
        return splits
    return DatasetDict(
        {
            split: rows.select([index for index, value in enumerate(values) if splits_of[value] == split])
            for split in dict.fromkeys(splits_of.values())
        }
    )


PARQUET = b"PAR1"  # how such a file begins
_SHARD = re.compile(r"(.+)-\d{5}-of-\d{5}\.parquet")  # of a split, as `datasets` and our commands name them
# Word of a name -> split. `trial` is SICK's; `restval` is Karpathy's of COCO: images of the validation set that may be
# trained on.
SPLIT_NAMES = {"train": "train", "restval": "train", "test": "test"} | dict.fromkeys(
    ("dev", "validation", "valid", "val", "trial"), "validation"
)
_SPLIT = re.compile(rf"(?<![a-z])({'|'.join(SPLIT_NAMES)})(?:set|ing)?(_(?:mis)?matched)?(?![a-z])", re.I)


def find_split(name: str, complete: bool = False) -> str | None:
    """The split in a name, such as that of a file: train, validation (also `_matched`, `_mismatched`) or test, or None.

    With `complete`, the name must be that of a split, as the values of a column are.
    """
    match = (_SPLIT.fullmatch if complete else _SPLIT.search)(name)
    return SPLIT_NAMES[match[1].lower()] + (match[2] or "").lower() if match else None


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
        splits = assign_splits(_load_path(source, columns, hint))
    else:
        dataset = HubDataset(source)
        if columns:
            _check_columns(dataset.features, columns, source, hint)  # before it is downloaded
        splits = dataset.load()
    for name, split in splits.items():
        _check_columns(split.column_names, columns, f"{source}: split {name}", hint)
    return splits


def load_pairs(source: str) -> DatasetDict:
    """Load pairs by path or by name on the Hub, as `load_columns` does, with the columns of `PAIR_SCHEMA` alone.

    Datasets without earlier turns have no column `context`.

    Raises:
        InputError: no such folder or repository, or a column of `input, response, thread, source` is missing.
    """
    pairs = load_columns(source, PAIR_TEXTS, "; `convsim data conversations` creates pairs from tables and chats")
    has_context = all("context" in split.column_names for split in pairs.values())
    columns = [*PAIR_TEXTS, *(["context"] if has_context else [])]
    pairs = pairs.select_columns(columns)
    expected = features(pa.schema([PAIR_SCHEMA.field(name) for name in columns]))
    # A cast writes every row again, and what our commands wrote needs none.
    same = all(split.features == expected for split in pairs.values())
    return pairs if same else pairs.cast(expected)


def _check_columns(available: Iterable[str], columns: tuple[str, ...], location: str, hint: str) -> None:
    missing = [column for column in columns if column not in available]
    if missing:
        raise InputError(
            f"{location} has no column {', '.join(missing)}; expected {', '.join(columns)}, "
            f"found {', '.join(available)}{hint}"
        )


def _load_path(source: str, columns: tuple[str, ...], hint: str) -> DatasetDict:
    import datasets
    from datasets.exceptions import DatasetsError

    path = Path(source)
    if not source:
        raise InputError("'': empty name; expected a folder")
    if not path.is_file() and not path.is_dir():
        problem = "neither a file nor a folder" if path.exists() else f"no such folder{how_to_build(path)}"
        raise InputError(f"{source}: {problem}")
    if path.is_file():
        with path.open("rb") as file:
            if file.read(len(PARQUET)) != PARQUET:
                raise InputError(f"{source}: not a Parquet file{hint or '; `convsim data` writes them'}")
    files = _split_files(path)
    try:
        return datasets.load_dataset("parquet", data_files=files) if files else datasets.load_dataset(source)
    except (OSError, ValueError, RuntimeError, DatasetsError) as error:
        needed = f" with {', '.join(columns)}" if columns else ""
        problem = dataset_problem(error, parse_hub_name(source))
        raise InputError(f"{source}: cannot be read as a dataset{needed} ({problem})") from error


def _split_files(path: Path) -> dict[str, list[str]]:
    """Split -> files, of one Parquet file or of a folder whose Parquet files are all named after splits."""
    if path.is_file():
        return {find_split(path.stem) or "train": [str(path)]}
    files: dict[str, list[str]] = {}
    for file in sorted(path.glob("*.parquet")):
        match = _SHARD.fullmatch(file.name)
        if not match:
            return {}
        files.setdefault(match[1], []).append(str(file))
    return files
