"""The filter rules: Ibis expressions over columns that the reader computed (`clean.measures`).

A rule has the same result on every engine. HTML entities are resolved first, Markdown is stripped on request, and the
text is measured. Then the rules apply in the order of `removal_rules`, and each text is counted under the first rule
that removes it.

Ibis is imported where it is used, because options are declared, and dumps are read, without it.
"""

from __future__ import annotations

import argparse
import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from data_scripts.clean.text import languages
from data_scripts.files.command_line import whole_number
from data_scripts.files.errors import InputError

if TYPE_CHECKING:
    import ibis.expr.types as ir

KEPT, PAIR, REPEATED = "kept", "pair", "id seen before"  # names of what is counted
MAX_CHARACTERS = {"paper": 350, "chat": 2_000}  # a text of this many or more is removed
MIN_LETTERS_PERCENT = 70  # a text with this share of letters or less is removed
LINK_PREFIXES = ("https", "/r/", "@")
# Empty texts, and what forums write in place of deleted ones: [deleted], [removed], [ Removed by Reddit ], and so on
PLACEHOLDER = r"(?i)^\s*(\[\s*(deleted|removed)(\s+by\s[^\[\]]*)?\s*\]\s*)?$"
_PLACEHOLDER = re.compile(PLACEHOLDER)


def is_placeholder(text: str) -> bool:
    """Whether a text is empty or stands in place of a deleted one."""
    return bool(_PLACEHOLDER.search(text))


@dataclass(frozen=True)
class Filters:
    """Which rules apply; the defaults are the paper's (Yang et al., 2018, section 3)."""

    rules: str = "paper"  # or "chat" or "none"
    min_characters: int = 0
    bots: tuple[str, ...] = ()  # lowercased names of authors
    language: str | None = None  # ISO 639-1
    markdown: bool = False  # strip links and quoted lines before the text is measured
    keep_salutations: bool = False  # or strip what `boilerplate.letters` removes, with the rules for chats

    @property
    def strip_letters(self) -> bool:
        """Whether salutations, signatures and the like are removed."""
        return self.rules == "chat" and not self.keep_salutations


PAPER = Filters()


