"""Removes from a message what belongs to its letter and not to what it says: salutation, addressee, closing, footer.

A step that would leave no word is not taken, so that no text becomes empty. A
salutation is recognized by the names of speakers, and by its capitalized words ("Hi Tunde,"); one without a name is
followed by punctuation ("Hi there,"). The name of who is thanked or addressed within a text becomes `[name]`.
"""

import re
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

from data_scripts.boilerplate import endings, quotations
from data_scripts.boilerplate.endings import PARTS, SIGNATURES, Endings, is_signature
from data_scripts.boilerplate.names import MENTION, NAME, TITLES, Names, is_title_case, pattern, words

QUOTATIONS, SALUTATIONS, CLOSINGS, FOOTERS, ADDRESSEES = (
    "quotations",
    "salutations",
    "closings and signatures",
    "device footers",
    "addressees",
)
MENTIONS = f"names replaced by {NAME}"
KINDS = (QUOTATIONS, SALUTATIONS, CLOSINGS, SIGNATURES, PARTS, FOOTERS, ADDRESSEES, MENTIONS)

_EMOJI = "\u2600-\u27bf\U0001f300-\U0001faff\ufe0f"
_GREETING = re.compile(
    rf"[\s*_¡]*(?:{pattern('greetings', 'greetings with a name')})(?P<comma>,)?"
    r"(?:[ \t\xa0]+(?:there|again|nochmal|de\snuevo))?[ \t\xa0]+",
    re.IGNORECASE,
)
_TO_NOBODY = re.compile(
    rf"[\s*_¡]*(?i:(?:{pattern('greetings')})(?:[ \t]+(?:there|again|all|every(?:one|body)|guys|folks|team|zusammen))?)"
    rf"[ \t]*(?:[,!.;:…]+(?![\w/])|[–—-](?=\s)|[{_EMOJI}]+|\n)++\s*+(?!\w+[!.])"
)
_WORD = re.compile(rf"[ \t\xa0]*(?<=[ \t\xa0])(?P<word>{MENTION}|[^\W\d_](?:[\w'’-]*\w)?)\.?")
_JOINING, _ROLES, _NO_NAMES = words("joining"), words("roles"), words("no names")
_AFTER_NAME = re.compile(
    rf"(?:[ \t]+(?i:support|team)(?i:[ \t]+team)?\b)?"
    rf"(?P<after>[ \t]*(?:[:;]-?\)|[,!:;.…]+(?![\w/])|[–—-](?=\s)|[{_EMOJI}]+|\n|$)+[\s,!]*)"
)
_SENTENCE_END = re.compile(r"[!.…](?![\w/])|\s*(?:\n|$)")
_START = rf"(?:^|(?<=[\n.!?…;:)»{_EMOJI}]))[ \t\xa0]*"
# In the middle of a sentence, only a capitalized phrase begins a closing.
_STRONG, _WEAK, _THANKS = pattern("closings"), pattern("closings before a name"), pattern("thanks")
_CLOSING = re.compile(
    rf"(?:{_START}|(?P<flat>[ \t\xa0]))"
    rf"(?P<phrase>(?i:(?P<strong>{_STRONG})|(?P<weak>{_WEAK})|(?P<thanks>{_THANKS})))(?!\w)"
    r"(?P<after>[ \t\xa0]*[,!.:–—-]*[ \t\xa0]*)",
    re.MULTILINE,
)
_DELIMITER = re.compile(r"\n--[ \t]*\n(?:.{0,80}(?:\n|$)){1,10}\Z")
_DEVICE = pattern("device footers")
_FOOTER = re.compile(  # perhaps with a link, and an excuse
    rf"(?:\A|\n(?:--\s+)?|(?<=[.!?,)\n])[ \t]*|\s(?:--\s)?(?=[A-Z]))\s*(?i:{_DEVICE})(?:[^\n.!?]|\.(?=\w)){{0,60}}"
    r"(?:\.?\s+(?i:please excuse|excuseer|veuillez excuser)\s[^\n.!?]{1,40})?\.?\s*\Z"
)
_ADDRESSEE = re.compile(rf"\A\s*\.?(?P<name>{MENTION})(?:[,:;]|\s)+(?:(?:{MENTION}|@\d+)(?:[,:;]|\s)+)*(?:[–—-]+\s+)?")
_HANDLE = re.compile(rf"(?<![\w@/])(?<!\w\.){MENTION}")
_NICK = re.compile(r"\s*(?P<nick>\w[\w.’'\[\]|`^-]*(?: \w[\w.’'-]*){0,2})(?P<mark>[:,])\s+")
_TO_YOU = re.compile(r"(?i:you|your|please|thanks|thank|i|i'm|we|we're)\b")
# Who is thanked, greeted or the like, or follows the last comma of a sentence
_ADDRESS = re.compile(
    rf"(?:(?<!\w)(?:(?P<thanks>(?i:{_THANKS}))|(?i:{pattern('before a name')})),?|(?<=[^\W\d_]),) "
    rf"(?P<name>(?P<title>(?i:{'|'.join(sorted(TITLES))})\.? )?\w[\w'’-]*(?: [^\W\d_][\w'’-]*){{0,2}})"
    r"(?=\s*(?:[,.!?:](?!\w)|[–—-]\s|\n|$))"
)
_END = re.compile(r"[.!]|\s*(?:\n|$)")
_FULL_NAME = re.compile(r"\s*[^\W\d_]{2,}(?: [^\W\d_]{2,}){0,2}(?=\s*(?:[,.\n|–—-]|$))")
_NOBODY, _NO_ENDINGS = Names(), Endings()
# RE2 finds every text that a step may change, except those with a speaker's name, and few others.
SUSPECT = "|".join(
    (
        rf"\A[\s*_¡]*(?i:{pattern('greetings', 'greetings with a name')})[^\pL\d_]",
        r"<?@\w",
        endings.SUSPECT,
        quotations.SUSPECT,
        rf"(?:\A|[\s.!?…;:)»,])(?i:{_STRONG})(?:[^\pL]|\z)",
        rf"(?i:{_WEAK}|{_THANKS})[,!.:–—-]*[ \t\r]*(?:\n|\pL[\pL'’-]*[.! ]*\z)",
        rf"(?i:{_THANKS}) \p{{Lu}}",
        r"\n--[ \t\r]*\n",
        rf"(?i:{pattern('hints of footers')})",
    )
)
_HAS_WORD = re.compile(r"\w")
MOST_WORDS = 5  # of a name


