"""Finds personal data in a text: what each kind looks like, and where it is.

Detectors read a text that `plain` normalized, in which every digit is ASCII. Their time grows linearly with the text.
Names of people in running text are not detected.
"""

import functools
import ipaddress
import re
import sys
import unicodedata
from collections.abc import Callable, Iterator
from typing import NamedTuple

import phonenumbers
from stdnum import iban, luhn

DEFAULT_REGIONS = ("US",)  # of phone numbers
Span = tuple[int, int]  # start and end of what is masked


class Kind(NamedTuple):
    """A kind of personal data.

    Attributes:
        name: for reports and cards.
        mask: replaces what is found.
        suspect: a pattern of RE2 that matches every text with data of this kind, and few others; it is searched in the
            text as it was written.
        find: the spans in a normalized text; called with the text, the spans of its URLs and the regions of phone
            numbers.
    """

    name: str
    mask: str
    suspect: str
    find: Callable[[str, list[Span], tuple[str, ...]], Iterator[Span]]


# -- normalization ----------------------------------------------------------------------------------------------------


@functools.cache
def _plain_characters() -> dict[int, str]:
    """Code point -> ASCII: digits of every script, full-width forms, spaces and dashes."""
    plain = {code: chr(code - 0xFEE0) for code in range(0xFF01, 0xFF5F)}
    plain |= dict.fromkeys([0xA0, 0x2007, 0x2009, 0x202F, 0x3000], " ")
    plain |= dict.fromkeys([*range(0x2010, 0x2016), 0x2212], "-")
    characters = map(chr, range(128, sys.maxunicode + 1))
    return plain | {
        ord(char): str(unicodedata.digit(char)) for char in characters if unicodedata.category(char) == "Nd"
    }


def plain(text: str) -> str:
    """The text with ASCII digits, spaces and dashes; each character stays in its place."""
    return text if text.isascii() else text.translate(_plain_characters())


# -- e-mail addresses -------------------------------------------------------------------------------------------------

# Marks combine with letters in many scripts, and `\w` does not match them.
_MARKS = "".join(chr(code) for code in range(0x300, 0x3100) if unicodedata.category(chr(code)) in ("Mn", "Mc"))
_WORD = rf"\w{_MARKS}"
_LOCAL = rf"{_WORD}.!#$%&*+^~'’-"
_TOP_LEVEL = rf"(?:xn--[\w-]+|(?![\d_])[{_WORD}]{{2,63}})"
_DOMAIN = rf"(?:[{_WORD}-]{{1,63}}[.。])+{_TOP_LEVEL}(?![{_WORD}])|\[[0-9a-fA-F:.]{{3,45}}\]"
_EMAIL = re.compile(
    rf"(?<![{_LOCAL}])['.*!#~^&’-]*+(?P<plain>[{_WORD}$%+][{_LOCAL}]*+@(?:{_DOMAIN}))"
    rf'|(?P<quoted>"[^"@\s][^"@\n]{{0,62}}"@(?:{_DOMAIN}))'
)
# jane (at) example.org, jane [at] example [dot] org, jane at example dot org, jane@example dot org
_DOT = r"(?:\s{0,2}[(\[{<]\s{0,2}(?:dot|\.)\s{0,2}[)\]}>]\s{0,2}|\s{1,2}dot\s{1,2})"
_LABEL = r"[\w-]{1,63}"
_COMMON_TOP_LEVEL = "(?:com|org|net|edu|gov|mil|info|biz|name|dev|app|[a-z]{2})"
_OBFUSCATED = re.compile(
    rf"(?:\s{{0,2}}[(\[{{<]\s{{0,2}}(?:at|@)\s{{0,2}}[)\]}}>]\s{{0,2}}{_LABEL}(?:(?:{_DOT}|\.){_LABEL}){{1,4}}"
    rf"|(?:\s{{1,2}}at\s{{1,2}}|\s?@\s?){_LABEL}(?:(?:{_DOT}|\.){_LABEL}){{0,3}}{_DOT}{_COMMON_TOP_LEVEL})(?!\w)",
    re.IGNORECASE,
)
_LOCAL_END = re.compile(r"[\w.+-]{1,64}\Z")


