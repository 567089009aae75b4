"""Finds the parts of a reply that cannot be sent to others: placeholders, and what only one customer got."""

import json
import re
from collections.abc import Callable
from functools import cached_property, lru_cache
from pathlib import Path

from modeling_convsim.suggestion.deduplication import Replies

Span = tuple[int, int]  # start and end of a part
MOST_KNOWN = 20_000  # replies whose spans are kept
NAME = re.compile(r"[\[{]name[\]}]", re.IGNORECASE)  # what pairs have in place of the name of who is addressed
_LISTS = json.loads(Path(__file__).with_suffix(".json").read_text("utf-8"))
_MASKS, _MONTHS, _CURRENCIES, _NUMBERED = (
    "|".join(map(re.escape, _LISTS[name])) for name in ("masks", "months", "currencies", "numbered")
)
PLACEHOLDER = re.compile(rf"(?i:{NAME.pattern})|{_MASKS}|\{{\{{[^{{}}\n]{{1,40}}\}}\}}")  # the last one is of templates
_DAY, _YEAR = r"(?:0?[1-9]|[12]\d|3[01])", r"(?:19|20)\d\d"
_CURRENCY = rf"(?:[A-Z]{{0,2}}[$€£¥₹₽₩₺]|(?:{_CURRENCIES})(?!\w))"
_NUMBER = r"\d+(?:[.,' ]\d{3})*(?:[.,]\d{1,2})?(?!\d)"
# What may be of one case, too; `number` is a part of what is found.
SPECIFIC = re.compile(
    rf"{PLACEHOLDER.pattern}|"
    # links, e-mail addresses, names of users
    r"(?:https?://|www\.)[^\s<>\"\]]*[^\s<>\"\].,;:!?'*)}]|(?<![\w.-])(?:[\w-]+\.)+[a-z]{2,}/[\w/?=&%#.-]*[\w/]"
    r"|(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?<![\w@/.])@(?:[A-Za-z_]\w+|\d{4,})"
    # dates
    rf"|\b{_YEAR}([/-])\d\d?\1\d\d?(?:[T ]\d\d:\d\d(?::\d\d)?)?\b|\b\d\d?([./-])\d\d?\2{_YEAR}\b"
    r"|\b\d\d?/\d\d?/\d\d\b|\b\d\d\.\d\d\.\d\d\b|(?<=\b(?:on|le|el) )(?!24/7)\d\d?/\d\d?\b"
    rf"|\b(?:{_MONTHS})\.?\s{_DAY}(?:st|nd|rd|th)?\b(?:,?\s{_YEAR}\b)?"
    rf"|\b{_DAY}(?:st|nd|rd|th|er|\.)?\s(?:of\s|de\s)?(?:{_MONTHS})\b(?:[.,]{{0,2}}\s(?:de\s)?{_YEAR}\b)?"
    r"|(?<=\bthe )\d\d?(?:st|nd|rd|th)\b(?! (?!of|and|or|at|on|so)[a-z])"
    # times of a clock
    r"|(?<![\d:.,])(?:[01]?\d|2[0-3])(?:[:.][0-5]\d)?\s?(?:[ap]m|[ap]\.m\.|[AP]M|Uhr)(?!\w)"
    r"|(?<![\d:.,])(?:[01]?\d|2[0-3])[:h][0-5]\d(?::[0-5]\d)?(?![\d:])"
    # amounts of money
    rf"|(?<![\w.]){_CURRENCY}\s?{_NUMBER}|(?<![\w.,]){_NUMBER}\s?(?:{_CURRENCY}|(?:dollars|euros?)\b)"
    # telephone numbers, and long numbers in groups
    r"|\+\d[\d ().-]{6,}\d|(?<![\w.-])\(?0\d{1,4}\)?[ /.-]\d[\d .-]{3,}\d|(?<![\w.-])\d{3}-\d{4}\b"
    r"|(?<![\w.-])(?:1[ .-])?\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}\b"
    r"|(?<!\w)(?:[A-Z]{2}\d\d )?\d{4}(?:[ -]\d{4}){2,}(?:[ -]\d{1,4})?\b"
    # other numbers: named or long ones, and codes of capital letters and digits
    rf"|(?i:\b(?:{_NUMBERED}|\w*nummer|(?<!error )code)(?: (?:number|no\.?|nr\.?|n[°º]|id|code))?"
    r"(?: (?:is|was|of|ist|est|es)|:)?\s?[#(]?(?P<number>(?=(?:[a-z-]*\d){2})[a-z\d][a-z\d-]{3,}\b)(?! \d{3}))"
    r"|#\d{3,}\b|(?<![\w.,])\d{6,}(?![\w,])|(?<![\w.-])(?=[A-Z\d-]*[A-Z])(?=(?:[A-Z-]*\d){4})[A-Z\d]+(?:-[A-Z\d]+)*(?![\w-])"
)
_HINT = re.compile(r"[0-9@]|://|www\.|\.[a-z]+/")  # of which every text with such a part has one


class Specifics:
    """The parts of replies that cannot be sent to others.

    What several customers got is general, such as the link of a help page: it occurs in other replies too, or the reply
    has been given more than once.
    """

    def __init__(self, replies: Replies, only_placeholders: bool) -> None:
        """Takes the rows of an index, of which an FAQ has only placeholders, for its answers are general."""
        self._replies, self._only_placeholders = replies, only_placeholders
        self.spans: Callable[[str], tuple[Span, ...]] = lru_cache(MOST_KNOWN)(self._find)

    def _find(self, text: str) -> tuple[Span, ...]:
        """Where these parts of a text are, in order."""
        found, is_general = [], self._only_placeholders or not _HINT.search(text)
        for match in (PLACEHOLDER if is_general else SPECIFIC).finditer(text):
            start, end = match.span(match.lastgroup or 0)
            part = text[start:end].lower()
            # A reply may repeat a part.
            if PLACEHOLDER.fullmatch(match[0]) or _count(part, self._texts) <= _count(part, text.lower()):
                found.append((start, end))
        return tuple(found)

    @cached_property
    def _texts(self) -> str:
        """The replies that may have such a part, those that were given more than once twice."""
        counts = dict(zip(self._replies.texts, self._replies.counts.tolist(), strict=True))
        return "".join(f"{text}\n" * min(count, 2) for text, count in counts.items() if _HINT.search(text)).lower()


def _count(part: str, text: str) -> int:
    """How often a part occurs that is not within a longer word, number or link."""
    found = re.finditer(rf"{re.escape(part)}(?![.,]?\w)", text)
    return sum(not text[match.start() - 1 : match.start()].isalnum() for match in found)
