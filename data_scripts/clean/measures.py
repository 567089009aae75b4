"""Computes the columns of the filter rules: the cleaned text, its numbers of characters and letters, its language.

Engines count the characters and letters of some scripts differently, so they are counted here, while reading.
"""

from data_scripts.clean.filters import MAX_CHARACTERS, MIN_LETTERS_PERCENT, PAPER, Filters, is_placeholder
from data_scripts.clean.text import detect_language, strip_markdown


def measure(text: str, filters: Filters = PAPER) -> tuple[str, int, int]:
    """The text, its number of Unicode characters, and how many of them are letters."""
    if filters.markdown:
        text = strip_markdown(text)
    return text, len(text), sum(map(str.isalpha, text))


def measure_language(text: str, characters: int, alphabetic: int, filters: Filters) -> str:
    """The language of a text, or "" if the detector is not sure or another rule removes the text anyway."""
    maximum = MAX_CHARACTERS.get(filters.rules)
    too_long = maximum is not None and characters >= maximum
    no_letters = filters.rules == "paper" and alphabetic * 100 <= characters * MIN_LETTERS_PERCENT
    return "" if too_long or no_letters or is_placeholder(text) else detect_language(text)
