"""What the loaders of public corpora share: finding a file, lines of text, a folder or a Hub id, Parquet output."""

import argparse
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
from datasets import DatasetDict
from datasets.exceptions import DatasetsError

from data_scripts.errors import InputError
from data_scripts.files import UNPACK, BrokenLineError, decode, read_lines


def find_file(folder: Path, *names: str) -> Path | None:
    """The first of `names` that is in `folder`, plain or compressed (.bz2, .zst, .xz, .gz)."""
    candidates = (folder / f"{name}{suffix}" for name in names for suffix in ("", *UNPACK))
    return next((path for path in candidates if path.is_file()), None)


def text_lines(path: Path) -> Iterator[tuple[str, str]]:
    r"""(file:line, text) of each line of a UTF-8 file, plain or compressed, without \n or \r\n.

    Raises:
        InputError: a line is not UTF-8, or the file cannot be read to its end.
    """
    for place, line in read_lines(path, (".csv", ".jsonl", ".txt")):
        try:
            yield place, decode(line.removesuffix(b"\r"))
        except BrokenLineError as error:
            raise InputError(f"{place}: {error.args[0]} ({error.args[1]}): convert the file to UTF-8 first") from error


def existing_folder(source: str | Path) -> Path:
    """`source` as a folder that is there, or an InputError."""
    folder = Path(source)
    if not folder.is_dir():
        raise InputError(f"{source}: {'a file, expected a folder' if folder.exists() else 'no such folder'}")
    return folder


def is_path(source: str) -> bool:
    """Whether a source is a path and no Hub id: it is written like one, or the folder that it starts with is here."""
    return source.startswith(("/", ".", "~")) or Path(source.partition("/")[0]).exists()


def load_columns(source: str, columns: tuple[str, ...]) -> DatasetDict:
    """Load a folder of Parquet, JSON lines or CSV, or a data set of the Hub, that has at least these columns.

    Raises:
        InputError: neither a folder nor a data set that the Hub gives, or a column is missing.
    """
    if is_path(source):
        existing_folder(source)
        reason = f"nothing in the folder can be read as a data set with the columns {', '.join(columns)}"
    else:
        reason = "no such folder here, and the Hub does not give a data set of this name"
    try:
        splits = datasets.load_dataset(source)
    except (OSError, ValueError, DatasetsError) as error:
        raise InputError(f"{source}: {reason} ({error})") from error
    for name, split in splits.items():
        missing = [column for column in columns if column not in split.column_names]
        if missing:
            raise InputError(
                f"{source}: split {name} has no column {', '.join(missing)}; expected {', '.join(columns)}, "
                f"found {', '.join(split.column_names)}"
            )
    return splits


def add_corpus_arguments(parser: argparse.ArgumentParser, source_help: str) -> None:
    """Declare the options of a command that writes a public corpus as Parquet."""
    parser.add_argument("source", help=source_help)
    parser.add_argument(
        "-o", "--output", type=Path, required=True, metavar="FOLDER", help="where the splits are written"
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a folder that this command wrote before")


def write_splits(splits: DatasetDict, report: dict[str, Any], folder: Path) -> None:
    """Write a Parquet file for each split and report.json; `datasets.load_dataset(folder)` reads the splits back."""
    hidden = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()  # one for each of these small files says nothing
    for name, split in splits.items():
        split.to_parquet(folder / f"{name}-00000-of-00001.parquet")
    if not hidden:
        datasets.enable_progress_bars()
    (folder / "report.json").write_text(json.dumps(report, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
