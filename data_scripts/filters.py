"""The paper's filter rules, written once: columns in, the name of the first rule that removes each text out.

A rule is an Ibis expression over columns that the reader computed (`measure`): thresholds and prefixes mean the same
on every engine, lengths in characters and letters of every script do not.
"""

import html

import ibis
import ibis.expr.types as ir
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

KEPT = "kept"
MAX_CHARACTERS = 350  # a text of this many or more is removed
MIN_LETTERS_PERCENT = 70  # a text with this share of letters or less is removed
LINK_PREFIXES = ("https", "/r/", "@")
PLACEHOLDERS = ("[deleted]", "[removed]", "")
_ASCII_LETTERS = np.array([byte < 128 and chr(byte).isalpha() for byte in range(256)])


def measure(text: str) -> tuple[str, int, int]:
    """The HTML-unescaped text, its number of Unicode characters, and how many of them are letters."""
    text = html.unescape(text)
    return text, len(text), sum(map(str.isalpha, text))


def measure_column(texts: pa.StringArray) -> tuple[pa.StringArray, np.ndarray, np.ndarray]:
    """`measure` of many texts, none of them null: unescaped texts, characters and letters, (texts,) int32 each."""
    escaped = pc.match_substring(texts, "&")
    if escaped.true_count:
        unescaped = pa.array(map(html.unescape, texts.filter(escaped).to_pylist()), pa.string())
        texts = pc.replace_with_mask(texts, escaped, unescaped)
    _, offsets_buffer, data_buffer = texts.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    data = np.frombuffer(data_buffer or b"", np.uint8)
    # Of texts in ASCII, which most are, letters are counted by byte; of others one by one.
    alphabetic = _sums(_ASCII_LETTERS[data], offsets)
    for row in np.flatnonzero(_sums(data > 127, offsets)):
        alphabetic[row] = sum(map(str.isalpha, texts[row].as_py()))
    return texts, pc.utf8_length(texts).to_numpy(), alphabetic


def _sums(values: np.ndarray, offsets: np.ndarray) -> np.ndarray:
    """Sums of the stretches of `values` between consecutive `offsets`."""
    totals = np.concatenate([[0], np.cumsum(values, dtype=np.int64)])
    return (totals[offsets[1:]] - totals[offsets[:-1]]).astype(np.int32)


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
