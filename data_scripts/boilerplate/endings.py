"""Finds recurring ends of an author's messages: initials or a name (`^MB`, `-Becky`), part markers (1/2)."""

import re
from collections import Counter
from collections.abc import Iterator

from data_scripts.boilerplate.names import ADDRESSEE, Names, pattern, words
from data_scripts.boilerplate.quotations import without_quotations

SIGNATURES, PARTS = "initials and names at the end", "marks of parts"
FEWEST = 3  # times that something recurs
SHARE, SHARE_SIGNED = 0.1, 0.2  # of an author's messages: with one signature; with any that has a mark
SHARE_CARETS = 0.01  # of all messages with initials such as ^MB, if those that do not recur are initials, too
MOST_CHARACTERS, MOST_LINES = 150, 10  # of an ending
_NOBODY = Names()
_MARK = r"[\^*/~=|,–—-]"
_WORD = rf"(?:(?:[^\W\d_]\.)+|(?!(?i:{pattern('thanks')})-)[^\W\d_][\w'’&/-]*)"
_LINKS = r"(?P<links>(?:\s*https?://\S+)*)\s*\Z"
_ENDING = re.compile(
    # A name without a mark follows a sentence or a number, or is a line.
    rf"\s*(?:(?P<mark>{_MARK}{{1,2}})[ \t]?|(?<=[.!?…)\d][ \t])[ \t]*|(?<=\n)[ \t]*|(?<=[。！？]))"
    rf"(?P<name>{_WORD}(?: {_WORD}){{0,3}})[\s.!]*{_LINKS}"
)
# Not after a part's number, as in 2/2^MB
_ADJOINS = re.compile(r"(?:[^\W\d]|(?<![1-9]/)\d|['\"`(\[{<|\\])")
_NUMBER = r"[(\[]?(?P<number>[1-9]/[2-9])[)\]]?"
_PART_AT_START = re.compile(rf"{_NUMBER}(?![\w/]):?\s*")
_PART_AT_END = re.compile(rf"\s*(?<![\w/$€£])(?<!\d[.,]){_NUMBER}[\s.,]*{_LINKS}")  # not 11/2, $1/2 and 0.1/2
_FIRST_ELLIPSIS, _LAST_ELLIPSIS = re.compile(r"\A(?:\.{2,}|…)\s*"), re.compile(r"\s*(?:\.{2,}|…)\s*\Z")
_NO_SIGNATURE = re.compile(r"\?|^\W*p\.?\s?s\b", re.IGNORECASE)
_SMALL = words("joining") | words("in signatures")
_NO_INITIALS = words("no initials")
_NO_NAMES = words("no names") | _NO_INITIALS
_NAME = r"\p{Lu}\S*(?: \p{Lu}\S*){0,2}"
# RE2 finds every text with an ending, and few others.
SUSPECT = (
    rf"(?:{_MARK}[ \t]?(?:\pL\S?|{_NAME})|\^\pL\S*|(?:[.!?…)\d][ \t]+|[。！？]){_NAME})[\s.!]*(?:https?://\S+\s*)*\z"
    r"|\n[^\n]+\s*\z|(?:\A|[^\d/])[1-9]/[2-9](?:[^\d/]|\z)"
)


