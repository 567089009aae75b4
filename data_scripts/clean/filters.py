"""The filter rules, written once: columns in, the name of the first rule that removes each text out.

A rule is an Ibis expression over columns that the reader computed (`measure`): thresholds and prefixes mean the same
on every engine, lengths in characters and letters of every script do not.

Order: HTML entities are resolved, Markdown is stripped if asked, the text is measured; then the rules in the order of
`rules`, each text counted under the first that removes it.
"""

import argparse
import functools
import html
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data_scripts.errors import InputError

KEPT = "kept"
MAX_CHARACTERS = 350  # a text of this many or more is removed
MIN_LETTERS_PERCENT = 70  # a text with this share of letters or less is removed
LINK_PREFIXES = ("https", "/r/", "@")
PLACEHOLDERS = ("[deleted]", "[removed]", "")
_ASCII_LETTERS = np.array([byte < 128 and chr(byte).isalpha() for byte in range(256)])


@dataclass(frozen=True)
class Filters:
    """Which rules hold; the defaults are the paper's (Yang et al., 2018, section 3)."""

    paper: bool = True
    min_characters: int = 0
    bots: tuple[str, ...] = ()  # authors' names in lower case
    language: str | None = None  # ISO 639-1
    markdown: bool = False  # links and quoted lines are stripped before anything is measured


PAPER = Filters()


def add_filter_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of every command that filters texts; `read_filters` makes `Filters` of them."""
    group = parser.add_argument_group("cleaning", "the defaults are the paper's; both texts of a pair must pass")
    group.add_argument(
        "--filters",
        choices=("paper", "none"),
        default="paper",
        help="paper: the rules of Yang et al. (2018) (default); none: of these only that for deleted and empty texts",
    )
    group.add_argument(
        "--markdown", action="store_true", help="replace Markdown links by their labels, take quoted lines out"
    )
    group.add_argument(
        "--min-characters", type=int, default=0, metavar="N", help="remove texts of fewer characters (default: 0)"
    )
    group.add_argument(
        "--language",
        metavar="CODE",
        help="remove texts that are surely of another language than this, such as en (ISO 639-1); short texts, of "
        "which the detector is not sure, stay",
    )
    group.add_argument(
        "--bots", type=Path, metavar="FILE", help="remove texts of the authors named in this file, one a line"
    )
    group.add_argument(
        "--max-repeats",
        type=int,
        metavar="N",
        help='keep at most N pairs with the same response ("Thanks!"), case, punctuation and spaces apart '
        "(default: all)",
    )
    group.add_argument(
        "--mask",
        action="store_true",
        help="put [EMAIL], [PHONE] and [USER] in the place of e-mail addresses, phone numbers and user names (@name, "
        "u/name), after all rules",
    )


def read_filters(args: argparse.Namespace) -> Filters:
    """The `Filters` that the options of `add_filter_arguments` ask for.

    Raises:
        InputError: the list of bots cannot be read, the language cannot be detected, a number is out of range.
    """
    if args.min_characters < 0:
        raise InputError(f"--min-characters {args.min_characters}: expected 0 or more")
    if args.max_repeats is not None and args.max_repeats < 1:
        raise InputError(f"--max-repeats {args.max_repeats}: expected 1 or more")
    bots: tuple[str, ...] = ()
    if args.bots:
        try:
            lines = args.bots.read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"--bots {args.bots}: cannot be read as a list of names, one a line ({error})") from error
        bots = tuple(sorted({line.strip().lower() for line in lines if line.strip()}))
        if not bots:
            raise InputError(f"--bots {args.bots}: no name in it; expected one a line")
    if args.language:
        from data_scripts.clean.text import languages  # loading the detector takes a while

        if args.language not in languages():
            raise InputError(f"--language {args.language}: expected one of {', '.join(languages())}")
    return Filters(args.filters == "paper", args.min_characters, bots, args.language, args.markdown)


def filter_settings(filters: Filters) -> dict[str, Any]:
    """What a report says of the filters: which rules, and the options that were given."""
    given = {
        "minimum of characters": filters.min_characters,
        "names on the list of bots": len(filters.bots),
        "language": filters.language,
        "markdown": "stripped" if filters.markdown else None,
    }
    settings = {"filters": "paper" if filters.paper else "none"}
    return settings | {name: value for name, value in given.items() if value}


def measure(text: str, filters: Filters = PAPER) -> tuple[str, int, int]:
    """The HTML-unescaped text, its number of Unicode characters, and how many of them are letters."""
    text = html.unescape(text)
    if filters.markdown:
        text = _stripper()(text)
    return text, len(text), sum(map(str.isalpha, text))


def _stripper() -> Callable[[str], str]:
    from data_scripts.clean.text import strip_markdown  # its module's libraries take a while

    return strip_markdown


def _map(function: Callable[[str], str], texts: pa.StringArray, where: pa.BooleanArray) -> pa.StringArray:
    """The texts, `function` called on those that are marked."""
    if not where.true_count:
        return texts
    return pc.replace_with_mask(texts, where, pa.array(map(function, texts.filter(where).to_pylist()), pa.string()))


def measure_column(texts: pa.StringArray, filters: Filters = PAPER) -> tuple[pa.StringArray, np.ndarray, np.ndarray]:
    """`measure` of many texts, none of them null: clean texts, characters and letters, (texts,) int32 each."""
    texts = _unescape_column(texts)
    if filters.markdown:
        texts = _map(_stripper(), texts, pc.match_substring_regex(texts, r"\]\(|(?m)^[ \t]{0,3}>"))
    _, offsets_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    # Of texts in ASCII, which most are, letters are counted by byte; of others by code point.
    alphabetic = _sums(_ASCII_LETTERS[np.frombuffer(data_buffer or b"", np.uint8)], offsets)
    characters = pc.utf8_length(texts).to_numpy()
    others = np.flatnonzero(np.diff(offsets) != characters)
    if len(others):
        codes = np.frombuffer("".join(texts.take(pa.array(others)).to_pylist()).encode("utf-32-le"), np.uint32)
        alphabetic[others] = _sums(_letters()[codes], np.append(0, np.cumsum(characters[others])))
    return texts, characters, alphabetic


def _unescape_column(texts: pa.StringArray) -> pa.StringArray:
    """`html.unescape` of many texts. Nearly all that hold an `&` hold Reddit's three entities only."""
    escaped = pc.match_substring(texts, "&")
    if not escaped.true_count:
        return texts
    found = texts.filter(escaped)
    plain, without = found, found
    for entity, sign in (("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&")):  # & last: "&amp;lt;" is "&lt;"
        plain = pc.replace_substring(plain, entity, sign)
        without = pc.replace_substring(without, entity, "")
    others = pc.match_substring_regex(without, "&[#0-9A-Za-z]")
    if others.true_count:
        unescaped = pa.array(map(html.unescape, found.filter(others).to_pylist()), pa.string())
        plain = pc.replace_with_mask(plain, others, unescaped)
    return pc.replace_with_mask(texts, escaped, plain)


