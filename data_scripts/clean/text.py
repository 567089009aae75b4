"""Cleans a text (Markdown, HTML), normalizes it for comparison, and detects its language."""

import functools
import html
import re
import unicodedata
from collections.abc import Sequence
from html.entities import html5
from html.parser import HTMLParser
from typing import Any

MIN_PROBABILITY = 0.5  # of a language; answers with a lower probability, frequent for short texts, are not used

# [label](address), ![label](address); the address may contain one level of parentheses, as on Wikipedia.
_LINK = re.compile(r"!?\[([^\[\]]*)\]\((?:[^()\s]|\([^()\s]*\))*(?:\s+\"[^\"]*\")?\)")
_QUOTED_LINE = re.compile(r"^[ \t]{0,3}>.*(?:\n|$)", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n\s*\n+")
_NOT_WORDS = re.compile(r"[\W_]+")
_BLOCKS = "p|div|br|li|ul|ol|table|tr|td|th|h[1-6]|pre|blockquote|html|body|head|hr"
_BLOCK = re.compile(_BLOCKS)
_TAG = re.compile(rf"</?(?:{_BLOCKS}|a|b|i|u|strong|em|span|img|code|font)(?:\s[^<>]*)?/?>", re.IGNORECASE)
_NO_TAG = re.compile(r"<(?![^<>]*>)")
_REFERENCE = re.compile(r"&(?:#[0-9]{1,7};|#[xX][0-9a-fA-F]{1,6};|([A-Za-z][A-Za-z0-9]{1,31};))")
# What a quotation says is in the message that it quotes; `quote` is Skype's.
_SKIPPED = {"script", "style", "head", "blockquote", "quote"}


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


def unescape(text: str) -> str:
    """The text with HTML's character references decoded, once; `&section` in a URL lacks its `;`."""
    if "&" not in text:
        return text
    return _REFERENCE.sub(lambda match: html5.get(match[1], match[0]) if match[1] else html.unescape(match[0]), text)


def are_html(texts: Sequence[str]) -> bool:
    """Whether at least half of some texts have tags of HTML, so that all of them are taken for HTML."""
    return bool(texts) and 2 * sum(_TAG.search(text) is not None for text in texts) >= len(texts)


def html_to_text(text: str) -> str:
    """The text of HTML, one line per block, without quotations."""
    # Without its comments, and with a `<` that begins no tag escaped, the parser takes linear time.
    first, *others = text.split("<!--")
    text = first + "".join(each.partition("-->")[2] for each in others)
    parser = _Text()
    parser.feed(_NO_TAG.sub("&lt;", text))
    parser.close()
    lines = (" ".join(line.split()) for line in "".join(parser.parts).split("\n"))
    return "\n".join(line for line in lines if line)


class _Text(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.parts: list[str] = []
        self._skipped = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._skipped += tag in _SKIPPED
        if _BLOCK.fullmatch(tag):
            self.parts.append("\n")

    def handle_endtag(self, tag: str) -> None:
        self._skipped = max(self._skipped - (tag in _SKIPPED), 0)
        if _BLOCK.fullmatch(tag):
            self.parts.append("\n")

    def parse_marked_section(self, i: int, report: int = 1) -> int:
        """The end of `<![if …]>`, as Outlook writes it; the library knows few such words, and asserts that it does."""
        return self.rawdata.index(">", i) + 1

    def handle_data(self, data: str) -> None:
        if not self._skipped:
            self.parts.append(data.replace("\n", " "))


@functools.cache
def _detector() -> Any:
    # Loading the library and its model takes a while, and only --language needs them.
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def languages() -> list[str]:
    """The ISO 639-1 codes of the languages that the detector knows."""
    return sorted(set(_detector().labels))


def detect_language(text: str) -> str:
    """The text's language as an ISO 639-1 code, or "" if the detector is not sure."""
    code, probability = _detector().classify(text)
    return code if probability >= MIN_PROBABILITY else ""