def add_filter_arguments(parser: argparse.ArgumentParser, default: str = "paper") -> None:
    """Add the options of every command that filters texts; `read_filters` turns them into `Filters`.

    Args:
        parser: the parser of the command.
        default: the rules that apply unless the user selects others, `paper` or `chat`.
    """
    group = parser.add_argument_group(title="cleaning", description="both texts of a pair must pass")
    group.add_argument(
        "--filters",
        choices=("chat", "paper", "none"),
        default=default,
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
        default=0,
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


def read_filters(args: Any) -> Filters:
    """Turn the options of `add_filter_arguments`, which are the attributes of `args`, into `Filters`.

    Raises:
        InputError: the list of bots cannot be read, the language cannot be detected, or a number is out of range.
    """
    if args.min_characters < 0:
        raise InputError(f"--min_characters {args.min_characters}: expected 0 or more")
    if args.max_repeats is not None and args.max_repeats < 1:
        raise InputError(f"--max_repeats {args.max_repeats}: expected 1 or more")
    if args.phone_regions is not None:
        phone_regions(args)
    bots: tuple[str, ...] = ()
    if args.bots:
        try:
            lines = args.bots.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(
                f"--bots {args.bots}: cannot be read as a list of names, one per line ({error})"
            ) from error
        bots = tuple(sorted({line.strip().lower() for line in lines if line.strip()}))
        if not bots:
            raise InputError(f"--bots {args.bots}: holds no name; expected one per line")
    if args.language and args.language not in languages():
        raise InputError(f"--language {args.language}: expected one of {', '.join(languages())}")
    keep = getattr(args, "keep_salutations", False)  # an option of the commands that read chat logs
    return Filters(args.filters, args.min_characters, bots, args.language, args.markdown, keep)


def phone_regions(args: Any) -> tuple[str, ...]:
    """The countries of --phone_regions.

    Raises:
        InputError: one is unknown, or --mask is missing.
    """
    # Loading the library of phone numbers takes a while, and only --mask needs it.
    from data_scripts.clean.personal_data import DEFAULT_REGIONS, phonenumbers

    if args.phone_regions is None:
        return DEFAULT_REGIONS
    if not args.mask:
        raise InputError("--phone_regions: only with --mask, which masks phone numbers")
    regions = tuple(dict.fromkeys(code.strip().upper() for code in args.phone_regions.split(",")))
    if unknown := [code for code in regions if code not in phonenumbers.SUPPORTED_REGIONS]:
        raise InputError(f"--phone_regions: no country is '{unknown[0]}'; expected codes such as US,DE (ISO 3166)")
    return regions


def filter_settings(filters: Filters) -> dict[str, Any]:
    """The filters as a section of a report: which rules apply, and the options that were given."""
    given = {
        "minimum of characters": filters.min_characters,
        "names on the list of bots": len(filters.bots),
        "language": filters.language,
        "markdown": "stripped" if filters.markdown else None,
        "salutations": "kept" if filters.keep_salutations else None,
    }
    settings = {"filters": filters.rules}
    return settings | {name: value for name, value in given.items() if value}


def removal_rules(
    body: ir.StringValue,
    characters: ir.IntegerValue,
    alphabetic: ir.IntegerValue,
    author: ir.StringValue | None = None,
    language: ir.StringValue | None = None,
    filters: Filters = PAPER,
) -> dict[str, ir.BooleanValue]:
    """Name -> condition under which a text is removed, in the order in which rules are counted.

    Without `author`, the rules about authors do not apply; `language` (see `measures.measure_language`) is needed if
    the filters name one.
    """
    import ibis

    # Searching every text takes several times as long as comparing the first character.
    may_be_placeholder = body.substr(0, 1).isin(("", "[", " ", "\t", "\n", "\r"))
    removed = {"deleted or empty": may_be_placeholder & body.re_search(PLACEHOLDER)}
    if filters.min_characters:
        removed[f"fewer than {filters.min_characters} characters"] = characters < filters.min_characters
    if maximum := MAX_CHARACTERS.get(filters.rules):
        removed[f"{maximum:,} characters or more"] = characters >= maximum
    if filters.rules == "paper":
        # With integers: 0.7 has no exact float, and a text of exactly 70 % letters must be removed.
        removed[f"{MIN_LETTERS_PERCENT} % letters or fewer"] = alphabetic * 100 <= characters * MIN_LETTERS_PERCENT
        removed["starts with " + ", ".join(LINK_PREFIXES)] = ibis.or_(
            *(body.startswith(prefix) for prefix in LINK_PREFIXES)
        )
    if author is not None and filters.rules == "paper":
        # No letter outside ASCII is lowercased to b, o or t, so the engines' lower() agree here.
        removed["author contains bot"] = author.lower().contains("bot")
    if author is not None and filters.bots:
        removed["author on the list of bots"] = author.lower().isin(filters.bots)
    if language is not None and filters.language:
        removed[f"not in language {filters.language}"] = ~language.isin((filters.language, ""))
    return removed


def loss_warning(counts: dict[str, int], texts: str, filters: Filters) -> str | None:
    """A line about the rules if they removed more than a third of the texts: the rule that removed most, the remedy.

    Args:
        counts: rule, or `input: ` or `response: ` and rule -> texts that it removed; `KEPT` -> texts that are kept.
        texts: what is counted, such as pairs.
        filters: the rules that were applied.
    """
    total = sum(counts.values())
    removed = total - counts[KEPT]
    if removed * 3 <= total:
        return None
    rule = max((name for name in counts if name != KEPT), key=lambda name: counts[name])
    remedies = {
        "deleted or empty": "if another column holds the texts, name it with --columns",
        "fewer than": "lower --min_characters to keep more",
        "author on the list": "shorten the list of --bots to keep more",
        "not in language": "omit --language to keep more",
        "": f"--filters {'chat' if filters.rules == 'paper' else 'none'} keeps more",
    }
    remedy = next(text for start, text in remedies.items() if rule.rpartition(": ")[2].startswith(start))
    return (
        f"warning: the rules removed {removed:,} of {total:,} {texts} ({removed / total:.0%}), most of them "
        f"({counts[rule]:,}) by '{rule}'; {remedy}"
    )


def first_rule(removed: dict[str, ir.BooleanValue]) -> ir.StringValue:
    """The name of the first rule whose condition holds, or `KEPT`, so that the counts of all rules add up."""
    import ibis

    return ibis.cases(*((condition, ibis.literal(name)) for name, condition in removed.items()), else_=KEPT)


def count_values(table: ir.Table, column: ir.StringValue, names: list[str]) -> dict[str, int]:
    """How many rows of `table` have each of `names` in `column`, in the order of `names`; 0 for those without rows."""
    import ibis

    counts = table.group_by(name=column).agg(rows=ibis._.count()).to_pyarrow().to_pydict()
    rows = dict(zip(counts["name"], counts["rows"], strict=True))
    return {name: rows.get(name, 0) for name in names}
