"""Learns the names of a log's speakers, and replaces them in texts by `{name}`."""

import json
import re
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

NAME = "{name}"
_LISTS = json.loads(Path(__file__).with_name("letters.json").read_text(encoding="utf-8"))


def pattern(*names: str) -> str:
    """The alternatives of some lists of letters.json, in which a space stands for any white space."""
    return "|".join(form for name in names for form in _LISTS[name]).replace(" ", r"\s")


def words(name: str) -> frozenset[str]:
    """The words of a list of letters.json."""
    return frozenset(_LISTS[name])


TITLES = words("titles")
# @name, and Slack's <@U024BE7LH>; not a time or a rate, such as @5pm and @60fps
MENTION = r"(?:<@[!&]?\w{1,64}(?:\|[^<>\n]{1,80})?>|@(?!\d[\d.,:]*[A-Za-z]{0,3}(?!\w))\w+(?:[.-]\w+)*)"
_NO_PERSONS = words("no persons")
_TOKEN = re.compile(r"\w+(?:[-.]\w+)*", re.UNICODE)
# Punctuation, and the first bytes of that outside of ASCII
_TO_SPACES = bytes(32 if byte in b"!\"#$%&'()*+,-./:;<=>?@[\\]^`{|}~\xc2\xe2" else byte for byte in range(256))
_LAST_NAME = re.compile(r" ([^\W\d_][\w-]*(?:['’](?!s\b)[\w-]+)?)")
_IN_PARENTHESES = re.compile(r"\s*[(\[].*?[)\]]")
_HANDLE = re.compile(r"(?=.*[\d_])(?=.*[^\W\d_])[\w.-]{4,}")
_ADDRESSED = re.compile(rf"(?:^|\W)(?:{pattern('before a name', 'thanks')}),? $", re.IGNORECASE)
_INTRODUCED = re.compile(rf"(?:^|\W)(?:{pattern('introductions', 'other introductions')}) $", re.IGNORECASE)
_INSIDE = re.compile(r"[\w,;] ")  # what is before a word that begins no sentence
_NEXT = re.compile(r"\s*(?:[,.!?:](?!\w)|[–—-]\s|\n|$)")
# A name in one of so many messages, of at least so many others, is that of a brand.
COMMON, FEWEST_AUTHORS = 50, 10


def is_title_case(word: str) -> bool:
    """Whether a word has a capital at its start and is not written in capitals."""
    return word[:1].isupper() and not word.isupper()


