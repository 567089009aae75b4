"""Masks personal data in texts: e-mail addresses, user names and phone numbers."""

import re

import phonenumbers
import pyarrow as pa
import pyarrow.compute as pc

MASKS = {
    "e-mail addresses": ("[EMAIL]", re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")),
    "user names": ("[USER]", re.compile(r"(?<![\w/])/?u/[\w-]{2,}|(?<![\w@.])@\w{2,}|<@!?\w+>")),
}
PHONES = "phone numbers"
PHONE_MASK = "[PHONE]"
PHONE_REGION = "US"  # assumed for numbers without a country code; only the length of a number is checked


def mask_personal_data(texts: pa.StringArray) -> tuple[pa.StringArray, dict[str, int]]:
    """Replace e-mail addresses, user names and phone numbers by [EMAIL], [USER] and [PHONE].

    User names are recognized by their notation: @name, u/name, <@U0123>. A number whose length is that of a phone
    number in any country (`phonenumbers`) is treated as a phone number.

    Returns:
        The masked texts, and the number of replacements by kind.
    """
    counts = dict.fromkeys([*MASKS, PHONES], 0)
    # Most texts cannot contain any of these and are skipped.
    suspects = pc.match_substring_regex(texts, r"@|u/|\d(?:\D{0,3}\d){6}")
    if not suspects.true_count:
        return texts, counts
    masked = []
    for text in texts.filter(suspects).to_pylist():
        for kind, (mask, pattern) in MASKS.items():
            text, replaced = pattern.subn(mask, text)
            counts[kind] += replaced
        possible = phonenumbers.PhoneNumberMatcher(text, PHONE_REGION, leniency=phonenumbers.Leniency.POSSIBLE)
        for match in reversed(list(possible)):
            text = text[: match.start] + PHONE_MASK + text[match.end :]
            counts[PHONES] += 1
        masked.append(text)
    return pc.replace_with_mask(texts, suspects, pa.array(masked, texts.type)), counts
