"""The paper's filter rules, written once: columns in, the name of the first rule that removes each text out.

A rule is an Ibis expression over columns that the reader computed (`measure`): thresholds and prefixes mean the same
on every engine, lengths in characters and letters of every script do not.
"""

import html

import ibis
import ibis.expr.types as ir

KEPT = "kept"
MAX_CHARACTERS = 350  # a text of this many or more is removed
MIN_LETTERS_PERCENT = 70  # a text with this share of letters or less is removed
LINK_PREFIXES = ("https", "/r/", "@")
PLACEHOLDERS = ("[deleted]", "[removed]", "")


def measure(text: str) -> tuple[str, int, int]:
    """The HTML-unescaped text, its number of Unicode characters, and how many of them are letters."""
    text = html.unescape(text)
    return text, len(text), sum(map(str.isalpha, text))


def rules(
    body: ir.StringValue,
    characters: ir.IntegerValue,
    alphabetic: ir.IntegerValue,
    author: ir.StringValue | None = None,
    paper: bool = True,
) -> dict[str, ir.BooleanValue]:
    """Name -> condition under which a text is removed, in the order in which rules are counted.

    The paper's are those of Yang et al. (2018), section 3. `paper=False` leaves only the rule for
    deleted and empty texts. Where the author is not known, the rule about authors does not apply.
    """
    removed = {"deleted or empty": body.isin(PLACEHOLDERS)}
    if not paper:
        return removed
    removed[f"{MAX_CHARACTERS} characters or more"] = characters >= MAX_CHARACTERS
    # In whole numbers: 0.7 has no exact float, and a text of exactly 70 % letters must go.
    removed[f"{MIN_LETTERS_PERCENT} % letters or fewer"] = alphabetic * 100 <= characters * MIN_LETTERS_PERCENT
    removed["starts with " + ", ".join(LINK_PREFIXES)] = ibis.or_(
        *(body.startswith(prefix) for prefix in LINK_PREFIXES)
    )
    if author is not None:
        # No letter outside ASCII becomes b, o or t in lower case, so lower() agrees here between engines.
        removed["author contains bot"] = author.lower().contains("bot")
    return removed


def first_rule(removed: dict[str, ir.BooleanValue]) -> ir.StringValue:
    """The name of the first rule whose condition holds, or `KEPT`: counting it gives numbers that add up."""
    return ibis.cases(*((condition, ibis.literal(name)) for name, condition in removed.items()), else_=KEPT)


def count(table: ir.Table, column: ir.StringValue, names: list[str]) -> dict[str, int]:
    """Rows of `table` for each of `names` (zero where there are none), in that order, by the value of `column`."""
    found = table.group_by(name=column).agg(rows=ibis._.count()).to_pyarrow().to_pydict()
    rows = dict(zip(found["name"], found["rows"], strict=True))
    return {name: rows.get(name, 0) for name in names}