class Names:
    """The names of speakers, in any case.

    Args:
        speakers: as the log spells them: `Tunde Bello`, `Bello, Tunde`, `tunde.bello@example.org`, `tunde_9`.

    Attributes:
        first: first names, and the only names of speakers with one.
        last: the other parts of names.
        handles: names with digits or underscores, which are no words.
        speakers: all names, as they are.
        ordinary: first names that are ordinary words, or names of products; they are replaced only in an address.
    """

    def __init__(self, speakers: Collection[str] = ()) -> None:
        self.first: set[str] = set()
        self.last: set[str] = set()
        self.handles: set[str] = set()
        self.speakers: set[str] = set()
        self.ordinary = set(words("ordinary names"))
        for speaker in speakers:
            self._add(speaker.strip().casefold())
        self.last -= self.first
        self._words = self.first | self.last | self.handles
        # A last name is replaced after a first name or a title only, and an ordinary word only if it is capitalized.
        quick = self.first | self.handles | (TITLES if self.last else set())
        spelled = {word for speaker in speakers for word in re.split(r"[\s,]+", speaker) if word.casefold() in quick}
        spelled |= {form for word in quick for form in (word, word.title(), word.upper())} - self.ordinary
        self._quick = {re.split("[.-]", word)[0].encode() for word in spelled}

    def _add(self, speaker: str) -> None:
        self.speakers.add(speaker)
        local, _, domain = _IN_PARENTHESES.sub("", speaker).partition("@")
        parts = re.split(r"[.]", local) if domain else local.split()
        if "," in local and len(parts) > 1:  # Bello, Tunde
            parts = " ".join(reversed(local.split(",", 1))).split()
        parts = [part.strip(".,()[]\"'") for part in parts]
        parts = [part for part in parts if part and part not in TITLES]
        if not parts or any(part.strip("0123456789") in _NO_PERSONS for part in re.split(r"[\s._-]+", " ".join(parts))):
            is_handle = _HANDLE.fullmatch(speaker) is not None
            (self.handles if is_handle else self.ordinary).update([speaker] if is_handle else parts)  # Nimbus Support
        elif len(parts) == 1 and _HANDLE.fullmatch(parts[0]):
            self.handles.add(parts[0])
        elif len(parts) <= 4 and all(len(part) > 1 and part.replace("-", "").isalpha() for part in parts[:1]):
            self.first.add(parts[0])
            self.last.update(part for part in parts[1:] if len(part) > 1)

    def learn(self, messages: Sequence[tuple[str | None, str]], in_letters: Counter[str]) -> None:
        """Find out which names texts use as ordinary words, or as those of brands.

        Args:
            messages: some speakers and texts.
            in_letters: the words of names of others in salutations and signatures, in lower case; such a name must be
                there more often than in sentences.
        """
        lower, capital, by_itself = Counter[str](), Counter[str](), Counter[str]()
        authors = Counter((speaker or "").casefold() for speaker, _ in messages)
        mentioned_by: dict[str, set[str]] = {}
        for speaker, text in messages:
            own = (speaker or "").casefold()
            for match in self._mentions(text) if self.may_be_in(text) else ():
                key, before = match[0].casefold(), text[max(match.start() - 2, 0) : match.start()]
                if _is_addressed(text, match.start(), match.end()) or not _INSIDE.fullmatch(before):
                    continue
                if match[0].islower():
                    lower[key] += text[match.end() : match.end() + 2].strip(" ").isalpha()
                elif key == own:
                    by_itself[key] += 1
                elif key not in own:
                    capital[key] += 1
                    mentioned_by.setdefault(key, set()).add(own)
        self.ordinary |= {key for key, count in lower.items() if count >= max(capital[key], 1)} - self.handles
        self.ordinary |= {key for key, count in in_letters.items() if capital[key] >= count}
        # A brand is mentioned by many, and by its own account, as no person is.
        self.ordinary |= {key for key, count in by_itself.items() if count > 2 and count * COMMON > authors[key]}
        self.ordinary |= {
            key
            for key, others in mentioned_by.items()
            if len(others) >= FEWEST_AUTHORS and capital[key] * COMMON >= len(messages)
        }
        self._quick -= {word.encode() for word in self.ordinary}

    def may_be_in(self, text: str) -> bool:
        """Whether a text may have a name; a quick answer for the many that have none."""
        return bool(self._quick) and not self._quick.isdisjoint(text.encode().translate(_TO_SPACES).split())

    def knows(self, word: str) -> bool:
        """Whether a word is a part of a speaker's name."""
        return word.casefold().lstrip("@") in self._words

    def is_speaker(self, name: str) -> bool:
        """Whether it is a speaker's whole name, or the first name."""
        return name.casefold() in self.speakers or name.casefold() in self.first

    def is_person(self, name: str) -> bool:
        """Whether it is a speaker's name, and no ordinary word."""
        key = name.casefold()
        return key not in self.ordinary and (key in self.first or key in self.handles)

    def is_signed(self, line: str) -> bool:
        """Whether a line is a speaker's name, and nothing else."""
        first, *others = line.split()
        is_name = self.is_person(first) or (is_title_case(first) and first.casefold() in self.first)
        return is_name and all(map(self.knows, others))

    def _mentions(self, text: str) -> Iterator[re.Match[str]]:
        return (match for match in _TOKEN.finditer(text) if match[0].casefold() in self._words)

    def replace(self, text: str) -> tuple[str, int]:
        """The text with names replaced, and their number."""
        if not self.may_be_in(text):
            return text, 0
        parts, position, count = [], 0, 0
        for match in self._mentions(text):
            if match.start() < position:
                continue
            start = self._start(text, match)
            if start is not None:
                parts += [text[position : max(start, position)], NAME]
                position, count = self.skip_last_names(text, match.end()), count + 1
        return "".join([*parts, text[position:]]), count

    def _start(self, text: str, match: re.Match[str]) -> int | None:
        """Where a name begins, with its title; None if the word is not used as a name."""
        word, key, start = match[0], match[0].casefold(), match.start()
        before, after = text[:start][-1:], text[match.end() : match.end() + 2]
        if before == "@" and not text[: start - 1][-1:].isalnum():
            return start - 1
        if (before and before in "/\\.#_-@{=&?") or after[:1] in ("@", "/", "\\", "_", "}"):
            return None
        if key in self.handles:
            return None if key in self.ordinary else start
        title = re.search(r"(\w+)\.? $", text[max(start - 16, 0) : start])
        if title and title[1].casefold() in TITLES and word[0].isupper():
            return start - len(title[0])
        if key not in self.first:
            return None
        # An ordinary word must be addressed and capitalized to be a name; another word, one of the two.
        # A last name that no speaker has is that of another person, or of a product.
        following = _LAST_NAME.match(text, match.end())
        is_other = following and is_title_case(following[1]) and following[1].casefold() not in self.last
        evidence = (word[0].isupper() and not is_other) + _is_addressed(text, start, match.end())
        return start if evidence > (key in self.ordinary) else None

    def skip_last_names(self, text: str, end: int) -> int:
        """Where a name that ends at `end` ends with the last names after it."""
        while (match := _LAST_NAME.match(text, end)) and match[1][0].isupper() and match[1].casefold() in self.last:
            end = match.end()
        return end


def _is_addressed(text: str, start: int, end: int) -> bool:
    """Whether a word is who is greeted, thanked or introduced, or follows the last comma of a sentence."""
    before = text[max(start - 24, 0) : start]
    if _INTRODUCED.search(before):
        return text[start].isupper()
    last = re.search(r"(\w+), $", before)
    is_last = last and last[1].islower() and re.compile(r"[.!]|\s*(?:\n|$)").match(text, end)
    return bool(_NEXT.match(text, end) and (is_last or _ADDRESSED.search(before)))