class _Word(NamedTuple):
    """A word of a name: where it ends, the word in lower case, and whether it is that of a person for sure."""

    end: int
    key: str
    is_person: bool


def strip_letter(
    text: str, names: Names, counts: Counter[str], author: str | None = None, endings: Endings = _NO_ENDINGS
) -> str:
    """The text without salutation, addressee, closing, signature and footer; names that stay in it become `[name]`.

    Args:
        text: one message.
        names: of the log's speakers.
        counts: of `KINDS`; what is removed is added.
        author: who wrote it.
        endings: of the log's messages.
    """
    stripped = original = reference = text.replace("\r\n", "\n")
    for kind, step in STEPS:
        shorter = step(stripped, names)
        if shorter != stripped:
            counts[MENTIONS if shorter.count(NAME) > stripped.count(NAME) else kind] += 1
            stripped = shorter
        if kind == ADDRESSEES and _ADDRESSEE.match(original):
            reference = stripped
        if kind == CLOSINGS:
            stripped = endings.strip(stripped, author, names, counts)
    named = _name_addressed(stripped, names, author)
    counts[MENTIONS] += named.count(NAME) - stripped.count(NAME)
    stripped = named
    return text if stripped == original else _with_capital(stripped.strip(), reference)


def names_in_letter(text: str) -> Iterator[str]:
    """The names in the salutation and the signature of a text."""
    greeting = _GREETING.match(text)
    if greeting and (found := _end_of_name(text, greeting.end(), _NOBODY, bool(greeting["comma"]))):
        yield text[greeting.end() : found[0]]
    for match in _CLOSING.finditer(text):
        name = _FULL_NAME.match(text, match.end())
        if name and all(map(_may_be_name, name[0].split())) and _after_signature(text, match, _NOBODY) is not None:
            yield name[0].strip()


