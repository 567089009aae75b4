"""Writes a public dataset: its options, its folder with card and report, a Parquet file for each split.

Large libraries are imported where they are used, so that the options of a command are printed at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from data_scripts.read.hub_names import is_path, local_path
from data_scripts.write.folders import new_folder
from data_scripts.write.report import Report, write_report

if TYPE_CHECKING:
    from datasets import DatasetDict


def add_dataset_arguments(parser: argparse.ArgumentParser, source_help: str) -> None:
    """Add the options of a command that reads one SOURCE and writes a dataset."""
    parser.add_argument("source", metavar="SOURCE", help=source_help)
    add_output_argument(parser)
    parser.add_argument(
        "--license",
        metavar="ID",
        help="license of the dataset, for its card and the cards of models trained on it, as the Hub spells it (such "
        "as cc-by-sa-4.0, or other)",
    )


def add_output_argument(parser: argparse.ArgumentParser) -> None:
    """Add the options of the output folder."""
    parser.add_argument(
        "-o",
        "--output",
        type=local_path,
        required=True,
        metavar="FOLDER",
        help="folder to which the splits are written",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a folder that this command wrote before")


@contextmanager
def dataset_folder(args: argparse.Namespace) -> Iterator[tuple[Path, Path]]:
    """`folders.new_folder` for the options of `add_dataset_arguments`; writes the card after the block.

    Raises:
        InputError: as for `new_folder`, or --license is not a license id.
    """
    from data_scripts.write.card import write_dataset_card
    from data_scripts.write.hub import check_license

    if args.license is not None:
        check_license("--license", args.license)
    with new_folder(args.output, args.overwrite) as (folder, scratch):
        yield folder, scratch
        source = Path(args.source).resolve().name if is_path(args.source) else args.source
        write_dataset_card(folder, [args.license] if args.license else [], source)


def write_splits(splits: DatasetDict, report: Report, folder: Path) -> None:
    """Write a Parquet file for each split and report.json; `load_columns` reads the splits back."""
    import datasets

    hidden = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()  # these files are small
    for name, split in splits.items():
        split.to_parquet(split_file(folder, name), write_page_checksum=True)
    if not hidden:
        datasets.enable_progress_bars()
    write_report(report, folder)


def splits_in_memory(folder: Path) -> DatasetDict:
    """Read the files of a folder that is about to be deleted."""
    import pyarrow.parquet as pq
    from datasets import Dataset, DatasetDict

    files = sorted(folder.glob("*.parquet"))
    return DatasetDict({file.name.partition("-")[0]: Dataset(pq.read_table(file)) for file in files})


def split_file(folder: Path, split: str) -> Path:
    """The Parquet file of a split."""
    return folder / f"{split}-00000-of-00001.parquet"
