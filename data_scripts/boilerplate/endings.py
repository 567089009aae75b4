"""What recurs at the ends of an author's messages: initials or a name (`^MB`, `-Becky`), and marks of parts (1/2)."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from data_scripts.boilerplate.names import MENTION, Names, words
from data_scripts.boilerplate.quotations import without_quotations

SIGNATURES, PARTS = "initials and names at the end", "marks of parts"
FEWEST = 3  # times that something recurs
SHARE, SHARE_SIGNED = 0.1, 0.2  # of an author's messages: with one signature; with any that has a mark
SHARE_CARETS = 0.01  # of all messages with initials such as ^MB, if those that do not recur are initials, too
MOST_CHARACTERS, MOST_LINES = 150, 10  # of an ending
_NOBODY = Names()
_MARK = r"[\^*/~=|,–—-]"
_WORD = r"(?:(?:[^\W\d_]\.)+|[^\W\d_][\w'’&/-]*)"
_NUMBER = r"[(\[]?(?P<{}>[1-9]/[2-9])[)\]]?"
_NOT_AFTER = r"(?<![\w/$€£])(?<!\d[.,])"  # as in 11/2, $1/2 and 0.1/2
_ENDING = re.compile(
    rf"(?P<before>\s*{_NOT_AFTER}{_NUMBER.format('first')}[\s.,]*)?"
    # A name without a mark follows a sentence or a number, or is a line.
    rf"(?P<signature>\s*(?:(?P<mark>{_MARK}{{1,2}})[ \t]?|(?<=[.!?…)\d][ \t])[ \t]*|(?<=\n)[ \t]*|(?<=[。！？]))"
    rf"(?P<name>{_WORD}(?: {_WORD}){{0,3}})[\s.!]*)?"
    rf"(?P<after>\s*{_NOT_AFTER}{_NUMBER.format('last')}[\s.,]*)?(?P<links>(?:\s*https?://\S+)*)\s*\Z"
)
_ADJOINS = re.compile(r"[\w'\"`(\[{<|\\]")
_MENTIONS = rf"\A((?:\s*\.?{MENTION}[,:]?)*\s*)"
_AT_START = re.compile(rf"{_MENTIONS}{_NUMBER.format('first')}(?![\w/]):?\s*")
_FIRST_ELLIPSIS, _LAST_ELLIPSIS = re.compile(rf"{_MENTIONS}(?:\.{{2,}}|…)\s*"), re.compile(r"\s*(?:\.{2,}|…)\s*\Z")
_NO_SIGNATURE = re.compile(r"\?|^\W*p\.?\s?s\b", re.IGNORECASE)
_SMALL = words("joining") | words("in signatures")
_NO_INITIALS = words("no initials")
_NO_WORDS = words("no names")
_NO_NAMES = _NO_WORDS | _NO_INITIALS
_NAME = r"\p{Lu}\S*(?: \p{Lu}\S*){0,2}"
# RE2 finds every text with an ending, and few others.
SUSPECT = (
    rf"(?:{_MARK}[ \t]?(?:\pL\S?|{_NAME})|\^\pL\S*|(?:[.!?…)\d][ \t]+|[。！？]){_NAME})[\s.!]*(?:https?://\S+\s*)*\z"
    r"|\n[^\n]+\s*\z|(?:\A|[^\d/])[1-9]/[2-9](?:[^\d/]|\z)"
)


class Endings:
    """The signatures and the marks of parts of each author, or of each side of ready pairs."""

    def __init__(self) -> None:
        self._messages: Counter[str | None] = Counter()
        self._counts: Counter[tuple[str | None, str, str]] = Counter()  # of marks, and of names
        self._carets = 0  # of all authors
        self._seen: dict[tuple[str | None, str], set[str]] = {}  # the last parts, by their number
        self._divided: set[tuple[str | None, str]] = set()

    def add_authors(self, authors: Iterable[str | None]) -> None:
        """Count messages by author."""
        self._messages.update(authors)

    def add(self, author: str | None, text: str) -> None:
        """Count the ending of a message that `SUSPECT` matches."""
        text = without_quotations(text.replace("\r\n", "\n")).strip()
        self._counts.update((author, "block", block) for _, block in _blocks(text))
        ending = _ending(text)
        if _may_sign(ending) and not _adjoins(ending):
            mark, name = _mark(ending), ending["name"].casefold()
            keys = [("marked", name), ("mark", mark), ("mark", "")] if mark else [("bare", name)]
            self._counts.update((author, *key) for key in keys)
            self._carets += mark == "^"
        start = _AT_START.match(text)
        if number := ending["last"] or ending["first"] or (start and start["first"]):
            part, _, count = number.partition("/")
            seen = self._seen.get((author, count), set())
            seen = self._seen[author, count] = {part} if part in seen else seen | {part}
            # Who gives four stars and then five divides nothing.
            if count in seen and len(seen) >= (2 if count < "5" else int(count)):
                self._divided |= {(author, count)}

    def strip(self, text: str, author: str | None, names: Names, counts: Counter[str]) -> str:
        """The text without its signature and the marks of a part, which are counted."""
        blocks = [before for before, block in _blocks(text) if self._is_block(block, author)]
        if blocks and re.search(r"\w", blocks[-1]):
            counts[SIGNATURES] += 1
            text = blocks[-1].rstrip()
        ending = _ending(text)
        before, signature, after, links = (ending[name] or "" for name in ("before", "signature", "after", "links"))
        is_signed, number = self._is_signature(ending, author, names), ""
        if (is_signed or not signature) and self._is_part(ending["first"], author):
            number, before = ending["first"], ""
        if is_signed or self._is_part(ending["last"], author):
            number, after = ending["last"] or number, ""
        body = text[: ending.start()] + before + ("" if is_signed else signature) + after
        if (start := _AT_START.match(body)) and self._is_part(start["first"], author):
            number, body = start["first"], start[1] + body[start.end() :]
        if number and number[0] != "1":
            body = _FIRST_ELLIPSIS.sub(r"\1", body)
        if number and number[0] != number[-1]:
            body = _LAST_ELLIPSIS.sub("", body)
        if not (is_signed or number) or not re.search(r"[^\s.,!?]", body + links):
            return text
        counts.update({SIGNATURES: int(is_signed), PARTS: int(bool(number))})
        return f"{body.rstrip()} {links.strip()}".rstrip()

    def _is_signature(self, ending: re.Match[str], author: str | None, names: Names) -> bool:
        """Whether a text ends with a speaker's name, or as it recurs with its author."""
        if not ending["signature"]:
            return False
        mark, name, adjoins = _mark(ending), ending["name"].casefold(), _adjoins(ending)
        if author and set(name.rstrip(".").split()) <= set(author.casefold().split()) and (mark == "," or not adjoins):
            return True
        if mark in ("", "-", "~") and not adjoins and names.is_named(ending["name"].rstrip(".")):
            return True
        marked, signed = self._counts[author, "marked", name], self._counts[author, "mark", ""]
        signs = signed >= FEWEST and signed >= SHARE_SIGNED * self._messages[author]
        if adjoins or not _may_sign(ending):
            return signs and marked > 1 and mark not in ("", "/", "=")
        if mark == "^" and self._carets >= max(FEWEST, SHARE_CARETS * self._messages.total()):
            return True
        often = marked + self._counts[author, "bare", name]
        if self._recurs(author, often):
            return True
        return signs and (marked > 1 or (self._counts[author, "mark", mark] >= FEWEST if mark else marked > 0))

    def _recurs(self, author: str | None, times: int) -> bool:
        """Whether an author ends texts so many times that it is a habit."""
        return times >= FEWEST and times >= SHARE * self._messages[author]

    def _is_block(self, block: str, author: str | None) -> bool:
        """Whether lines recur, or begin with the author's name."""
        is_named = bool(author) and block.casefold().startswith(f"{author} ".casefold())
        return is_named or self._recurs(author, self._counts[author, "block", block])

    def _is_part(self, number: str | None, author: str | None) -> bool:
        """Whether a number such as 1/2 is that of a part: the author, or several others, divide texts so."""
        if not number:
            return False
        return (author, number[-1]) in self._divided or sum(each[1] == number[-1] for each in self._divided) >= FEWEST


