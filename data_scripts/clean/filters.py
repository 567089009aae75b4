"""The filter rules: Ibis expressions over columns that the reader computed (`measure`, `measure_language`).

A rule has the same result on every engine. HTML entities are resolved first, Markdown is stripped on request, and the
text is measured. Then the rules apply in the order of `removal_rules`, and each text is counted under the first rule
that removes it.

Ibis is imported where it is used, because dumps are read without it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from data_scripts.clean.text import detect_language, strip_markdown

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


def measure(text: str, filters: Filters = PAPER) -> tuple[str, int, int]:
    """The text, its number of Unicode characters, and how many of them are letters.

    Engines count the characters and letters of some scripts differently, so they are counted here, while reading.
    """
    if filters.markdown:
        text = strip_markdown(text)
    return text, len(text), sum(map(str.isalpha, text))


def measure_language(text: str, characters: int, alphabetic: int, filters: Filters) -> str:
    """The language of a text; "" if no language is asked for, the detector is not sure, or another rule removes it."""
    maximum = MAX_CHARACTERS.get(filters.rules)
    too_long = maximum is not None and characters >= maximum
    no_letters = filters.rules == "paper" and alphabetic * 100 <= characters * MIN_LETTERS_PERCENT
    is_removed = too_long or no_letters or is_placeholder(text)
    return "" if is_removed or not filters.language else detect_language(text)


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

    Without `author`, the rules about authors do not apply; `language` (see `measure_language`) is needed if
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


def first_rule(removed: dict[str, ir.BooleanValue], otherwise: str = KEPT) -> ir.StringValue:
    """The name of the first rule whose condition holds, or another one, so that the counts of all rules add up."""
    import ibis

    return ibis.cases(*((condition, ibis.literal(name)) for name, condition in removed.items()), else_=otherwise)


def count_values(table: ir.Table, column: ir.StringValue, names: list[str]) -> dict[str, int]:
    """How many rows of `table` have each of `names` in `column`, in the order of `names`; 0 for those without rows."""
    import ibis

    counts = table.group_by(name=column).agg(rows=ibis._.count()).to_pyarrow().to_pydict()
    rows = dict(zip(counts["name"], counts["rows"], strict=True))
    return {name: rows.get(name, 0) for name in names}
