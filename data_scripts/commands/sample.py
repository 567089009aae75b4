"""Copy the sample dataset that ships with convsim to a folder: pairs of an input and a reply, NLI and STS examples."""

import argparse
import shutil

from data_scripts import sample
from modeling_convsim.files.command_line import add_output_argument
from modeling_convsim.files.folders import new_folder


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options of the command."""
    add_output_argument(
        parser,
        "folder for the pairs and its subfolders nli and sts, for example data/sample; an existing copy of the "
        "sample is replaced",
    )


def run(args: argparse.Namespace) -> None:
    """Copy the sample dataset and print its counts."""
    with new_folder(args.output, overwrite=True) as (folder, _):
        shutil.copytree(sample.FOLDER, folder, ignore=shutil.ignore_patterns("__*"), dirs_exist_ok=True)
    print((sample.FOLDER / "report.json").read_text(encoding="utf-8").strip())