@functools.cache
def _letters() -> np.ndarray:
    """Whether each code point of Unicode is a letter, (1,114,112,) bool."""
    return np.array([chr(code).isalpha() for code in range(sys.maxunicode + 1)])


def _sums(flags: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """How many of the stretches of `flags` between consecutive `offsets` are set, int32."""
    sums = np.zeros(len(offsets) - 1, np.int32)
    filled = np.flatnonzero(np.diff(offsets))  # `reduceat` takes an empty stretch for one of one
    if len(filled):
        sums[filled] = np.add.reduceat(flags[: offsets[-1]], offsets[filled], dtype=np.int32)
    return sums


def language_of(text: str, characters: int, alphabetic: int, filters: Filters) -> str:
    """The language of a text ("" where it is not sure); "" too where a cheaper rule removes the text anyway."""
    from data_scripts.clean.text import detect_language

    out = filters.paper and (characters >= MAX_CHARACTERS or alphabetic * 100 <= characters * MIN_LETTERS_PERCENT)
    return "" if out or text in PLACEHOLDERS else detect_language(text)


def rules(
    body: ir.StringValue,
    characters: ir.IntegerValue,
    alphabetic: ir.IntegerValue,
    author: ir.StringValue | None = None,
    language: ir.StringValue | None = None,
    filters: Filters = PAPER,
) -> dict[str, ir.BooleanValue]:
    """Name -> condition under which a text is removed, in the order in which rules are counted.

    Where the author is not known, the rules about authors do not apply; `language` (as of `language_of`) is needed
    where the filters name one.
    """
    removed = {"deleted or empty": body.isin(PLACEHOLDERS)}
    if filters.min_characters:
        removed[f"fewer than {filters.min_characters} characters"] = characters < filters.min_characters
    if filters.paper:
        removed[f"{MAX_CHARACTERS} characters or more"] = characters >= MAX_CHARACTERS
        # In whole numbers: 0.7 has no exact float, and a text of exactly 70 % letters must go.
        removed[f"{MIN_LETTERS_PERCENT} % letters or fewer"] = alphabetic * 100 <= characters * MIN_LETTERS_PERCENT
        removed["starts with " + ", ".join(LINK_PREFIXES)] = ibis.or_(
            *(body.startswith(prefix) for prefix in LINK_PREFIXES)
        )
    if author is not None and filters.paper:
        # No letter outside ASCII becomes b, o or t in lower case, so lower() agrees here between engines.
        removed["author contains bot"] = author.lower().contains("bot")
    if author is not None and filters.bots:
        removed["author on the list of bots"] = author.lower().isin(filters.bots)
    if language is not None and filters.language:
        removed[f"not in language {filters.language}"] = ~language.isin((filters.language, ""))
    return removed


def first_rule(removed: dict[str, ir.BooleanValue]) -> ir.StringValue:
    """The name of the first rule whose condition holds, or `KEPT`: counting it gives numbers that add up."""
    return ibis.cases(*((condition, ibis.literal(name)) for name, condition in removed.items()), else_=KEPT)


def count(table: ir.Table, column: ir.StringValue, names: list[str]) -> dict[str, int]:
    """Rows of `table` for each of `names` (zero where there are none), in that order, by the value of `column`."""
    found = table.group_by(name=column).agg(rows=ibis._.count()).to_pyarrow().to_pydict()
    rows = dict(zip(found["name"], found["rows"], strict=True))
    return {name: rows.get(name, 0) for name in names}