def _ending(text: str) -> re.Match[str]:
    start = max(len(text) - MOST_CHARACTERS, 0)
    while (match := _ENDING.search(text, start)) and match["name"]:
        first = re.split(r"[\s-]", match["name"])[0]
        if first.casefold() not in _NO_NAMES or first.isupper():
            break
        start = match.start("name") + len(first)  # Thanks-Anwar
    assert match
    return match


def is_signature(line: str, names: Names) -> bool:
    """Whether most of a line's words are names, numbers or addresses, and it is short."""
    words = line.replace("|", " ").split()
    if not words or len(line) > 120 or len(words) > (4 if line.isupper() else 15) or _NO_SIGNATURE.search(line):
        return False
    is_prose = [word == "I" or (word[0].islower() and "@" not in word and "." not in word[:-1]) for word in words]
    is_small = [word.casefold().strip(",.") in _SMALL or names.is_person(word.strip(",.")) for word in words]
    prose = sum(said and not small for said, small in zip(is_prose, is_small, strict=True))
    is_opener = words[0].casefold().strip(",.!'’") in _NO_WORDS and not is_small[0]
    return (is_small[0] or not is_prose[0]) and not is_opener and prose * 4 <= len(words)


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
    if ending["mark"] is None or ending["before"]:
        return False
    return _ADJOINS.match(ending.string[: ending.start("mark")][-1:]) is not None


def _may_sign(ending: re.Match[str]) -> bool:
    """Whether an ending has initials, or words with a capital, of which none is an ordinary word."""
    mark, name = ending["mark"], ending["name"]
    if not name or mark == ",":
        return False
    if mark == "^" and " " not in name:
        return True
    if name.islower():
        return mark is not None and len(name) == 2 and name not in _NO_NAMES
    parts = [word.rstrip(".") for word in name.split()]
    ordinary = any(word.casefold() in (_NO_INITIALS if word.isupper() else _NO_NAMES) for word in parts)
    return len(parts) < 4 and not ordinary and all(p[0].isupper() and (len(p) < 5 or not p.isupper()) for p in parts)
