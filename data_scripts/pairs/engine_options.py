"""The options of the engines, declared without importing the engines."""

import argparse
import re

from data_scripts.files.errors import InputError

MEMORY_LIMIT = "4GiB"


def add_memory_argument(parser: argparse._ActionsContainer) -> None:
    """Add the option of commands that use DuckDB, without a choice of engine."""
    parser.add_argument(
        "--memory_limit",
        default=MEMORY_LIMIT,
        metavar="SIZE",
        help="memory for joining and sorting, such as 2GiB (with Spark: of its driver); the rest spills to disk, next "
        "to OUTPUT (default: %(default)s)",
    )


def add_engine_arguments(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add the options of commands that run on any engine: which one, and its resources; returns their group."""
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
    return group


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