def _find_emails(text: str, urls: list[Span], regions: tuple[str, ...]) -> Iterator[Span]:
    for match in _EMAIL.finditer(text):
        yield match.span(match.lastgroup or 0)
    for match in _OBFUSCATED.finditer(text):
        if local := _LOCAL_END.search(text, max(0, match.start() - 64), match.start()):
            yield local.start(), match.end()


# -- URLs -------------------------------------------------------------------------------------------------------------

_URL = re.compile(r"(?<![\w+.-])(?:[A-Za-z][A-Za-z0-9+.-]{1,20}://|www\.)[^\s<>\"\]]+")
_PARAMETER = re.compile(r"[?&#;/]([^=&#;?/]*+)=([^&#;]*+)")
# Long enough values of such parameters are secrets: a shorter one is the number of a page, or a choice.
_SECRETS = (
    (re.compile("token|secret|passw|pwd|signature|credential|session|api.?key|access.?key|jwt", re.IGNORECASE), 4),
    (re.compile("^(?:key|sig|sid|auth|pass)$", re.IGNORECASE), 12),
)
_USER_INFO = re.compile(r"[\w+.-]*://[^/?#@]*+@")
_WEBHOOK = re.compile(r"hooks\.slack\.com/(?:services|workflows)/|discord(?:app)?\.com/api/webhooks/", re.IGNORECASE)


def find_urls(text: str) -> list[Span]:
    """The spans of all URLs, without the punctuation after them."""
    if "://" not in text and "www." not in text:
        return []
    return [(match.start(), match.start() + len(match[0].rstrip(".,;:!?'*)]}"))) for match in _URL.finditer(text)]


def _find_secret_urls(text: str, urls: list[Span], regions: tuple[str, ...]) -> Iterator[Span]:
    for start, end in urls:
        url = text[start:end]
        if _USER_INFO.match(url) or _WEBHOOK.search(url) or any(_is_secret(*pair) for pair in _PARAMETER.findall(url)):
            yield start, end


def _is_secret(name: str, value: str) -> bool:
    return any(len(value) >= length and pattern.search(name) for pattern, length in _SECRETS)


# -- user names -------------------------------------------------------------------------------------------------------

_NAME = r"\w++(?:[.-]\w++)*+"
_USER = re.compile(
    r"<@[!&]?\w{1,64}(?:\|[^<>\n]{1,80})?>"  # Slack and Discord
    rf"|(?:(?<![\w/])/?u/|(?<!\w)u_|(?:(?<=\s)|(?<=^))/user/)(?P<reddit>[\w-]{{2,}})"
    # not a time or a rate, such as @5pm and @60fps
    rf"|(?<![\w@.])@(?!\d{{1,4}}[A-Za-z]{{0,3}}(?!\w)|\d+[.,:]\d){_NAME}(?:@[\w-]+(?:\.[\w-]+)+)?"
)
_PROFILE = re.compile(
    r"(?:reddit\.com/u(?:ser)?|linkedin\.com/in)/([\w.%-]+)"
    r"|(?:twitter|instagram|tiktok)\.com/(?!(?:home|search|hashtag|share|intent|explore|i|p|reel|reels|tv|stories|tag)\b)"
    r"([\w.]+)|(?:/home|/Users|\\Users)[/\\]([\w.-]+)",
    re.IGNORECASE,
)


def _find_users(text: str, urls: list[Span], regions: tuple[str, ...]) -> Iterator[Span]:
    for match in _USER.finditer(text):
        if len(match[0]) > 2 or match["reddit"]:
            yield match.span()
    for match in _PROFILE.finditer(text):
        yield match.span(match.lastindex or 0)


# -- numbers ----------------------------------------------------------------------------------------------------------

# In a lookahead, so that a group of digits before the number does not hide it.
_CARD = re.compile(
    r"(?<![\w.])(?<!\d-)(?=(\d{4}([ -]?)\d{4}\2\d{4}\2\d{4}(?:\2\d{3})?(?![\w])"
    r"|\d{4}([ -]?)\d{6}\3\d{4,5}(?!\w)|\d{13,19}(?!\w)))"
)
# Issuers and the lengths of their numbers: Visa, Mastercard, American Express, Discover, Diners Club, JCB, UnionPay,
# Maestro.
_ISSUERS = re.compile(
    r"4(?:\d{12}|\d{15}|\d{18})|5[1-5]\d{14}|2(?:22[1-9]|2[3-9]\d|[3-6]\d\d|7[01]\d|720)\d{12}|3[47]\d{13}"
    r"|6(?:011|4[4-9]\d|5\d\d)\d{12}|3(?:0[0-5]|[689]\d)\d{11}|35\d{14}|62\d{14,17}|(?:5[06-8]|6[0379])\d{10,17}"
)


