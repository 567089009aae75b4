"""Reads the rows of any table with the columns that a command looks for: of files, folders and datasets on the Hub."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_scripts.loading import dataset_rows, find_split, load_columns
from modeling_convsim.files.delimited import TABS
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.hub import HUB_HELP
from modeling_convsim.files.records import Records, Rows, check_records, form_of, read_records
from modeling_convsim.files.texts import BrokenLines

if TYPE_CHECKING:
    from datasets import Dataset

TEXT_TABLES = (".jsonl", ".ndjson", ".csv", ".tsv")
SOURCE_HELP = (
    "a folder of .parquet, .jsonl, .csv, .tsv or .txt, or one such file (text compressed or not); or " + HUB_HELP
)
_README = re.compile("readme", re.IGNORECASE)
ColumnNames = dict[str, tuple[str, ...]]


def read_rows(
    source: str, names: ColumnNames, broken: BrokenLines, *, optional: tuple[str, ...] = (), label_names: bool = False
) -> dict[str, Rows]:
    """The rows of each split of a file, of the files in a folder, or of a dataset on the Hub; each can be read once.

    Memory holds a few thousand rows. Lines that cannot be read are counted in `broken`.

    Args:
        source: as in `SOURCE_HELP`. The name of a text file contains its split (`find_split`).
        names: role -> possible columns, of which the first that exists is used. A name with spaces that no column
            has stands for several columns whose texts are joined.
        broken: counts the lines that cannot be read.
        optional: roles that need no column; their value is then None.
        label_names: return the values of a ClassLabel column by name; -1 stays.

    Returns:
        Split -> rows: (location, role -> value).

    Raises:
        InputError: there is nothing to read or a column is missing; at once, or when the row is read.
    """
    files = text_tables(source)
    if not files:
        tables = _dataset_splits(source, label_names)
        return {split: _rows_by_role(records, names, broken, optional) for split, records in tables.items()}
    rows: dict[str, Rows] = {}
    for file in files:
        # SNLI and Multi-Premise Entailment have tab-separated values in .txt files.
        records = partial(read_records, file, dialect=TABS if form_of(file) == ".txt" else None)
        split = find_split(file.name) or "train"
        rows[split] = chain(rows.get(split, ()), _rows_by_role(records, names, broken, optional))
    return rows


def _dataset_splits(source: str, label_names: bool) -> dict[str, Callable[[], Records]]:
    """Split -> its records, of a folder of Parquet files or of a dataset on the Hub."""
    from datasets import ClassLabel

    def records(split: str, part: Dataset) -> Records:
        location = f"{source}, split {split}"
        labels = {name: each for name, each in part.features.items() if label_names and isinstance(each, ClassLabel)}

        def rows(needed: Collection[str], broken: BrokenLines) -> Rows:
            chosen = part.select_columns([name for name in part.column_names if name in needed])
            return dataset_rows(chosen, location, {name: labels[name] for name in labels.keys() & needed})

        return Records(location, part.column_names, True, [], rows)

    return {split: partial(records, split, part) for split, part in load_columns(source, ()).items()}


def text_tables(source: str) -> list[Path]:
    """The text file that a source is, or those of the folder that it is; none if it is Parquet, or on the Hub."""
    path = Path(source)
    if path.is_file():
        if form_of(path) == ".parquet":
            return []
        if form_of(path) != ".txt":
            check_records(path)
        return [path]
    files = sorted(file for file in path.glob("*") if form_of(file) in TEXT_TABLES) if path.is_dir() else []
    if path.is_dir() and not files and not any(path.rglob("*.parquet")):
        texts = [file for file in sorted(path.glob("*")) if form_of(file) == ".txt" and not _README.match(file.name)]
        files = [file for file in texts if find_split(file.name)] or (texts if len(texts) == 1 else [])
    complete = any(file.name.startswith("snli_1.0_train.") for file in files)
    return [file for file in files if not (complete and file.name.startswith("snli_train_partial."))]


def _choose_columns(
    names_found: Iterable[str], location: str, names: ColumnNames, optional: tuple[str, ...]
) -> dict[str, list[str]]:
    """Role -> its columns."""
    available = list(names_found)
    chosen = {}
    for role, accepted in names.items():
        candidates = ([name] if name in available else name.split() for name in accepted)
        if matching := next((columns for columns in candidates if set(columns) <= set(available)), None):
            chosen[role] = matching
    missing = [role for role in names if role not in chosen and role not in optional]
    if missing:
        expected = "; ".join(
            accepted[0] + (f" (or {', '.join(accepted[1:])})" if accepted[1:] else "")
            for role, accepted in names.items()
            if role not in optional
        )
        raise InputError(
            f"{location}: no column {', '.join(missing)}; expected {expected}; found {', '.join(available)}"
        )
    return chosen


def _role_value(fields: dict[str, Any], columns: list[str] | None) -> Any:
    if not columns:
        return None
    values = [fields.get(name) for name in columns]
    return values[0] if len(values) == 1 else " ".join(map(str, values))


def _texts(values: Iterable[Any]) -> Iterator[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, list):
            yield from _texts(value)


def _rows_by_role(
    read: Callable[[], Records], names: ColumnNames, broken: BrokenLines, optional: tuple[str, ...]
) -> Rows:
    records = read()
    chosen = _choose_columns(records.columns, records.location, names, optional)
    keys: Any = records.columns
    for location, fields in records.rows({name for columns in chosen.values() for name in columns}, broken):
        if not records.complete and fields.keys() != keys:
            keys = fields.keys()
            chosen = _choose_columns(keys, location, names, optional)
        values = {role: _role_value(fields, chosen.get(role)) for role in names}
        try:
            if not records.complete:  # half of a surrogate pair is valid JSON but not valid Unicode
                "".join(_texts(values.values())).encode()
        except RecursionError:
            broken.add("not JSON", location, "too many arrays within each other")
        except UnicodeEncodeError:
            broken.add("not UTF-8", location, "half of a surrogate pair")
        else:
            yield location, values
