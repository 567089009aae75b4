"""Extracts what the sender of an email wrote: no quotations, lines that introduce them, or signatures."""

import re

from data_scripts.boilerplate.names import pattern

_QUOTED = re.compile(r"\s{0,3}(?:>|\|(?= )|[^\W\d_]{1,9}>(?=\s))")  # also after the initials or name of the author
_SIGNED = re.compile(r"-----BEGIN PGP SIGNED MESSAGE-----(?:\r?\nHash: .*)?")
_SIGNATURE = re.compile(rf"--\s?|—|_{{3,}}|{pattern('lines of mail programs')}")
# `-----Original Message-----`, in any language, or the lines that Outlook writes in its place.
_ORIGINAL = re.compile(r"\s*(?:-{3,}|_{3,})\s?[^\W\d_][^-_]{3,40}(?:-{3,}|_{3,})\s*")
_FROM = rf"(?:{pattern('mails are from')})\s?[:：]"
_OUTLOOK = re.compile(rf"\s*\*?{_FROM}\*?\s*\S")
_OUTLOOK_NEXT = re.compile(r"\s*\*?[^\W\d_][^\W\d_]{0,15}(?: [^\W\d_]{1,12})?\s?[:：]\*?\s*\S")
# The line before a quotation, such as `On 4 March 2024, Ann wrote:`, has a date or an address, or one of these words.
_WROTE = rf"(?:{pattern('wrote')})"
_INTRODUCES = re.compile(rf"\d|@|\b(?:{_WROTE}|writes|said|{pattern('forwarded')})")
_UNQUOTED = re.compile(rf"\s*\S.*\b\d{{4}}\b.*\d{{1,2}}[:.]\d\d.*\b{_WROTE}.{{0,12}}:\s*")  # before lines without marks
_ABOVE = re.compile(r".*\breply above this line\b.*", re.IGNORECASE)  # of help desks
MAX_INTRODUCTION = 4  # lines
_AUTHORS = rf"{_WROTE}[^\n:]{{0,60}}:"
_SENT = rf"(?:{pattern('mails are sent')})\s?[:：]"  # or the subject: journeys, too, have "From:" and "To:"
_ORIGINAL_WITHIN = rf"-{{3,}}[ \t]?(?:{pattern('mails are quoted')})[^\n-]{{0,30}}-{{3,}}"
# RE2 finds every text that quotes a mail, and few others.
SUSPECT = rf"{_ORIGINAL_WITHIN}|{_AUTHORS}|{_SENT}|(?i:reply above this line)"
_SUSPECT = re.compile(SUSPECT)
_HAS_AUTHOR = re.compile(rf"[\d@].{{1,200}}{_AUTHORS}|{_FROM}|---|(?i:reply above)", re.DOTALL)
# Lines may have been joined.
_QUOTATION = re.compile(
    rf"(?:(?<=\S)\s+)(?:{_ORIGINAL_WITHIN}|\*?{_FROM}.{{1,150}}?\s\*?{_SENT}|"
    r"(?:On|Am|Le|El|Il|Op|Em|Den|Dnia|W dniu)\s.{0,40}?\b(?:\d{4}|\d\d?[./]\d\d?[./]\d\d)\b.{0,40}?\d[:.h]\d\d"
    rf"(?:(?!\n\n).){{1,120}}?{_AUTHORS}).*\Z",
    re.DOTALL,
)


def without_quotations(text: str) -> str:
    """A text of any log without the mails that it quotes; one that quotes none stays as it is."""
    if not (_SUSPECT.search(text) and _HAS_AUTHOR.search(text)):
        return text
    shorter = _QUOTATION.sub("", written_text(text))
    return text if shorter.split() == text.split() else shorter


def written_text(text: str) -> str:
    """What the sender of a mail wrote: its text without quotations, what introduces them, and the signature."""
    kept: list[str] = []
    lines = _SIGNED.sub("", text).splitlines()
    for number, line in enumerate(lines):
        following = next((line for line in lines[number + 1 : number + 3] if line.strip()), "")
        if _SIGNATURE.fullmatch(line) or _ORIGINAL.fullmatch(line):
            break
        if _OUTLOOK.match(line) and _OUTLOOK_NEXT.match(following):
            while kept and _OUTLOOK_NEXT.match(kept[-1]) and re.search(r"\d", kept[-1]):  # when it was sent
                kept.pop()
            break
        if _UNQUOTED.fullmatch(line) and not _QUOTED.match(following):
            break
        if _ABOVE.fullmatch(line):
            if any(kept):
                break
            continue
        if not _QUOTED.match(line):
            kept.append(line.strip())
        elif number == 0 or not _QUOTED.match(lines[number - 1]):
            _remove_introduction(kept)
    return "\n".join(line for line in kept if line)


def _remove_introduction(lines: list[str]) -> None:
    """Remove the paragraph at the end of `lines`, if it introduces a quotation."""
    while lines and not lines[-1]:
        lines.pop()
    start = len(lines)
    while start and lines[start - 1] and len(lines) - start <= MAX_INTRODUCTION:
        start -= 1
    paragraph = " ".join(lines[start:])
    if paragraph.endswith(":") and len(lines) - start <= MAX_INTRODUCTION and _INTRODUCES.search(paragraph):
        del lines[start:]
