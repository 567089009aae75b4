"""What is done to a text before it is judged (Markdown, language) and after (personal data masked).

HTML entities are always resolved first (`filters.measure`); the rest is asked for by option.
"""

import functools
import re

import phonenumbers
import pyarrow as pa
import pyarrow.compute as pc
from py3langid.langid import MODEL_FILE, LanguageIdentifier

# [label](address), ![label](address): the address may hold one level of brackets, as addresses of Wikipedia do.
_LINK = re.compile(r"!?\[([^\[\]]*)\]\((?:[^()\s]|\([^()\s]*\))*(?:\s+\"[^\"]*\")?\)")
_QUOTED_LINE = re.compile(r"^[ \t]{0,3}>.*(?:\n|$)", re.MULTILINE)
_BLANK_LINES = re.compile(r"\n\s*\n+")
SURE = 0.5  # probability from which the detector is believed: of short texts it is often not sure

MASKS = {
    "e-mail addresses": ("[EMAIL]", re.compile(r"[\w.+-]+@[\w-]+(?:\.[\w-]+)+")),
    "user names": ("[USER]", re.compile(r"(?<![\w/])/?u/[\w-]{2,}|(?<![\w@.])@\w{2,}|<@!?\w+>")),
}
PHONES = "phone numbers"
PHONE_MASK = "[PHONE]"
PHONE_REGION = "US"  # what a number without a country's code is read as; only its length matters here


def strip_markdown(text: str) -> str:
    """The text without quoted lines, with links replaced by their labels."""
    text, quoted = _QUOTED_LINE.subn("", text)
    if quoted:
        text = _BLANK_LINES.sub("\n\n", text).strip()
    return _LINK.sub(r"\1", text) if "](" in text else text


@functools.cache
def _detector() -> LanguageIdentifier:
    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


def languages() -> list[str]:
    """The ISO 639-1 codes of the languages that can be told apart."""
    return sorted(set(_detector().labels))


def detect_language(text: str) -> str:
    """The text's language as an ISO 639-1 code, "" where the detector (py3langid) is not sure of it."""
    code, probability = _detector().classify(text)
    return code if probability >= SURE else ""


def mask(texts: pa.StringArray) -> tuple[pa.StringArray, dict[str, int]]:
    """Put [EMAIL], [USER] and [PHONE] in the place of e-mail addresses, user names and phone numbers.

    User names are those written as such: @name, u/name, <@U0123>. What looks like a phone number in any country
    (`phonenumbers`, by its length) counts as one.

    Returns:
        The texts, and how many of each kind were masked.
    """
    counts = dict.fromkeys([*MASKS, PHONES], 0)
    # Most texts hold nothing of the kind: they are not looked at one by one.
    suspects = pc.match_substring_regex(texts, r"@|u/|\d(?:\D{0,3}\d){6}")
    if not suspects.true_count:
        return texts, counts
    masked = []
    for text in texts.filter(suspects).to_pylist():
        for kind, (sign, pattern) in MASKS.items():
            text, found = pattern.subn(sign, text)
            counts[kind] += found
        possible = phonenumbers.PhoneNumberMatcher(text, PHONE_REGION, leniency=phonenumbers.Leniency.POSSIBLE)
        for match in reversed(list(possible)):
            text = text[: match.start] + PHONE_MASK + text[match.end :]
            counts[PHONES] += 1
        masked.append(text)
    return pc.replace_with_mask(texts, suspects, pa.array(masked, texts.type)), counts
