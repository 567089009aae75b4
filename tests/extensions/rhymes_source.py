"""A source in one file outside of the package: rhymes, two lines separated by a tab, to Parquet."""

import argparse
from pathlib import Path

from datasets import Dataset, DatasetDict

from data_scripts.files.dataset_folders import Report, add_dataset_arguments, write_dataset, write_splits
from data_scripts.files.errors import InputError
from data_scripts.files.texts import text_lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add_dataset_arguments(parser, "a text file")


def run(args: argparse.Namespace) -> None:
    """Write the splits: every tenth rhyme is validation, the next one test."""
    write_dataset(args, lambda folder, scratch, broken: _write(args.source, folder))


def _write(source: str, folder: Path) -> Report:
    rows = []
    for location, line in text_lines(Path(source)):
        if line.count("\t") != 1:
            raise InputError(f"{location}: expected two lines with one tab between")
        rows.append(dict(zip(("first", "second"), line.split("\t"), strict=True)))
    parts = {"validation": rows[::10], "test": rows[1::10]}
    parts["train"] = [row for row in rows if row not in parts["validation"] + parts["test"]]
    write_splits(DatasetDict({name: Dataset.from_list(part) for name, part in parts.items()}), folder)
    return {name: {"rhymes": len(part)} for name, part in parts.items()}
