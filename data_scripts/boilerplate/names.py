"""The names of a log's speakers."""

import json
import re
from collections.abc import Collection
from pathlib import Path

NAME = "[name]"
_LISTS = json.loads(Path(__file__).with_name("letters.json").read_text(encoding="utf-8"))


def pattern(*names: str) -> str:
    """The alternatives of some lists of letters.json, in which a space stands for any white space."""
    return "|".join(form for name in names for form in _LISTS[name]).replace(" ", r"\s")


def words(name: str) -> frozenset[str]:
    """The words of a list of letters.json."""
    return frozenset(_LISTS[name])


TITLES = words("titles")
# @name, @115712, and Slack's <@U024BE7LH>; not a time or a rate, such as @5pm, @60fps and @1,000
MENTION = r"(?:<@[!&]?\w{1,64}(?:\|[^<>\n]{1,80})?>|@(?!\d{1,4}[A-Za-z]{0,3}(?!\w)|\d+[.,:]\d)\w+(?:[.-]\w+)*)"
ADDRESSEE = re.compile(rf"\A\s*\.?(?P<name>{MENTION})(?:[,:;]|\s)+(?:(?:{MENTION}|@\d+)(?:[,:;]|\s)+)*(?:[–—-]+\s+)?")
_NO_PERSONS = words("no persons")
_LAST_NAME = re.compile(r" ([^\W\d_][\w-]*(?:['’](?!s\b)[\w-]+)?)")
_IN_PARENTHESES = re.compile(r"\s*[(\[].*?[)\]]")
_HANDLE = re.compile(r"(?=.*[\d_])(?=.*[^\W\d_])[\w.-]{4,}")
_WORD = re.compile(r"\w+")


def is_title_case(word: str) -> bool:
    """Whether a word has a capital at its start and is not written in capitals."""
    return word[:1].isupper() and not word.isupper()


class Names:
    """The names of speakers, in any case.

    Args:
        speakers: as the log spells them: `Tunde Bello`, `Bello, Tunde`, `tunde.bello@example.org`, `tunde_9`.

    Attributes:
        first: first names, and the only names of speakers with one, such as handles.
        last: the other parts of names.
        speakers: all names, as they are.
        ordinary: names that are ordinary words, too, or those of companies.
    """

    def __init__(self, speakers: Collection[str] = ()) -> None:
        self.first: set[str] = set()
        self.last: set[str] = set()
        self.speakers: set[str] = set()
        self.ordinary = set(words("ordinary names"))
        for speaker in speakers:
            self._add(speaker.strip().casefold())
        self._words = self.first | self.last
        self._beginnings = {re.split("[.-]", word)[0] for word in self._words}

    def _add(self, speaker: str) -> None:
        self.speakers.add(speaker)
        local, _, domain = _IN_PARENTHESES.sub("", speaker).partition("@")
        parts = re.split(r"[.]", local) if domain else local.split()
        if "," in local and len(parts) > 1:  # Bello, Tunde
            parts = " ".join(reversed(local.split(",", 1))).split()
        parts = [part.strip(".,()[]\"'") for part in parts]
        parts = [part for part in parts if part and part not in TITLES]
        self.speakers.add(" ".join(parts))
        if not parts or any(part.strip("0123456789") in _NO_PERSONS for part in re.split(r"[\s._-]+", " ".join(parts))):
            if _HANDLE.fullmatch(speaker):
                self.first.add(speaker)
            else:
                self.ordinary.update(parts)  # Nimbus Support
        elif len(parts) == 1 and _HANDLE.fullmatch(parts[0]):
            self.first.add(parts[0])
        elif len(parts) <= 4 and all(len(part) > 1 and part.replace("-", "").isalpha() for part in parts[:1]):
            self.first.add(parts[0])
            self.last.update(part for part in parts[1:] if len(part) > 1)

    def may_be_in(self, text: str) -> bool:
        """Whether a text may have a name; a quick answer for the many that have none."""
        return not self._beginnings.isdisjoint(_WORD.findall(text.casefold()))

    def knows(self, word: str) -> bool:
        """Whether a word is a part of a speaker's name."""
        return word.casefold().lstrip("@") in self._words

    def is_speaker(self, name: str) -> bool:
        """Whether it is a speaker's whole name, or the first name."""
        return name.casefold() in self.speakers or name.casefold() in self.first

    def is_person(self, name: str) -> bool:
        """Whether it is a speaker's name, and no ordinary word."""
        key = name.casefold()
        return key in self.first and key not in self.ordinary

    def is_named(self, words: str) -> bool:
        """Whether some words are a speaker's name, and nothing else; an ordinary word must have a capital."""
        first, *others = words.split()
        is_first = self.is_person(first) or (is_title_case(first) and first.casefold() in self.first)
        return is_first and all(map(self.knows, others))

    def skip_last_names(self, text: str, start: int, end: int) -> int:
        """Where a name that is at `start:end` ends with the last names after it."""
        while (match := _LAST_NAME.match(text, end)) and match[1][0].isupper() and match[1].casefold() in self.last:
            if match[1].casefold() in self.first and text[start : match.end()].casefold() not in self.speakers:
                break  # after "@Tunde", "Lee" may be somebody else
            end = match.end()
        return end
