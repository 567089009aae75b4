"""Recognizes what chat programs write instead of a message or add to its text, in many languages.

An export has the language of the phone. In notices.json, the lists named after kinds are WhatsApp's phrases, which are
whole texts without case, invisible marks and a final point. `patterns` are regular expressions of whole texts, by
program and kind, in which `{call}` stands for those phrases; `added` are those of what a program adds to a text.
In Messenger's phrases, `{}` stands for a name, or any other words.
"""

import json
import re
import unicodedata
from collections.abc import Collection, Iterable
from functools import cache
from pathlib import Path

MARKS = "\u200e\u200f\u202a\u202c\ufeff"  # invisible, of the direction of writing
_INVISIBLE = re.compile(f"[{MARKS}\u064b-\u0652]")  # Arabic's short vowels are optional
_POINTS = " \n\xa0\u202f.。।۔"
MAX_NOTICE = 200  # characters of one of Messenger's phrases


def _plain(text: str) -> str:
    return _INVISIBLE.sub("", unicodedata.normalize("NFC", text)).strip(_POINTS).casefold()


def _any_of(patterns: Iterable[str]) -> re.Pattern[str]:
    """A pattern of all of these, with the phrases of a kind in place of its name in braces."""
    joined = "|".join(f"(?:{pattern})" for pattern in patterns)
    filled = re.sub(r"\{([a-z ]+)\}", lambda kind: "|".join(map(re.escape, _PHRASES[kind[1]])), joined)
    return re.compile(filled, re.IGNORECASE)


_NOTICES = json.loads(Path(__file__).with_name("notices.json").read_text(encoding="utf-8"))
_PATTERNS, _ADDED = _NOTICES.pop("patterns"), _NOTICES.pop("added")
# What a person tells of somebody without a name, or in the middle of a sentence
_NO_NAME = "|".join(_NOTICES.pop("no names"))
_PHRASES = {kind: frozenset(map(_plain, phrases)) for kind, phrases in _NOTICES.items()}


@cache  # compiled for the programs of the logs that are read
def _patterns(program: str) -> dict[str, re.Pattern[str]]:
    return {kind: _any_of(patterns) for kind, patterns in _PATTERNS.get(program, {}).items()}


@cache
def _added(program: str) -> re.Pattern[str]:
    return _any_of(_ADDED[program])


def notice_kind(text: str, *programs: str) -> str | None:
    """The kind of what one of the programs wrote in place of a message; None for a message.

    Notices of deleted messages are recognized for all programs.
    """
    plain = _plain(text)
    for program in programs:
        for kind, pattern in _patterns(program).items():
            if pattern.fullmatch(plain):
                return kind
    return "deleted" if plain in _PHRASES["deleted"] else None


def without_added(text: str, *programs: str) -> str:
    """A text without what the programs add to it, such as the message that it answers, or reactions to it."""
    for program in filter(_ADDED.__contains__, programs):
        text = _added(program).sub("", text)
    return text


@cache
def _templates(kind: str) -> re.Pattern[str]:
    phrases = [re.escape(phrase).replace(r"\{\}", r"[^?!\n]{0,80}") for phrase in _PHRASES[kind]]
    named = "|".join(phrase.partition(r"\ ")[2] for phrase in phrases if phrase.startswith("["))
    others = "|".join(phrase for phrase in phrases if not phrase.startswith("[")) or "(?!)"
    return re.compile(rf"(?!(?:{_NO_NAME})\b)(?P<name>[^?!…,:;\n]{{1,60}}?) (?:{named})|{others}")


def is_messenger_notice(text: str, others: Collection[str]) -> bool:
    """Whether Messenger or Instagram wrote a text, such as `Ben named the group Garden.`

    Args:
        text: of a message.
        others: the names of those in the chat who did not send it, since the sender may tell what they did.
    """
    plain = _plain(text) if len(text) <= MAX_NOTICE else ""
    if _templates("messenger").fullmatch(plain):
        return True
    match = _templates("messenger, by the sender").fullmatch(plain)
    return match is not None and match["name"] not in {
        part for name in others for part in (_plain(name), _plain(name.partition(" ")[0]))
    }