def _find_cards(text: str, urls: list[Span], regions: tuple[str, ...]) -> Iterator[Span]:
    for match in _CARD.finditer(text):
        for written in dict.fromkeys([match[1], match[1][:19]]):  # a group of three may be the security code
            number = re.sub("[ -]", "", written)
            if _ISSUERS.fullmatch(number) and luhn.is_valid(number):
                yield match.start(), match.start() + len(written)
                break


_IBAN = re.compile(r"(?<!\w)[A-Za-z]{2}[0-9]{2}(?:[ -]?[A-Za-z0-9]){11,30}")


def _find_ibans(text: str, urls: list[Span], regions: tuple[str, ...]) -> Iterator[Span]:
    for match in _IBAN.finditer(text):
        # Words may follow, so the number ends at the last end of a group for which the checksum holds.
        for end in range(match.end(), match.start() + 14, -1):
            ends_here = end == len(text) or not text[end].isalnum()
            if ends_here and text[end - 1].isalnum() and iban.is_valid(text[match.start() : end].replace("-", "")):
                yield match.start(), end
                break


# A number of this many letters or digits is none of a phone.
_LONG_WORD = re.compile(r"\w{25,}")
_NOT_BEFORE = "/=&#%_@\\"
# What names a number of another kind, if the digits are not grouped as in a phone number.
_OTHER_NUMBER = re.compile(
    r"(?:[#№]|\b(?:order|invoice|ticket|case|tracking|item|serial|account|ref(?:erence)?)"
    r"(?:\s(?:no\.?|number|id|code))?\s?[:=]?)\s?$",
    re.IGNORECASE,
)
_BOOK_NUMBER = re.compile(r"\bIS[BS]N(?:-1[03])?\s?:?\s?$", re.IGNORECASE)
_OTHER_FORM = re.compile(r"\d{1,3}\.\d{5,}|\(?\d{14,}")  # a coordinate, or the number of something else
_CONTEXT = 32  # characters before a number


def _find_phone_numbers(text: str, urls: list[Span], regions: tuple[str, ...]) -> Iterator[Span]:
    """The spans of valid numbers in international form, and in the national form of each region, outside of URLs."""
    for start, end in urls:
        text = f"{text[:start]}{'|' * (end - start)}{text[end:]}"
    text = _LONG_WORD.sub(lambda match: "|" * len(match[0]), text)
    for region in regions:
        for match in phonenumbers.PhoneNumberMatcher(text, region):
            if not _is_other_number(text, match.start, match.raw_string):
                yield match.start, match.end


def _is_other_number(text: str, start: int, number: str) -> bool:
    """Whether what precedes a number shows that it is not a phone's."""
    before = text[max(0, start - _CONTEXT) : start]
    if before.endswith(tuple(_NOT_BEFORE)) or re.search(r"\d\.$", before) or _BOOK_NUMBER.search(before):
        return True
    return bool(_OTHER_FORM.fullmatch(number) or (number.isdigit() and _OTHER_NUMBER.search(before)))


_IPV4 = re.compile(r"(?<![\w.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?!\w|\.\w)")
_IPV6 = re.compile(r"(?<![\w:.])(?=[0-9a-fA-F.]*:)[0-9a-fA-F:.]{3,45}(?![\w:])")
_LOW = 20  # four numbers below this, such as 2.6.8.1, are rather a version
_VERSION = re.compile(r"(?:version|release|firmware|build|ver\.?|\bv\.?)[ :]{0,2}$", re.IGNORECASE)