class Endings:
    """The signatures and the marks of parts of each author, or of each side of ready pairs.

    Attributes:
        messages: how many each author wrote.
    """

    def __init__(self) -> None:
        self.messages: Counter[str | None] = Counter()
        self._counts: Counter[tuple[str | None, str, str]] = Counter()  # of marks, and of names
        self._carets = 0  # of all authors
        self._seen: dict[tuple[str | None, str], set[str]] = {}  # the last parts, by their number
        self._divided: set[tuple[str | None, str]] = set()

    def add(self, author: str | None, text: str) -> None:
        """Count the ending of a message that `SUSPECT` matches."""
        text = ADDRESSEE.sub("", without_quotations(text.replace("\r\n", "\n")).strip())
        self._counts.update((author, "block", block) for _, block in _blocks(text))
        text, number = _split_part(text)
        ending = _find_ending(text)
        if ending and _may_sign(ending):
            mark, name = _mark(ending), ending["name"].casefold()
            keys = [("marked", name), ("mark", mark), ("mark", "")] if mark else [("bare", name)]
            self._counts.update((author, *key) for key in keys)
            self._carets += mark == "^"
        if number := number or _split_part(text[: ending.start()] if ending else text)[1]:
            part, _, count = number.partition("/")
            seen = self._seen.get((author, count), set())
            seen = self._seen[author, count] = {part} if part in seen else seen | {part}
            # Who gives four stars and then five divides nothing.
            if count in seen and len(seen) >= (2 if count < "5" else int(count)):
                self._divided |= {(author, count)}

    def without_block(self, text: str, author: str | None) -> str:
        """The text without lines at its end that recur, or begin with the author's name."""
        for before, block in _blocks(text):
            is_named = author and block.casefold().startswith(f"{author} ".casefold())
            if is_named or self._recurs(author, self._counts[author, "block", block]):
                text = before
        return text

    def without_part(self, text: str, author: str | None) -> str:
        """The text without the mark of a part, if the author, or several others, divide texts so."""
        rest, number = _split_part(text)
        divided = sum(each[1] == number[-1:] for each in self._divided)
        if divided < FEWEST and (author, number[-1:]) not in self._divided:
            return text
        if number[0] != "1":
            rest = _FIRST_ELLIPSIS.sub("", rest)
        return rest if number[0] == number[-1] else _LAST_ELLIPSIS.sub("", rest)

    def without_signature(self, text: str, author: str | None, names: Names) -> str:
        """The text without a speaker's name, or a name or initials as they recur with the author, at its end."""
        ending = _find_ending(text)
        if not ending or not self._is_signature(ending, author, names):
            return text
        return f"{text[: ending.start()]} {ending['links'].strip()}"

    def _is_signature(self, ending: re.Match[str], author: str | None, names: Names) -> bool:
        mark, name, adjoins = _mark(ending), ending["name"].casefold(), _adjoins(ending)
        if author and set(name.rstrip(".").split()) <= set(author.casefold().split()) and (mark == "," or not adjoins):
            return True
        if mark in ("", "-", "~") and not adjoins and names.is_named(ending["name"].rstrip(".")):
            return True
        marked, signed = self._counts[author, "marked", name], self._counts[author, "mark", ""]
        signs = signed >= FEWEST and signed >= SHARE_SIGNED * self.messages[author]
        if not _may_sign(ending):
            return signs and marked > 1 and mark not in ("", "/", "=")
        if mark == "^" and self._carets >= max(FEWEST, SHARE_CARETS * self.messages.total()):
            return True
        if self._recurs(author, marked + self._counts[author, "bare", name]):
            return True
        return signs and (marked > 1 or (self._counts[author, "mark", mark] >= FEWEST if mark else marked > 0))

    def _recurs(self, author: str | None, times: int) -> bool:
        """Whether an author ends texts so many times that it is a habit."""
        return times >= FEWEST and times >= SHARE * self.messages[author]


def _find_ending(text: str) -> re.Match[str] | None:
    return _ENDING.search(text, max(len(text) - MOST_CHARACTERS, 0))


def _split_part(text: str) -> tuple[str, str]:
    """The text without the mark of a part at its end or start, such as `(1/2)`, and its number."""
    if match := _PART_AT_END.search(text, max(len(text) - MOST_CHARACTERS, 0)):
        return text[: match.start()] + match["links"], match["number"]
    match = _PART_AT_START.match(text)
    return (text[match.end() :], match["number"]) if match else (text, "")


def is_signature(line: str, names: Names) -> bool:
    """Whether most of a line's words are names, numbers or addresses, and it is short."""
    words = line.replace("|", " ").split()
    if not words or len(line) > 120 or len(words) > (4 if line.isupper() else 15) or _NO_SIGNATURE.search(line):
        return False
    is_prose = [word == "I" or (word[0].islower() and "@" not in word and "." not in word[:-1]) for word in words]
    is_small = [word.casefold().strip(",.") in _SMALL or names.is_person(word.strip(",.")) for word in words]
    prose = sum(said and not small for said, small in zip(is_prose, is_small, strict=True))
    return prose * 4 <= len(words)


def _blocks(text: str) -> Iterator[tuple[str, str]]:
    """The blocks of lines that may sign a text, the shortest first, each after the lines before it."""
    lines = text.split("\n")
    for at in range(len(lines) - 1, max(len(lines) - MOST_LINES, 0), -1):
        if lines[at].strip():
            if not is_signature(lines[at], _NOBODY):
                return
            yield "\n".join(lines[:at]), " ".join(" ".join(lines[at:]).split())


def _mark(ending: re.Match[str]) -> str:
    return re.sub("[–—-]+", "-", ending["mark"] or "")


def _adjoins(ending: re.Match[str]) -> bool:
    """Whether the mark follows a letter, a digit or an opening mark, as in A/B, 6-PM and '^a'."""
    start = ending.start("mark")
    return start > 0 and _ADJOINS.match(ending.string, start - 1) is not None


def _may_sign(ending: re.Match[str]) -> bool:
    """Whether an ending has initials, or words with a capital, of which none is an ordinary word."""
    mark, name = ending["mark"], ending["name"]
    if mark == "," or _adjoins(ending):
        return False
    if mark == "^" and " " not in name:
        return True
    parts = [word.rstrip(".") for word in name.split()]
    ordinary = any(word.casefold() in (_NO_INITIALS if word.isupper() else _NO_NAMES) for word in parts)
    return not ordinary and all(part[0].isupper() for part in parts)
