from datetime import UTC, date, datetime

import pytest

from data_scripts.chats.dates import Dates, find_order
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.texts import BrokenLineError


def at(*parts: int) -> float:
    return datetime(*parts, tzinfo=UTC).timestamp()


@pytest.mark.parametrize(
    ("order", "text", "expected"),
    [
        (None, "2026-03-01T09:00:00Z", at(2026, 3, 1, 9)),
        (None, "2026-03-01 09:00:00+02:00", at(2026, 3, 1, 7)),
        (None, "2026-03-01 09:05:01 UTC", at(2026, 3, 1, 9, 5, 1)),
        (None, "2026-03-01T09:05:01.500Z", at(2026, 3, 1, 9, 5, 1) + 0.5),
        ("DMY", "01/03/2026 00:03", at(2026, 3, 1, 0, 3)),
        ("MDY", "01/03/2026 00:03", at(2026, 1, 3, 0, 3)),
        ("YMD", "26/03/01", at(2026, 3, 1)),
        ("DMY", "1.3.26, 18:05:07", at(2026, 3, 1, 18, 5, 7)),
        ("DMY", "01-03-1998 18.05", at(1998, 3, 1, 18, 5)),
        ("MDY", "3/1/26, 12:05\u202fAM", at(2026, 3, 1, 0, 5)),
        ("MDY", "3/1/26 12:05 p. m.", at(2026, 3, 1, 12, 5)),
        ("MDY", "3/1/69 6:05 PM", at(2069, 3, 1, 18, 5)),
        (None, "2026/3/1 下午6:05", at(2026, 3, 1, 18, 5)),
        ("DMY", "٠١/٠٣/٢٠٢٦، ٦:٠٥ م", at(2026, 3, 1, 18, 5)),
        ("DMY", "1.03.26 г., 18:05 ч.", at(2026, 3, 1, 18, 5)),
        ("MDY", "3/1/70", at(1970, 3, 1)),
        ("DMY", "29/2/2567 24:01", at(2024, 2, 29, 0, 1)),
        (None, "2026년 3월 1일 오후 6:05", at(2026, 3, 1, 18, 5)),
        ("DMY", "01/03/2026 18:05 -0130", at(2026, 3, 1, 19, 35)),
        (None, "Mar 1, 2026 2:05 PM", at(2026, 3, 1, 14, 5)),
        (None, "Sun, 01 Mar 2026 09:00:00 +0100", at(2026, 3, 1, 8)),
        (None, "Tue Oct 31 22:10:47 +0000 2017", at(2017, 10, 31, 22, 10, 47)),
        (None, "Mar 1, 2026 10:00 AM EST", at(2026, 3, 1, 15)),
        ("DMY", "01/03/2026 10:00 CEST", at(2026, 3, 1, 8)),
        ("DMY", "01/03/2026 10:00 GMT+3", at(2026, 3, 1, 7)),
        (None, "Mar 1, 2026 10:00 UTC-3", at(2026, 3, 1, 13)),
        (None, "20260301", at(2026, 3, 1)),
        (None, 20260301, at(2026, 3, 1)),
        (None, "20260301180507", at(2026, 3, 1, 18, 5, 7)),
        (None, "1772359200", 1772359200),
        (None, 1772359200.5, 1772359200.5),
        (None, "1772359200500", 1772359200.5),  # milliseconds
        (None, -1e12, -1e9),
        ("DMY", "31/12/2016 23:59:60", at(2016, 12, 31, 23, 59, 59)),  # a leap second
        (None, datetime(2026, 3, 1, 9), at(2026, 3, 1, 9)),
        (None, date(2026, 3, 1), at(2026, 3, 1)),
    ],
)
def test_a_date_becomes_the_seconds_since_1970(order, text, expected):
    assert Dates(order).seconds(text) == expected


@pytest.mark.parametrize(
    ("text", "hour"),
    [
        *((f"2026/3/1 {word}6:05", 6) for word in ("上午", "凌晨", "早上", "清晨", "午前", "오전")),
        *((f"2026/3/1 {word} 6:05", 18) for word in ("下午", "中午", "晚上", "午後", "오후")),
        *((f"2026/3/1 6:05 {word}", 6) for word in ("am", "a. m.", "πμ", "ق.ظ", "ص", "öö", "sa", "pg")),
        *((f"2026/3/1 6:05 {word}", 18) for word in ("PM", "p.m.", "μμ", "ب.ظ", "م", "ÖS", "ch", "ptg")),
    ],
)
def test_the_halves_of_the_day_are_read_in_several_languages(text, hour):
    assert Dates().seconds(text) == at(2026, 3, 1, hour, 5)


