"""Reads dates and times as people and programs write them; the order of day and month is detected, never guessed."""

import math
import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, tzinfo
from functools import cache
from typing import Any

from modeling_convsim.files.errors import InputError
from modeling_convsim.files.texts import BrokenLineError

ORDERS = {"DMY": "day, month, year", "MDY": "month, day, year", "YMD": "year, month, day"}
FIRST_DATES = 1_000  # if none of these is a date of numbers, the others are not read to find the order
TWEET_TIME = "%a %b %d %H:%M:%S %z %Y"  # which `_parse_words` reads, too, but slowly
MAX_DATE = 60  # characters of a date with the name of a month
# A date and a time of day before or after a name, as patterns without groups.
DATE = (
    r"(?:\d{4}[./-]\d{1,2}[./-]\d{1,2}|\d{1,2}[./-]\d{1,2}[./-](?:\d{4}|\d\d)|\d{4}\. \d{1,2}\. \d{1,2}\.|"
    r"\d{4}[년年] ?\d{1,2}[월月] ?\d{1,2}[일日]|\d\d?\.?[ -][^\W\d]{3,9}\.?[ -]\d{2,4}|[^\W\d]{3,9}\.? \d{1,2}, \d{4})"
)
CLOCK = r"(?:[上下中午凌早清晚오][午前後晨上전후]\s?)?\d{1,2}:\d{2}(?::\d{2})?(?:\s?[AaPp]\.?\s?[Mm]\.?)?"
DATE_AND_CLOCK = rf"{DATE}(?:T|,? (?:at )?|(?<=日)){CLOCK}"
_COMPACT = re.compile(
    r"(?:19|20)\d\d(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?:[0-2]\d[0-5]\d(?:[0-5]\d)?)?"
)  # 20260331
MILLISECONDS = 1e11  # a larger number is a time in milliseconds: in seconds, it would be after the year 5138

# Hours before or after UTC; other names are those of several zones.
_ZONES = {
    **{"UTC": 0, "UT": 0, "GMT": 0, "Z": 0, "WET": 0, "WEST": 1, "CET": 1, "CEST": 2, "MEZ": 1, "MESZ": 2, "EET": 2},
    **{"EEST": 3, "MSK": 3, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6, "PST": -8, "PDT": -7},
    **{"AKST": -9, "AKDT": -8, "HST": -10, "JST": 9, "KST": 9, "AEST": 10, "AEDT": 11, "NZST": 12, "NZDT": 13},
}
NUMERIC = re.compile(
    r"(?P<first>\d{1,4})\.?(?P<mark>[./-])\s?(?P<second>\d{1,2})(?P=mark)\s?(?P<third>\d{1,4})\.?(?:\s?(?:г\.|BE|พ\.ศ\.))?"
    r"(?:[,،]?[T\s]\s*(?:(?P<word>[^\W\d]{1,3})\s?)?"
    r"(?P<hour>\d{1,2})[:.](?P<minute>\d{2})(?:[:.](?P<seconds>\d{2})(?:[.,]\d+)?)?"
    r"(?:\s*(?P<half>[ap]\.?\s?m\.?|[πμ]\.?\s?μ\.?|[قب]\.?\s?ظ\.?|[صم]|ö[ös]|sa|ch|pt?g)|\s?(?:uhr|ч\.|น\.))?)?"
    rf"(?:\s*(?P<zone>(?:UTC|GMT)\s?[+-]\d{{1,2}}(?::?\d\d)?|[+-]\d\d:?\d\d|{'|'.join(_ZONES)}))?",
    re.IGNORECASE,
)
# The halves of the day: before the hour in Chinese, Japanese and Korean; after the time in English, Greek, Persian,
# Arabic, Turkish, Vietnamese and Malay. Without points and spaces.
MORNINGS = {"上午", "凌晨", "早上", "清晨", "午前", "오전", "am", "πμ", "قظ", "ص", "öö", "sa", "pg"}
AFTERNOONS = {"下午", "中午", "晚上", "午後", "오후", "pm", "μμ", "بظ", "م", "ös", "ch", "ptg"}


