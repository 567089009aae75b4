"""The options of the commands that write pairs, declared without importing the engines."""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Self

from data_scripts.clean.filters import LINK_PREFIXES, MAX_CHARACTERS, MIN_LETTERS_PERCENT, Filters
from data_scripts.clean.text import languages
from modeling_convsim.files.command_line import add_dataset_arguments, whole_number
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.hub import check_license, check_repository_id
from modeling_convsim.files.storage import is_url, storage_argument


@dataclass(frozen=True)
class PairOptions:
    """How texts are filtered, and pairs split and written: the options of the commands of the same names."""

    filters: str = "paper"
    markdown: bool = False
    min_characters: int = 0
    language: str | None = None
    bots: Path | None = None
    max_repeats: int | None = None
    mask: bool = False
    phone_regions: str | None = None
    context: int = 3
    memory_limit: str = "4GiB"
    split: str = "thread"
    overwrite: bool = False
    license: str | None = None

    @classmethod
    def from_arguments(cls, args: argparse.Namespace) -> Self:
        """The options that a command's arguments have; those that it does not declare keep their defaults."""
        return cls(**{each.name: getattr(args, each.name) for each in fields(cls) if hasattr(args, each.name)})


MEMORY_LIMIT = PairOptions.memory_limit
CONTEXT = PairOptions.context


def add_filter_arguments(parser: argparse.ArgumentParser, options: type[PairOptions] = PairOptions) -> None:
    """Add the options of every command that filters texts; `read_filters` turns them into `Filters`.

    Args:
        parser: the parser of the command.
        options: their defaults.
    """
    group = parser.add_argument_group(title="cleaning", description="both texts of a pair must pass")
    group.add_argument(
        "--filters",
        choices=("chat", "paper", "none"),
        default=options.filters,
        help=f"chat: remove deleted and empty texts, and texts of {MAX_CHARACTERS['chat']:,} characters or more; "
        f"paper: the rules of Yang et al. (2018) for Reddit, which also remove texts of {MAX_CHARACTERS['paper']} "
        f"characters or more, of {MIN_LETTERS_PERCENT} %% letters or fewer, that start with "
        f'{", ".join(LINK_PREFIXES)}, or whose author\'s name contains "bot"; none: only remove deleted and empty '
        "texts (default: %(default)s)",
    )
    group.add_argument(
        "--markdown", action="store_true", help="replace Markdown links by their labels and remove quoted lines"
    )
    group.add_argument(
        "--min_characters",
        type=whole_number(0),
        default=options.min_characters,
        metavar="N",
        help="remove shorter texts (default: %(default)s)",
    )
    group.add_argument(
        "--language",
        metavar="CODE",
        help="remove texts that the detector is sure are in another language than this one, such as en (ISO 639-1); "
        "short texts, about which it is not sure, stay (default: keep all languages)",
    )
    group.add_argument(
        "--bots",
        type=Path,
        metavar="FILE",
        help="remove texts by the authors listed in this file, one name per line, in any case",
    )
    group.add_argument(
        "--max_repeats",
        type=whole_number(1),
        metavar="N",
        help='keep at most N pairs with the same response ("Thanks!"), ignoring case, punctuation and spaces '
        "(default: all)",
    )
    group.add_argument(
        "--mask",
        action="store_true",
        help="after all rules, replace e-mail addresses, phone, card and account numbers, IP addresses, user names "
        "(@name, u/name), keys of services and URLs with credentials by [EMAIL], [PHONE] …; rename threads, and "
        "sources that are not public; people's names in the text (except those that reading a chat log removes) and "
        "the files of --comments stay as they are",
    )
    group.add_argument(
        "--phone_regions",
        metavar="CODES",
        help="with --mask: the countries whose phone numbers are masked without their country code, too, such as US,DE "
        "(ISO 3166; default: US)",
    )


def read_filters(options: PairOptions, keep_salutations: bool = False) -> Filters:
    """The rules that options state, which are checked.

    Raises:
        InputError: the list of bots cannot be read, or the language cannot be detected.
    """
    if options.phone_regions is not None:
        phone_regions(options)
    bots: tuple[str, ...] = ()
    if options.bots:
        try:
            lines = options.bots.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"--bots {options.bots}: cannot be read as a list of names, one per line ({error})"
            ) from error
        bots = tuple(sorted({line.strip().lower() for line in lines if line.strip()}))
        if not bots:
            raise InputError(f"--bots {options.bots}: holds no name; expected one per line")
    if options.language and options.language not in languages():
        raise InputError(f"--language {options.language}: expected one of {', '.join(languages())}")
    return Filters(options.filters, options.min_characters, bots, options.language, options.markdown, keep_salutations)


def phone_regions(options: PairOptions) -> tuple[str, ...]:
    """The countries of --phone_regions.

    Raises:
        InputError: one is unknown, or --mask is missing.
    """
    # Loading the library of phone numbers takes a while, and only --mask needs it.
    from data_scripts.clean.personal_data import DEFAULT_REGIONS, phonenumbers

    if options.phone_regions is None:
        return DEFAULT_REGIONS
    if not options.mask:
        raise InputError("--phone_regions: only with --mask, which masks phone numbers")
    regions = tuple(dict.fromkeys(code.strip().upper() for code in options.phone_regions.split(",")))
    if unknown := [code for code in regions if code not in phonenumbers.SUPPORTED_REGIONS]:
        raise InputError(f"--phone_regions: no country is '{unknown[0]}'; expected codes such as US,DE (ISO 3166)")
    return regions


def add_context_argument(parser: argparse._ActionsContainer) -> None:
    """Add the option of every command that makes pairs of turns."""
    parser.add_argument(
        "--context",
        type=whole_number(0),
        default=CONTEXT,
        metavar="N",
        help="maximum number of earlier turns of the thread in the column context of a pair, 0 for none (default: "
        "%(default)s)",
    )


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
        help="the engine that joins and sorts: DuckDB in this process, or Spark (which needs Java and "
        "the extra spark of convsim) (default: %(default)s)",
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
    add_dataset_arguments(group, output_help, type=storage_argument, required=required)
    group.add_argument(
        "--split",
        choices=("thread", "random"),
        default=PairOptions.split,
        help="thread: assign whole threads to train (89 %%), validation (1 %%) or test (10 %%), so that each "
        "conversation is in one split; random: assign single pairs, as in the paper (default: %(default)s)",
    )
    group = parser.add_argument_group("Hub")
    group.add_argument(
        "--push_to_hub",
        metavar="OWNER/NAME",
        help="publish the folder as this dataset, which needs --license; a new dataset is private",
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