def _may_be_name(word: str) -> bool:
    return is_title_case(word) and word.casefold() not in _NO_NAMES


def _with_capital(text: str, original: str) -> str:
    """The text with a capital if the original has one, and the first word is an ordinary one (and not `iPhone`)."""
    first = text.split(maxsplit=1)[0] if text else ""
    is_lower = first.islower() and re.sub(r"['’,.!?:;]", "", first).isalpha()
    return text[0].upper() + text[1:] if is_lower and original.lstrip(" \n*_¡")[:1].isupper() else text


def _unless_empty(shorter: str, text: str) -> str:
    return shorter.strip() if shorter != text and _HAS_WORD.search(shorter) else text


def _without_quotations(text: str, names: Names) -> str:
    return _unless_empty(quotations.without_quotations(text), text)


def _without_footer(text: str, names: Names) -> str:
    return _unless_empty(_FOOTER.sub("", text), text)


def _without_addressee(text: str, names: Names) -> str:
    if match := _ADDRESSEE.match(text):
        end = names.skip_last_names(text, match.start("name") + 1, match.end() - 1)  # @Tunde Bello
        text = text[max(end, match.end()) :].lstrip(",: ") or text
    match = _NICK.match(text)
    if match and _is_addressee(text, match, names):
        text = _unless_empty(text[match.end() :], text)
    return text


def _is_addressee(text: str, match: re.Match[str], names: Names) -> bool:
    nick, is_said_to_you = match["nick"], match["nick"].istitle() and _TO_YOU.match(text, match.end())
    return names.is_speaker(nick) if match["mark"] == ":" or is_said_to_you else names.is_person(nick)


def _without_salutation(text: str, names: Names) -> str:
    greeting = _GREETING.match(text)
    found = greeting and _end_of_name(text, greeting.end(), names, bool(greeting["comma"]))
    if not (greeting and found):
        return _unless_empty(_TO_NOBODY.sub("", text, count=1) if _TO_NOBODY.match(text) else text, text)
    name_end, end = found
    if _HAS_WORD.search(text[end:]):
        return text[end:]
    greeted = {word.strip(".,").casefold() for word in text[greeting.end() : name_end].split()}
    return text if greeted <= TITLES | _ROLES else f"{text[: greeting.end()]}{NAME}{text[name_end:]}"


def _end_of_name(text: str, start: int, names: Names, after_comma: bool = False) -> tuple[int, int] | None:
    """The ends of the name that begins at `start`, and of what separates it from the text; None if there is none.

    Names of persons need nothing after them; other speakers and capitalized words need punctuation or the line's end.
    """
    words = list(islice(_words_of_name(text, start, names, after_comma), MOST_WORDS))
    last = next((word.end for word in reversed(words) if word.key not in _JOINING), None)
    if last and (after := _AFTER_NAME.match(text, last)):
        return after.start("after"), after.end()
    if sure := [word.end for word in words if word.is_person]:
        return sure[-1], len(text) - len(text[sure[-1] :].lstrip(" \t\r\n\xa0,!."))
    return None


