"""Turns texts that are HTML, such as those of help desks and forums, into plain text."""

import re
from collections.abc import Sequence
from html.parser import HTMLParser

_BLOCKS = "p|div|br|li|ul|ol|table|tr|td|th|h[1-6]|pre|blockquote|html|body|head|hr"
_BLOCK = re.compile(_BLOCKS)
_TAG = re.compile(rf"</?(?:{_BLOCKS}|a|b|i|u|strong|em|span|img|code|font)(?:\s[^<>]*)?/?>", re.IGNORECASE)
_NO_TAG = re.compile(r"<(?![^<>]*>)")
_SKIPPED = {"script", "style", "head", "blockquote"}  # what a quotation says is in the message that it quotes


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
