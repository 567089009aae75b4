"""Hypothesis strategies: hostile texts, JSON values, records with a wrong field, and damaged documents."""

import json
import re
from typing import Any

from hypothesis import strategies as st

# fmt: off
SAMPLES = [
    "", " ", "\n", "\r", "\t", "\0", "\x1b[31m", "\x7f", "\x85", "\u2028", "\u200b", "\ufeff", "\ufffd", "\U0010ffff",
    "\ud800", "\ud83d\ude00", "a\ud800b", "e\u0301\u0302", "\u202eabc\u202c", "שלום", "हिन्दी", "👩\u200d👧", "ﬁ", "ß",
    "日本語", "=== x", "-", "nan", "1e999", "٣", '"', "'", "\\", ",", "a\tb", "{", "&amp;#x0;", "&#xd800;", "<b>",
    "[a](b)", "> q", "a@b.de", "http://x.y", "+1 212 555 0123",
]
TOKENS = [
    b"", b'"', b"\\", b"{", b"}", b"[", b",", b":", b"\n", b"\r\n", b"\t", b"\0", b"\xff", b"\xed\xa0\x80", b"\\ud800",
    b"\xef\xbb\xbf", b"\xff\xfe", "\u202e".encode(), b"NaN", b"1e999", b"-1", b"12.0", b"9" * 1_200, b"null",
    b"[" * 60, b"{}", b"}\n\n{", b'"id":', b'"messages":', b"text,",
]
# fmt: on


def texts(surrogates: bool = True, max_size: int = 30) -> st.SearchStrategy[str]:
    """Any text; many have characters of other scripts, control characters or half of a surrogate pair."""
    characters = st.characters() if surrogates else st.characters(exclude_categories=["Cs"])
    samples = [text for text in SAMPLES if surrogates or is_unicode(text)]
    return st.one_of(
        st.sampled_from(samples),
        st.text(characters, max_size=max_size),
        st.lists(st.sampled_from([*samples, "the cat", " ", "Hello"]), max_size=8).map("".join),
    )


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can represent a text."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def numbers() -> st.SearchStrategy[Any]:
    """Numbers that JSON can have, many of them at the limits of a type."""
    limits = [0, -1, 2**31, 2**63, -(2**63) - 1, 10**400, 1e308, -0.0, 1e-320, float("nan"), float("inf"), 12.0]
    return st.one_of(st.sampled_from(limits), st.integers(), st.floats())


def json_values() -> st.SearchStrategy[Any]:
    """Any JSON value, at most a few levels deep."""
    leaves = st.one_of(st.none(), st.booleans(), numbers(), texts())
    return st.recursive(
        leaves,
        lambda children: st.lists(children, max_size=3) | st.dictionaries(texts(max_size=5), children, max_size=3),
        max_leaves=5,
    )


@st.composite
def records(draw: st.DrawFn, **fields: st.SearchStrategy[Any]) -> dict[str, Any]:
    """Records with the given fields, one of which may have any value or be missing."""
    record = {name: draw(values) for name, values in fields.items()}
    name, change = draw(st.sampled_from(sorted(fields))), draw(st.sampled_from(["none", "value", "missing"]))
    if change == "value":
        record[name] = draw(json_values())
    elif change == "missing":
        del record[name]
    return record


@st.composite
def damaged(draw: st.DrawFn, content: bytes) -> bytes:
    """A document with one or two changes: a JSON value that is another one or missing, other bytes, or no end."""
    for _ in range(draw(st.sampled_from([1, 1, 1, 2]))):
        change = draw(st.sampled_from([*[_change_json] * 4, *[_change_bytes] * 4, _truncate]))
        content = change(draw, content)
    return content


def _change_json(draw: st.DrawFn, content: bytes) -> bytes:
    """Change a value of a JSON document, or of one of its lines."""
    lines = content.split(b"\n")
    number = draw(st.integers(0, len(lines) - 1))
    for before, text, after in ([], content, []), (lines[:number], lines[number], lines[number + 1 :]):
        try:
            changed = json.dumps(_change_value(draw, json.loads(text))).encode()
            return b"\n".join([*before, changed, *after])
        except (ValueError, RecursionError):
            continue
    return _change_bytes(draw, content)


def _change_value(draw: st.DrawFn, value: Any) -> Any:
    keys = list(value) if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else []
    if not keys or draw(st.sampled_from([False] * 9 + [True])):
        similar = [str(value), [value], None, *([-value, value + 0.5] if isinstance(value, int | float) else [])]
        return draw(st.sampled_from(similar) | json_values())
    key, copy = draw(st.sampled_from(keys)), value.copy()
    if draw(st.sampled_from([True] * 6 + [False])):
        copy[key] = _change_value(draw, value[key])
    else:
        del copy[key]
    return copy


def _change_bytes(draw: st.DrawFn, content: bytes) -> bytes:
    """Replace some bytes: anywhere, beside a sign of the syntax, or at the start or end of a line."""
    signs, lines = (
        [match.end() for match in re.finditer(sign, content)] for sign in (rb'[\n"{}\[\],:]', rb"\n|$|(?=\n)")
    )
    start = draw(st.one_of(st.integers(0, len(content)), *(st.sampled_from(each) for each in (signs, lines) if each)))
    length = draw(st.sampled_from([0, 0, 1, 2, 8, 64]))
    middle = draw(st.sampled_from(TOKENS) | st.binary(max_size=2) | st.just(content[start : start + length] * 2))
    return content[:start] + middle + content[start + length :]


def _truncate(draw: st.DrawFn, content: bytes) -> bytes:
    return content[: draw(st.integers(0, len(content)))]