def _find_addresses(text: str, urls: list[Span], regions: tuple[str, ...]) -> Iterator[Span]:
    for match in _IPV4.finditer(text):
        if _is_address(match[0]) and not _VERSION.search(text, max(0, match.start() - 12), match.start()):
            yield match.span()
    for match in _IPV6.finditer(text):
        candidate = match[0].rstrip(".")
        if candidate.count(":") > 1 and any(map(str.isdigit, candidate)) and _is_address(candidate):
            yield match.start(), match.start() + len(candidate)


def _is_address(text: str) -> bool:
    """Whether it is the address of some machine, rather than of this one or none, or the number of a version."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return False
    if address.version == 4 and max(address.packed) < _LOW:
        return False
    return not (address.is_loopback or address.is_unspecified)


# -- keys -------------------------------------------------------------------------------------------------------------

_KEY = re.compile(
    r"-----BEGIN [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----(?s:.*?)(?:-----END [A-Z ]{0,30}PRIVATE KEY(?: BLOCK)?-----|\Z)"
    r"|(?i:secret_access_key)[\"']?\s{0,3}[=:]\s{0,3}[\"']?[A-Za-z0-9/+=]{40}"
    r"|(?<![A-Za-z0-9_-])(?:A(?:KIA|SIA|GPA|IDA|ROA|IPA|NPA|NVA)[A-Z2-7]{16}(?![A-Za-z0-9])"
    r"|gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{22,}|glpat-[\w-]{20,}"
    r"|xox[a-z]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{10,}"
    r"|[sr]k_(?:live|test)_[A-Za-z0-9]{16,}|whsec_[A-Za-z0-9+/=]{24,}"
    r"|AIza[\w-]{35}|GOCSPX-[\w-]{20,}|ya29\.[\w-]{20,}"
    r"|sk-(?=[\w-]*\d)(?=[\w-]*[A-Z])[\w-]{20,}"
    r"|(?:hf|npm)_[A-Za-z0-9]{30,}|SG\.[\w-]{16,}\.[\w-]{16,}|pypi-[\w-]{50,}"
    r"|eyJ[\w-]{5,}\.eyJ[\w-]{5,}(?:\.[\w-]*)?"
    r"|\d{8,10}:AA[\w-]{32,})"
)


def _find_keys(text: str, urls: list[Span], regions: tuple[str, ...]) -> Iterator[Span]:
    return (match.span() for match in _KEY.finditer(text))


_SEVEN_DIGITS = r"\p{Nd}(?:[^\p{Nd}]{0,4}\p{Nd}){6}"
# Where spans of several kinds overlap, all of it is masked, as the kind that comes first here. The patterns are kept
# simple, so that RE2 searches for all of them in one pass.
KINDS = (
    Kind(
        "keys of services",
        "[KEY]",
        r"A(?:KIA|SIA|GPA|IDA|ROA|IPA|NPA|NVA)[A-Z2-7]|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|xapp-|"
        r"[sr]k_(?:live|test)_|whsec_|AIza|GOCSPX-|ya29\.|sk-|hf_|npm_|SG\.|pypi-|eyJ|PRIVATE KEY|:AA|"
        "(?i:secret_access_key)",
        _find_keys,
    ),
    Kind("URLs with credentials", "[URL]", r"://[^\s]*[@=]|www\.[^\s]*=|hooks\.slack|/webhooks/", _find_secret_urls),
    Kind("e-mail addresses", "[EMAIL]", r"[@＠]|(?i:[(\[{<]\s*at\s*[)\]}>]|\sdot\s)", _find_emails),
    Kind("IBANs", "[IBAN]", _SEVEN_DIGITS, _find_ibans),
    Kind("card numbers", "[CARD]", _SEVEN_DIGITS, _find_cards),
    Kind(
        "IP addresses",
        "[IP]",
        r"\p{Nd}[.．]\p{Nd}{1,3}[.．]\p{Nd}{1,3}[.．]\p{Nd}|:[0-9a-fA-F]*:[0-9a-fA-F]",
        _find_addresses,
    ),
    Kind("phone numbers", "[PHONE]", _SEVEN_DIGITS, _find_phone_numbers),
    Kind(
        "user names",
        "[USER]",
        r"[@＠]|u/|u_|/user/|(?i:linkedin\.com|twitter\.com|instagram\.com|tiktok\.com|/home/|/users/|\\users\\)",
        _find_users,
    ),
)
