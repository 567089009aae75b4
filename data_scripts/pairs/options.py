"""The output options of the commands that write pairs, declared without importing what writes them."""

import argparse

from data_scripts.files.command_line import add_output_argument
from data_scripts.files.errors import InputError
from data_scripts.files.hub import check_license, check_repository_id
from data_scripts.files.storage import is_url, storage_argument

SPLIT = "thread"


def add_output_arguments(parser: argparse.ArgumentParser, required: bool = True) -> None:
    """Add the options of every command that writes a dataset of pairs; `check_output` checks them."""
    group = parser.add_argument_group("output")
    output_help = "folder or URL to which the pairs are written"
    add_output_argument(group, output_help, type=storage_argument, required=required)
    group.add_argument(
        "--split",
        choices=("thread", "random"),
        default=SPLIT,
        help="thread: assign whole threads to train (89 %%), validation (1 %%) or test (10 %%), so that each "
        "conversation is in one split; random: assign single pairs, as in the paper (default: %(default)s)",
    )
    group.add_argument("--overwrite", action="store_true", help="replace an existing dataset of pairs")
    group.add_argument(
        "--license",
        metavar="ID",
        help="license of the texts for the card, as the Hub spells it (such as cc-by-4.0, or other); required by "
        "--push_to_hub",
    )
    group = parser.add_argument_group("Hub")
    group.add_argument(
        "--push_to_hub", metavar="OWNER/NAME", help="publish the folder as this dataset; a new dataset is private"
    )


def check_output(args: argparse.Namespace) -> None:
    """Reject options that would fail later, before anything is read.

    Raises:
        InputError: an invalid repository id, an invalid license, or a push without a license.
    """
    if args.license is not None:
        check_license("--license", args.license)
    if args.push_to_hub:
        if is_url(args.output):
            raise InputError("--push_to_hub: not with the URL of an --output; name a folder on a disk")
        check_repository_id(args.push_to_hub)
        if not args.license:
            raise InputError(
                "--push_to_hub: add --license ID with the license of the texts, as the Hub spells it (such as "
                "cc-by-4.0): whoever downloads the dataset must know what they may do with it"
            )
