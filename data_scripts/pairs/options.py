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
    group = parser.add_argument_group(title="cleaning", description="applied to both texts of a pair")
    group.add_argument(
        "--filters",
        choices=("chat", "paper", "none"),
        default=options.filters,
        help=f"chat: remove deleted and empty texts, and texts of {MAX_CHARACTERS['chat']:,} characters or more; "
        "paper: the rules of Yang et al. (2018) for Reddit, which also remove texts with "
        f"{MAX_CHARACTERS['paper']} characters or more, with {MIN_LETTERS_PERCENT}%% letters or fewer, that start with "
        f'{", ".join(LINK_PREFIXES)}, or by authors with "bot" in their names; none: only remove deleted and empty '
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
        help="remove texts with fewer than N characters (default: %(default)s)",
    )
    group.add_argument(
        "--language",
        metavar="CODE",
        help="keep only texts in this language, such as en (ISO 639-1), and texts whose language is uncertain, mostly "
        "short ones (default: keep all languages)",
    )
    group.add_argument(
        "--bots",
        type=Path,
        metavar="FILE",
        help="remove texts by the authors listed in this file, one name per line; case is ignored",
    )
    group.add_argument(
        "--max_repeats",
        type=whole_number(1),
        metavar="N",
        help='keep at most N pairs with the same response (such as "Thanks!"), ignoring case, punctuation and spaces '
        "(default: keep all)",
    )
    group.add_argument(
        "--mask",
        action="store_true",
        help="after filtering, replace email addresses, phone, card and account numbers, IP addresses, user names "
        "(@name, u/name), API keys and URLs with credentials by [EMAIL], [PHONE], and so on; rename threads and "
        "non-public sources; not masked: people's names in texts (except those removed when a chat log is read) and "
        "the files of --comments",
    )
    group.add_argument(
        "--phone_regions",
        metavar="CODES",
        help="with --mask: countries whose phone numbers are also masked if the country code is missing, such as US,DE "
        "(ISO 3166; default: US)",
    )


def read_filters(options: PairOptions, keep_salutations: bool = False) -> Filters:
    """Check the options and return the rules that they select.

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
            raise InputError(f"--bots {options.bots}: contains no names; expected one per line")
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
        raise InputError("--phone_regions: only valid with --mask; add --mask, or leave it out")
    regions = tuple(dict.fromkeys(code.strip().upper() for code in options.phone_regions.split(",")))
    if unknown := [code for code in regions if code not in phonenumbers.SUPPORTED_REGIONS]:
        raise InputError(f"--phone_regions: unknown country '{unknown[0]}'; expected codes such as US,DE (ISO 3166)")
    return regions


def add_context_argument(parser: argparse._ActionsContainer) -> None:
    """Add the option of every command that makes pairs of turns."""
    parser.add_argument(
        "--context",
        type=whole_number(0),
        default=CONTEXT,
        metavar="N",
        help="maximum number of earlier turns in the column context of a pair; 0 for none (default: %(default)s)",
    )


def add_memory_argument(parser: argparse._ActionsContainer) -> None:
    """Add the option of commands that use DuckDB, without a choice of engine."""
    parser.add_argument(
        "--memory_limit",
        default=MEMORY_LIMIT,
        metavar="SIZE",
        help="memory limit for joining and sorting, such as 2GiB (with Spark: for the driver); larger data spill to "
        "disk, next to OUTPUT (default: %(default)s)",
    )


def add_engine_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that run on any engine: which one, and its resources."""
    group = parser.add_argument_group("engine")
    group.add_argument(
        "--engine",
        choices=("duckdb", "spark"),
        default="duckdb",
        help="engine for joining and sorting: DuckDB in this process, or Spark, which needs Java and "
        "pip install 'convsim[spark]' (default: %(default)s)",
    )
    add_memory_argument(group)
    group.add_argument(
        "--spark_master",
        metavar="URL",
        help="Spark master, such as spark://host:7077 or yarn; on a cluster, all files must be URLs that its machines "
        "can read (default: from the Spark configuration, or local[*])",
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
    output_help = "folder or URL for the dataset of pairs"
    add_dataset_arguments(group, output_help, type=storage_argument, required=required)
    group.add_argument(
        "--split",
        choices=("thread", "random"),
        default=PairOptions.split,
        help="thread: assign whole threads to train (89%%), validation (1%%) or test (10%%), which keeps each "
        "conversation in one split; random: assign pairs independently, as in the paper (default: %(default)s)",
    )
    group = parser.add_argument_group("Hub")
    group.add_argument(
        "--push_to_hub",
        metavar="OWNER/NAME",
        help="publish the folder as this dataset on the Hub; requires --license; new datasets are private",
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
            raise InputError("--push_to_hub: --output must be a local folder, not a URL")
        check_repository_id(args.push_to_hub)
        if not args.license:
            raise InputError(
                "--push_to_hub: add --license ID with the license of the texts, as the Hub spells it (such as "
                "cc-by-4.0); users of the dataset must know what they may do with it"
            )
