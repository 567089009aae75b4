"""Finds the parts of a reply that cannot be sent to others: placeholders, and what only one customer got."""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import chain, islice

from modeling_convsim.suggestion.deduplication import Replies

Span = tuple[int, int]  # start and end of a part
MOST_KNOWN = 20_000  # replies whose spans are kept
NAME = re.compile(r"[\[{]name[\]}]", re.IGNORECASE)  # what pairs have in place of the name of who is addressed
# Names, masks of personal data, and fields of templates.
PLACEHOLDER = re.compile(
    rf"(?i:{NAME.pattern})|\[(?:KEY|URL|EMAIL|IBAN|CARD|IP|PHONE|USER)\]|__(?:email|credit_card)__"
    r"|\{\{[^{}\n]{1,40}\}\}"
)

_MONTHS = (
    "Jan(?:uary|uar)?|Feb(?:ruary|ruar)?|Mar(?:ch)?|März|Apr(?:il)?|Ma[yi]|June?|Juni|July?|Juli|Aug(?:ust)?|"
    "Sept?(?:ember)?|O[ck]t(?:ober)?|Nov(?:ember)?|De[cz](?:ember)?|janvier|février|mars|avril|mai|juin|juillet|août|"
    "septembre|octobre|novembre|décembre|enero|febrero|marzo|abril|mayo|junio|julio|agosto|septiembre|octubre|"
    "noviembre|diciembre"
)
_DAY, _YEAR = r"(?:0?[1-9]|[12]\d|3[01])", r"(?:19|20)\d\d"
_CURRENCY = r"(?:[A-Z]{0,2}[$€£¥₹₽₩₺]|(?:USD|EUR|GBP|CHF|CAD|AUD|INR|PLN|SEK|NOK|DKK|Rs\.?|kr\.?|zł)(?!\w))"
_NUMBER = r"\d+(?:[.,' ]\d{3})*(?:[.,]\d{1,2})?(?!\d)"
# What a short number after it names.
_NUMBERED = (
    r"order|ticket|case|claim|tracking|ref|reference|invoice|receipt|booking|reservation|confirmation|account|customer|"
    r"transaction|shipment|parcel|package|voucher|coupon|gift card|serial|flight|incident|RMA|PNR|PIN|ID|number|"
    r"(?<!error )code|\w*nummer|Bestellung|Auftrag|Rechnung|Vorgang|commande|facture|pedido|factura"
)
# What may be of one case; `number` is a part of what is found.
SPECIFIC = re.compile(
    # links, e-mail addresses, names of users
    r"(?:https?://|www\.)[^\s<>\"\]]*[^\s<>\"\].,;:!?'*)}]|\b(?:[\w-]+\.)+[a-z]{2,}/[\w/?=&%#.-]*[\w/]"
    r"|[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?<![\w@/.])@(?:[A-Za-z_]\w+|\d{4,})"
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
    rf"|(?i:\b(?:{_NUMBERED})(?: (?:number|no\.?|nr\.?|n[°º]|id|code))?(?: (?:is|was|of|ist|est|es)|:)?\s?[#(]?"
    r"(?P<number>(?=(?:[a-z-]*\d){2})[a-z\d][a-z\d-]{3,}\b)(?! \d{3}))|#\d{3,}\b|(?<![\w.,])\d{6,}(?![\w,])"
    r"|(?<![\w.-])(?=[A-Z\d-]*[A-Z])(?=(?:[A-Z-]*\d){4})[A-Z\d]+(?:-[A-Z\d]+)*(?![\w-])"
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
        found = {match.span() for match in PLACEHOLDER.finditer(text)}
        if not self._only_placeholders and _HINT.search(text):
            spans = (match.span(match.lastgroup or 0) for match in SPECIFIC.finditer(text))
            found |= {span for span in spans if not self._is_general(text[slice(*span)].lower(), text.lower())}
        return tuple(sorted(found))

    def _is_general(self, part: str, text: str) -> bool:
        pattern = re.compile(rf"{re.escape(part)}(?![.,]?\w)")
        most = sum(1 for _ in _occurrences(pattern, text))  # in one reply, which may repeat it
        return len(list(islice(_occurrences(pattern, self._texts), most + 1))) > most

    @cached_property
    def _texts(self) -> str:
        """The replies that may have such a part, those that were given more than once twice."""
        counts = dict(zip(self._replies.texts, self._replies.counts.tolist(), strict=True))
        hinted = [[text] * min(count, 2) for text, count in counts.items() if _HINT.search(text)]
        return "\n".join(chain.from_iterable(hinted)).lower()


def _occurrences(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """The matches at which no word, number or link has begun before."""
    return (match for match in pattern.finditer(text) if not text[max(0, match.start() - 1) : match.start()].isalnum())


def mark(text: str, spans: Iterable[Span], before: str, after: str, convert: Callable[[str], str] = str) -> str:
    """The converted text with something before and after each span."""
    marked, end = "", 0
    for start, stop in spans:
        marked += convert(text[end:start]) + before + convert(text[start:stop]) + after
        end = stop
    return marked + convert(text[end:])
