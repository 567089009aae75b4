"""Cleans a text (Markdown) and normalizes it for comparison."""

import re
import unicodedata

# [label](address), ![label](address); the address may contain one level of parentheses, as on Wikipedia.
_LINK = re.compile(r"!?\[([^\[\]]*)\]\((?:[^()\s]|\([^()\s]*\))*(?:\s+\"[^\"]*\")?\)")
_QUOTED_LINE = re.compile(r"^[ \t]{0,3}>.*(?:\n|$)", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n\s*\n+")
_NOT_WORDS = re.compile(r"[\W_]+")


def strip_markdown(text: str) -> str:
    """The text without quoted lines, with links replaced by their labels."""
    text, quoted = _QUOTED_LINE.subn("", text)
    if quoted:
        text = _BLANK_LINES.sub("\n\n", text).strip()
    return _LINK.sub(r"\1", text) if "](" in text else text


def normalize_text(text: str) -> str:
    """The form in which texts are compared: NFKC, case-folded, without punctuation, with single spaces.

    Punctuation becomes a space, so that "it's" equals the tokenized "it 's".
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return _NOT_WORDS.sub(" ", text.casefold()).strip()