@pytest.mark.parametrize(
    ("order", "value"),
    [
        (None, "01/03/2026"),  # in which order?
        ("DMY", "01/13/2026"),
        ("MDY", "13/01/2026"),
        ("DMY", "31.02.2026"),
        ("DMY", "01/03/2026 25:00"),
        (None, "noon"),
        (None, "March 3"),
        (None, "order 7 of Mar 3, 2026"),
        (None, "nan"),
        (None, ""),
        (None, None),
    ],
)
def test_what_is_no_date_is_a_wrong_time(order, value):
    with pytest.raises(BrokenLineError) as error:
        Dates(order).seconds(value)
    assert error.value.args[0] == "wrong time"


def test_a_time_zone_that_is_not_known_is_refused_by_name():
    with pytest.raises(BrokenLineError) as error:
        Dates().seconds("Mar 1, 2026 10:00 AM IST")  # of India, Israel or Ireland
    assert error.value.args[1].startswith("unknown time zone IST; expected one of UTC, ")


def test_the_first_number_says_whether_digits_are_dates():
    dates, positions = Dates(), Dates()
    assert dates.seconds("20260301") == at(2026, 3, 1) and dates.readings == {"YYYYMMDD"}
    with pytest.raises(BrokenLineError):
        dates.seconds("20260399")
    assert [positions.seconds(number) for number in (7, 20260301)] == [7, 20260301]


def test_unusual_readings_are_noted():
    reader = Dates("DMY")
    reader.seconds("2026-03-01T09:00:00Z")
    assert not reader.readings
    reader.seconds("2026/03/01")
    assert not reader.readings
    for text in ("01/03/2026", 1772359200500):
        reader.seconds(text)
    assert reader.readings == {"DMY", "milliseconds"}


@pytest.mark.parametrize(
    ("values", "order"),
    [
        (["01/03/2026", None, 3, "soon", "13/03/2026"], "DMY"),
        (["01/03/2026", "03/13/2026 10:00"], "MDY"),
        (["01/12/2026", "13/01/2026"], "DMY"),  # 12 may be a month
        (["2026/03/01", "01/03/2026", "13/03/2026"], "DMY"),
        (["99/03/01"], "YMD"),
        (["01.03.2026 10.30"], "DMY"),  # nobody writes dots between month and day
        (["03.13.2026"], "MDY"),
        (["2026-03-01T10:00:00", "Mar 1, 2026"], None),
        ([], None),
        # Of two numbers that may be the year, the one that takes fewer values is.
        (["26-01-03", "26-01-04"], "YMD"),
        (["26-01-03 10:00", "26-02-03", "26-02-04"], "YMD"),
        (["03-01-26", "14-01-26"], "DMY"),
        (["03-01-26", "03-14-26"], "MDY"),
        (["26-01-03", "32-01-03"], "YMD"),
        (["14-01-2026"], "DMY"),
        (["14/03/26"], "DMY"),
        (["14-03-45"], "DMY"),
        # The first thousand decide whether the others are read.
        (["01/03/2026"] * 1000 + ["03/13/2026"], "MDY"),
        (["soon"] * 999 + ["03/13/2026"], "MDY"),
        (["soon"] * 1000 + ["03/13/2026"], None),
        (["26-01-03", "26-01-04"] * 500 + ["14/03/2026"], "YMD"),
    ],
)
def test_the_order_of_day_and_month_is_that_of_the_first_date_that_shows_it(values, order):
    assert find_order(values, None, "c.csv") == order


def test_a_year_that_no_date_shows_is_asked_for():
    message = r"c.csv: no date shows whether the day or the year .* such as 26-01-03; .* DMY or --date_order YMD"
    for values in (["26-01-03"], ["26-01-03", "25-01-04"]):
        with pytest.raises(InputError, match=message):
            find_order(values, None, "c.csv")
    assert find_order(["26-01-03"], "YMD", "c.csv") == "YMD"