def _words_of_name(text: str, start: int, names: Names, after_comma: bool) -> Iterator[_Word]:
    """The words from `start` on that may be those of a name, such as `Mrs. K. Okafor and Tunde`.

    After the comma of `Hi, Tunde`, titles and speakers' names are, and a capitalized word that ends a sentence.
    """
    is_first, has_title = True, False
    while match := _WORD.match(text, start):
        word, key = match["word"], match["word"].casefold()
        is_title, is_person = key in TITLES, names.is_person(word)
        is_initial = len(word) == 1 and word.isupper() and key not in _NO_NAMES
        is_name = is_initial or _may_be_name(word) or word[0] in "<@"
        is_known = is_title or is_person or (not is_first and names.knows(word))
        is_possible = is_name or names.knows(word) or key in _ROLES or (not is_first and key in _JOINING)
        if not (is_known or (is_possible and (not after_comma or _SENTENCE_END.match(text, match.end("word"))))):
            return
        start = match.end() if is_title or is_initial else match.end("word")
        yield _Word(start, key, is_person or word[0] in "<@" or (has_title and is_name))
        is_first, has_title = False, has_title or is_title


def _without_closing(text: str, names: Names) -> str:
    shorter = _unless_empty(_DELIMITER.sub("", text), text)
    for match in _CLOSING.finditer(shorter):
        rest = _after_signature(shorter, match, names)
        if rest is not None:
            shorter = _unless_empty(shorter[: match.start()].rstrip(" \n,-–—") + rest, shorter)
            break
    return shorter


def _after_signature(text: str, match: re.Match[str], names: Names) -> str | None:
    """What follows the signature after a closing phrase; None if the phrase closes nothing."""
    if match["flat"] and not (match["strong"] and match["phrase"][0].isupper()):
        return None
    lines = text[match.end() :].split("\n")
    if not match["strong"]:
        return "" if _is_signed(match, lines, names) else None
    if lines[0] and not is_signature(lines[0], names):
        return None
    number = next((at for at, line in enumerate(lines) if line.strip() and not is_signature(line, names)), len(lines))
    return "".join(f"\n{line}" for line in lines[number:])


def _is_signed(match: re.Match[str], lines: list[str], names: Names) -> bool:
    """Whether a name, and nothing else, follows a phrase that is a closing only then."""
    first, *others = [line.strip(" .,!") for line in lines if line.strip()] or [""]
    is_below, words = not lines[0], first.split()
    if not 0 < len(words) <= 3 or not all(is_signature(line, names) for line in others):
        return False
    if not is_below and match["thanks"]:
        return False
    is_known = names.is_person(words[0])
    is_name = "," in match["after"] and all(map(_may_be_name, words))
    return is_known or is_name


def _name_addressed(text: str, names: Names, author: str | None) -> str:
    """Replace other speakers' handles, names where somebody is addressed, and in "Thanks Tunde," capitalized words."""
    for handle in reversed([*_HANDLE.finditer(text)]):
        name = handle[0].strip("<@>")
        if not names.is_speaker(name) or name.casefold() == (author or "").casefold():
            continue
        end = names.skip_last_names(text, handle.start() + 1, handle.end())
        text = f"{text[: handle.start()]}{NAME}{text[end:]}"
    position = 0
    while match := _ADDRESS.search(text, position):
        position = match.start() + 1  # within what is no name, an address may begin: "ok, thanks Tunde."
        if _is_name(match, names):
            text = f"{text[: match.start('name')]}{NAME}{text[match.end() :]}"
            position = match.start("name") + len(NAME)
    return text


def _is_name(match: re.Match[str], names: Names) -> bool:
    """Whether a match of `_ADDRESS` has a name."""
    said = match["name"].removeprefix(match["title"] or "")
    is_known = names.is_named(said) or (match["title"] is not None and names.knows(said))
    if match[0].startswith(","):
        before = match.string[: match.start()].split()[-1]
        return is_known and before.islower() and _END.match(match.string, match.end()) is not None
    return is_known or (match["thanks"] is not None and all(map(_may_be_name, said.split())))


STEPS = (
    (QUOTATIONS, _without_quotations),
    (ADDRESSEES, _without_addressee),
    (FOOTERS, _without_footer),
    (CLOSINGS, _without_closing),
    (SALUTATIONS, _without_salutation),
)