class Dates:
    """Converts dates to seconds since 1970.

    Attributes:
        order: of day, month and year in dates of numbers, one of `ORDERS`; None if no date needs it.
        detected: where `readings` are noted for the report.
        readings: how dates were read that are neither seconds nor ISO 8601: a key of `ORDERS`, milliseconds, or digits.
        is_compact: whether numbers such as 20260331 are dates, which the first number says; None before it.
    """

    def __init__(self, order: str | None = None, detected: dict[str, str] | None = None) -> None:
        self.order, self.detected = order, {} if detected is None else detected
        self.readings: set[str] = set()
        self.is_compact: bool | None = None

    def seconds(self, value: Any) -> float:
        """A number, or a date (UTC if it has no time zone), in seconds since 1970.

        Raises:
            BrokenLineError: it is neither.
        """
        try:
            if isinstance(value, str | int) and (digits := str(value).strip()).isdecimal():
                value = self._parse_digits(digits)
            elif isinstance(value, str):
                value = self._parse(value.strip())
            elif isinstance(value, date) and not isinstance(value, datetime):
                value = datetime(value.year, value.month, value.day)
            if isinstance(value, datetime):
                return (value if value.tzinfo else value.replace(tzinfo=UTC)).timestamp()
            if math.isfinite(number := float(value)):
                if abs(number) < MILLISECONDS:
                    return number
                self._note("milliseconds")
                return number / 1000
        except (TypeError, ValueError, OverflowError):
            pass
        raise BrokenLineError(
            "wrong time", f"expected a number or a date such as 2026-03-31, found {type(value).__name__}"
        )

    def _note(self, reading: str) -> None:
        if reading not in self.readings:
            self.readings.add(reading)
            self.detected["dates"] = ", ".join(sorted(self.readings))

    def _parse_digits(self, digits: str) -> float | datetime:
        """A number, or a date in digits alone; raises ValueError for a number among such dates."""
        is_date = _COMPACT.fullmatch(digits) is not None
        if self.is_compact is None:
            self.is_compact = is_date
        if not self.is_compact:
            return float(digits)
        if not is_date:
            raise ValueError(digits)
        self._note("YYYYMMDD")
        return datetime.strptime(digits.ljust(14, "0"), "%Y%m%d%H%M%S")

    def _parse(self, text: str) -> float | datetime:
        text = re.sub(r"^(\d{4})[년年] ?(\d{1,2})[월月] ?(\d{1,2})[일日]\s?", r"\1-\2-\3 ", text).rstrip()
        text = re.sub(r"^(2[4-9]\d\d)-(\d\d)-", r"\1/\2/", text)  # a year of Thailand is none of ISO 8601
        for parse in (float, datetime.fromisoformat, lambda tweet: datetime.strptime(tweet, TWEET_TIME)):
            try:
                return parse(text)
            except ValueError:
                continue
        numbers = NUMERIC.fullmatch(text)
        return self._parse_numbers(numbers) if numbers else _parse_words(text)

    def _parse_numbers(self, match: re.Match[str]) -> datetime:
        """The time of a match of `NUMERIC`; raises ValueError if it does not exist in this order of day and month."""
        order = "YMD" if len(match["first"]) > 2 else self.order
        if not order:
            raise ValueError(match[0])
        if len(match["first"]) <= 2:
            self._note(order)
        parts = dict(zip(order, (int(match[name]) for name in ("first", "second", "third")), strict=True))
        year = parts["Y"] + (2000 if parts["Y"] < 70 else 1900 if parts["Y"] < 100 else 0)
        year -= 543 if year > 2400 else 0  # the calendar of Thailand
        hour = int(match["hour"] or 0)
        hour = 0 if hour == 24 else hour  # as LINE and browsers write midnight, at the beginning of the day
        half = re.sub(r"[.\s]", "", match["half"] or match["word"] or "").lower()
        if half in AFTERNOONS:
            hour = hour % 12 + 12
        elif half in MORNINGS:
            hour %= 12
        minute, seconds = int(match["minute"] or 0), int(match["seconds"] or 0)
        return datetime(year, parts["M"], parts["D"], hour, minute, min(seconds, 59), tzinfo=_zone(match["zone"]))


