"""Writes a public dataset: its options, its folder with card and report, a Parquet file for each split.

Large libraries are imported where they are used, so that the options of a command are printed at once.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from data_scripts.files.folders import new_folder
from data_scripts.files.hub_names import is_path, local_path
from data_scripts.files.lines import BrokenLines
from data_scripts.files.report import FIRST_LINES, Report, first_lines, print_report, write_report

if TYPE_CHECKING:
    from datasets import DatasetDict


def add_dataset_arguments(parser: argparse.ArgumentParser, source_help: str, nargs: str | None = None) -> None:
    """Add the options of a command that reads a SOURCE, or with `nargs` several of them, and writes a dataset."""
    parser.add_argument("source", nargs=nargs, metavar="SOURCE", help=source_help)
    parser.add_argument(
        "-o",
        "--output",
        type=local_path,
        required=True,
        metavar="FOLDER",
        help="folder to which the splits are written",
    )
    parser.add_argument("--overwrite", action="store_true", help="replace a folder that this command wrote before")
    parser.add_argument(
        "--license",
        metavar="ID",
        help="license of the dataset, for its card and the cards of models trained on it, as the Hub spells it (such "
        "as cc-by-sa-4.0, or other)",
    )


def write_dataset(args: argparse.Namespace, write: Callable[[Path, Path, BrokenLines], Report]) -> None:
    """Write a public dataset with its report and card, and print the report.

    Args:
        args: the options of `add_dataset_arguments`.
        write: writes the Parquet files, given the folder, a folder for temporary files, and what counts the lines that
            cannot be read; returns the report.

    Raises:
        InputError: as for `new_folder`, or --license is not a license id.
    """
    from data_scripts.files.dataset_cards import write_dataset_card
    from data_scripts.files.hub_upload import check_license

    if args.license is not None:
        check_license("--license", args.license)
    broken = BrokenLines()
    sources = args.source if isinstance(args.source, list) else [args.source]
    names = [Path(source).resolve().name if is_path(source) else source for source in sources]
    with new_folder(args.output, args.overwrite) as (folder, scratch):
        report = write(folder, scratch, broken)
        if broken.counts:
            report["lines left out"] = dict(broken.counts)
            report[FIRST_LINES] = first_lines(broken)
        write_report(report, folder)
        write_dataset_card(folder, [args.license] if args.license else [], ", ".join(names))
    print_report(report, args.output)


def write_splits(splits: DatasetDict, folder: Path) -> None:
    """Write a Parquet file for each split; `load_columns` reads them back."""
    import datasets

    hidden = datasets.are_progress_bars_disabled()
    datasets.disable_progress_bars()  # these files are small
    for name, split in splits.items():
        split.to_parquet(split_file(folder, name), write_page_checksum=True)
    if not hidden:
        datasets.enable_progress_bars()


def splits_in_memory(folder: Path) -> DatasetDict:
    """Read the files of a folder that is about to be deleted."""
    import pyarrow.parquet as pq
    from datasets import Dataset, DatasetDict

    files = sorted(folder.glob("*.parquet"))
    return DatasetDict({file.name.partition("-")[0]: Dataset(pq.read_table(file)) for file in files})


def split_file(folder: Path, split: str) -> Path:
    """The Parquet file of a split."""
    return folder / f"{split}-00000-of-00001.parquet"
