"""Finds phone numbers, by Google's library of the numbers that each country assigns."""

import re
from collections.abc import Iterator

import phonenumbers

DEFAULT_REGIONS = ("US",)
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


def supported_regions() -> set[str]:
    """The countries whose numbers are known (ISO 3166, such as US)."""
    return set(phonenumbers.SUPPORTED_REGIONS)


def find_phone_numbers(text: str, urls: list[tuple[int, int]], regions: tuple[str, ...]) -> Iterator[tuple[int, int]]:
    """The spans of the valid numbers in international form, and in the national form of each region.

    Args:
        text: normalized (see `personal_data.plain`).
        urls: spans in which no number is one of a phone.
        regions: ISO 3166, such as US.
    """
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