@cache
def _zone(text: str | None) -> tzinfo | None:
    """The zone of a match of `NUMERIC`: a name, or an offset such as +01:00 or GMT+1; UTC if there is none."""
    return _parse_words(f"1 Jan 2000 0:00 {text}").tzinfo if text else UTC


def _offset(name: str | None, offset: int | None) -> int:
    """The seconds of a time zone that a date names, or states as an offset.

    Raises:
        BrokenLineError: it is not known which zone that is.
    """
    if offset is None and name is not None:
        if name.upper() not in _ZONES:
            raise BrokenLineError(
                "wrong time", f"unknown time zone {name}; expected one of {', '.join(_ZONES)}, or +HH:MM"
            )
        return _ZONES[name.upper()] * 3600
    return offset or 0


def _parse_words(text: str) -> datetime:
    """A date with the name of a month; raises ValueError if its day, month or year is missing."""
    # Imported here, because few logs have such dates.
    from dateutil import parser

    text = re.sub(r"(?:UTC|GMT)\s?(?=[+-]\d)", "", text)  # of which the library takes the sign for the opposite
    if len(text) > MAX_DATE or not re.search(r"[^\W\d]{3}", text):
        raise ValueError(text)
    # What the text does not state comes from the default, so two defaults show that nothing is missing.
    defaults = (datetime(2001, 1, 1), datetime(2002, 2, 2))
    try:
        times = [parser.parse(text, default=default, tzinfos=_offset) for default in defaults]
    except (ArithmeticError, AttributeError, LookupError, TypeError) as error:  # some numbers confuse the library
        raise ValueError(text) from error
    if times[0] != times[1]:
        raise ValueError(text)
    return times[0]


def find_order(values: Iterable[Any], stated: str | None, location: str) -> str | None:
    """The order of day and month in dates of numbers; reads until a date decides it. None if the first ones need none.

    A number over 12 cannot be a month, and dates with dots have the day first in every country that writes them. If the
    year has two digits, such as in 26-01-03, the number that takes fewer values is the year.

    Args:
        values: the dates.
        stated: the order, if the user stated it.
        location: begins the message.

    Raises:
        InputError: each date may be read in both orders.
    """
    if stated:
        return stated
    undecided, year_first = "", ""  # a date that may be read in two orders, and one whose first number may be the year
    ends: list[tuple[int, int]] = []  # the first and third numbers of dates such as 26-01-03
    for number, value in enumerate(values):
        if number >= FIRST_DATES and (year_first or not undecided):
            break
        match = NUMERIC.fullmatch(value.strip()) if isinstance(value, str) else None
        if not match or len(match["first"]) > 2:
            continue
        first, second, third = (int(match[name]) for name in ("first", "second", "third"))
        is_short = match["mark"] == "-" and len(match["third"]) <= 2 and third <= 31
        if is_short:
            ends.append((first, third))
        if first > 31 or (first > 12 and not is_short):
            return "YMD" if first > 31 else "DMY"
        if first > 12:
            year_first = year_first or match[0]
        elif second > 12:
            return "MDY"
        undecided = undecided or match[0]
    if year_first:
        firsts, thirds = (len(set(numbers)) for numbers in zip(*ends, strict=True))
        if firsts == thirds:
            raise InputError(
                f"{location}: no date shows whether the day or the year comes first in dates such as {year_first}; "
                "state it with --date_order DMY or --date_order YMD"
            )
        return "YMD" if firsts < thirds else "DMY"
    if undecided and "." not in undecided.partition(" ")[0]:
        raise InputError(
            f"{location}: no date shows whether the day or the month comes first in dates such as {undecided}; state "
            "it with --date_order DMY or --date_order MDY"
        )
    return "DMY" if undecided else None
