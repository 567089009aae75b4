"""The options of the commands that read chat logs."""

import argparse
import re
from collections import Counter
from pathlib import Path

from data_scripts.errors import InputError
from data_scripts.read.chat_logs import check_log, is_on_hub
from data_scripts.read.dates import ORDERS
from data_scripts.read.files import UNPACK, BrokenLines
from data_scripts.read.hub_names import local_path
from data_scripts.read.messages import ChatLog
from data_scripts.read.rows import HUB_HELP
from data_scripts.read.tables import COLUMN_NAMES
from data_scripts.read.transcoding import check_encoding

SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


def add_log_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of every command that reads chat logs; `open_logs` uses them."""
    group = parser.add_argument_group("input")
    group.add_argument(
        "files",
        nargs="+",
        type=local_path,
        metavar="FILE",
        help=f"tables, exports, or the folder of a Slack export; or {HUB_HELP}",
    )
    group.add_argument(
        "--columns",
        nargs="+",
        default=[],
        metavar="ROLE=NAME",
        help=f"columns of a table by their roles ({', '.join(COLUMN_NAMES)}); in JSON, NAME may be a path, such as "
        "author.name; time=DATE+TIME joins two columns (default: the columns that are named after their roles; other "
        "roles are guessed from names and values, and printed)",
    )
    group.add_argument(
        "--gap",
        metavar="TIME",
        help="pause, such as 30m, 2h or 1d, after which a new conversation begins, for threads in order with times and "
        "for channels (default: no limit in the threads of tables; 1h in chats and channels, and in tables without "
        "threads)",
    )
    group.add_argument(
        "--repliers",
        nargs="+",
        default=[],
        metavar="NAME",
        help="authors, spelled as in the log, such as the agents of a support log or yourself: only their replies "
        "become pairs (default: the replies of all authors)",
    )
    group.add_argument(
        "--encoding",
        metavar="NAME",
        help="encoding of all text files, such as cp1252 (default: detected in each file)",
    )
    group.add_argument(
        "--date_order",
        choices=tuple(ORDERS),
        help="order of day, month and year in dates of numbers, such as 01/03/2026, if no date in a file shows it "
        "(default: detected in each file)",
    )


def _parse_columns(given: list[str]) -> dict[str, str]:
    columns: dict[str, str] = {}
    for item in given:
        role, _, name = item.partition("=")
        if role not in COLUMN_NAMES or not name or role in columns:
            raise InputError(
                f"--columns {item}: expected ROLE=NAME, each role once; the roles are {', '.join(COLUMN_NAMES)}"
            )
        columns[role] = name
    return columns


def _parse_gap(given: str | None) -> float | None:
    if given is None:
        return None
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", given)
    if not match:
        raise InputError(f"--gap {given}: expected a number and a unit (s, m, h or d), such as 30m")
    return float(match[1]) * SECONDS[match[2]]


def _stem(file: Path) -> str:
    if is_on_hub(file):
        return str(file).partition("@")[0]
    return (file.with_suffix("") if file.suffix in UNPACK else file).stem


def _source_names(files: list[Path]) -> list[str]:
    """A name for each source: that of the file, after that of its folder if several files have the same; or Hub id."""
    stems = [_stem(file) for file in files]
    names = [
        f"{file.absolute().parent.name}/{stem}" if stems.count(stem) > 1 and not is_on_hub(file) else stem
        for file, stem in zip(files, stems, strict=True)
    ]
    for file, name in zip(files, names, strict=True):
        if names.count(name) > 1:
            raise InputError(f"{file}: another file has the same name in a folder of the same name; rename one")
    return names


def open_logs(args: argparse.Namespace) -> list[ChatLog]:
    """The logs that the options of `add_log_arguments` name, which are not read yet; they count together.

    Raises:
        InputError: an option is invalid, or a file cannot be read.
    """
    columns, gap = _parse_columns(args.columns), _parse_gap(args.gap)
    encoding = check_encoding("--encoding", args.encoding) if args.encoding else None
    names, left_out = _source_names(args.files), Counter[str]()
    for path in args.files:
        check_log(path)
    return [
        ChatLog(path, name, columns, gap, BrokenLines(), left_out, encoding, args.date_order)
        for path, name in zip(args.files, names, strict=True)
    ]
