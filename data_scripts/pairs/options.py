"""The options of the commands that write pairs, declared without importing the engines."""

import argparse
import re

from data_scripts.files.command_line import add_output_argument, whole_number
from data_scripts.files.errors import InputError
from data_scripts.files.hub import check_license, check_repository_id
from data_scripts.files.storage import is_url, storage_argument

MEMORY_LIMIT = "4GiB"
SPLIT = "thread"
CONTEXT = 3


def add_context_argument(parser: argparse._ActionsContainer) -> None:
    """Add the option of every command that makes pairs of turns; `check_context` checks it."""
    parser.add_argument(
        "--context",
        type=whole_number(0),
        default=CONTEXT,
        metavar="N",
        help="maximum number of earlier turns of the thread in the column context of a pair, 0 for none (default: "
        "%(default)s)",
    )


def check_context(turns: int) -> None:
    """Raise an InputError if --context is negative."""
    if turns < 0:
        raise InputError(f"--context {turns}: expected 0 or more")


def add_memory_argument(parser: argparse._ActionsContainer) -> None:
    """Add the option of commands that use DuckDB, without a choice of engine."""
    parser.add_argument(
        "--memory_limit",
        default=MEMORY_LIMIT,
        metavar="SIZE",
        help="memory for joining and sorting, such as 2GiB (with Spark: of its driver); the rest spills to disk, next "
        "to OUTPUT (default: %(default)s)",
    )


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that run on any engine: which one, and its resources."""
    group = parser.add_argument_group("engine")
    group.add_argument(
        "--engine",
        choices=("duckdb", "spark"),
        default="duckdb",
        help="the engine that joins and sorts: DuckDB in this process, or Spark (needs pip install 'convsim[spark]' "
        "and Java) (default: %(default)s)",
    )
    add_memory_argument(group)
    group.add_argument(
        "--spark_master",
        metavar="URL",
        help="Spark's master, such as spark://host:7077 or yarn; its machines must see all files, as URLs on a "
        "cluster (default: that of the Spark configuration, else local[*])",
    )


def memory_bytes(limit: str) -> int:
    """The bytes of a `--memory_limit`: 2GiB is 2 x 2^30, 2GB is 2 x 10^9.

    Raises:
        InputError: it is not a number and a unit.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?) ?(?:([KMGT])(i?))?B", limit)
    if not match:
        raise InputError(f"--memory_limit {limit}: expected a number and a unit, such as 500MB or 2GiB")
    power = " KMGT".index(match[2] or " ")
    return int(float(match[1]) * (1024 if match[3] else 1000) ** power)


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
