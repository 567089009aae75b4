"""Removes the parts of a message that are not its content: salutation, addressee, closing, footer.

A step that would leave no words is skipped, so no text becomes empty. A
salutation is recognized by the names of speakers, and by its capitalized words ("Hi Tunde,"); one without a name is
followed by punctuation ("Hi there,"). The name of a person who is thanked or addressed within a text becomes `[name]`.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator

from data_scripts.boilerplate import endings, quotations
from data_scripts.boilerplate.endings import PARTS, SIGNATURES, Endings, is_signature
from data_scripts.boilerplate.names import ADDRESSEE, MENTION, NAME, TITLES, Names, is_title_case, pattern, words

QUOTATIONS, SALUTATIONS, CLOSINGS = "quotations", "salutations", "closings and signatures"
FOOTERS, ADDRESSEES, MENTIONS = "device footers", "addressees", f"names replaced by {NAME}"
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
_HANDLE = re.compile(rf"(?<![\w@/])(?<!\w\.){MENTION}")
_NICK = re.compile(r"\s*(?P<nick>\w[\w.’'\[\]|`^-]*(?: \w[\w.’'-]*){0,2})(?P<mark>[:,])\s+")
_TO_YOU = re.compile(r"(?i:you|your|please|thanks|thank|i|i'm|we|we're)\b")
# Who is thanked, greeted or the like, or follows the last comma of a sentence
_ADDRESS = re.compile(
    rf"(?:(?<!\w)(?:(?P<thanks>(?i:{_THANKS}))|(?i:{pattern('before a name')})),?|(?<=[^\W\d_]),) "
    rf"(?P<name>(?P<title>(?i:{'|'.join(sorted(TITLES))})\.? )?\w[\w'’-]*(?: [^\W\d_][\w'’-]*){{0,2}})"
    r"(?=\s*(?:[,.!?:](?!\w)|[–—-]\s|\n|$))"
)
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
_SAYS = re.compile(rf"[\w{_EMOJI}]")
MOST_WORDS = 5  # of a name


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
    steps: tuple[tuple[str, Callable[[str], str]], ...] = (
        (QUOTATIONS, quotations.without_quotations),
        (ADDRESSEES, lambda text: _without_addressee(text, names)),
        (FOOTERS, lambda text: _FOOTER.sub("", text)),
        (CLOSINGS, lambda text: _DELIMITER.sub("", text)),
        (CLOSINGS, lambda text: _without_closing(text, names)),
        (SIGNATURES, lambda text: endings.without_block(text, author)),
        (PARTS, lambda text: endings.without_part(text, author)),
        (SIGNATURES, lambda text: endings.without_signature(text, author, names)),
        (PARTS, lambda text: endings.without_part(text, author)),
        (SALUTATIONS, lambda text: _without_salutation(text, names)),
    )
    stripped = original = text.replace("\r\n", "\n").strip()
    kinds = set[str]()
    for kind, step in steps:
        shorter = step(stripped).strip()
        if shorter != stripped and _SAYS.search(shorter):
            stripped = shorter
            kinds.add(kind)
    counts.update(kinds)
    named = _name_addressed(stripped, names, author)
    counts[MENTIONS] += named.count(NAME) - stripped.count(NAME)
    return text if named == original else named


def names_in_letter(text: str) -> Iterator[str]:
    """The names in the salutation and the signature of a text."""
    if greeted := _find_greeted(text, _NOBODY):
        yield text[greeted[0] : greeted[1]]
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


def _without_addressee(text: str, names: Names) -> str:
    if match := ADDRESSEE.match(text):
        end = names.skip_last_names(text, match.start("name") + 1, match.end() - 1)  # @Tunde Bello
        text = text[max(end, match.end()) :].lstrip(",: ")
    if match := _NICK.match(text):
        is_said_to_you = match["nick"].istitle() and _TO_YOU.match(text, match.end())
        is_addressed = names.is_speaker if match["mark"] == ":" or is_said_to_you else names.is_person
        text = _with_capital(text[match.end() :], text) if is_addressed(match["nick"]) else text
    return text


def _without_salutation(text: str, names: Names) -> str:
    if greeted := _find_greeted(text, names):
        shorter = text[greeted[2] :]
    else:
        shorter = _TO_NOBODY.sub("", text, count=1) if _TO_NOBODY.match(text) else text
    return _with_capital(shorter, text)


def _find_greeted(text: str, names: Names) -> tuple[int, int, int] | None:
    """The start and end of the name of who is greeted, such as `Mrs. K. Okafor and Tunde`, and where the text begins.

    Names of persons need nothing after them; other speakers and capitalized words need punctuation or the line's end.
    After the comma of `Hi, Tunde`, titles and speakers' names are, and a capitalized word that ends a sentence.
    """
    if not (greeting := _GREETING.match(text)):
        return None
    at = start = greeting.end()
    last, sure, has_title = None, None, False
    for _ in range(MOST_WORDS):
        if not (match := _WORD.match(text, at)):
            break
        word, key = match["word"], match["word"].casefold()
        is_title = key in TITLES
        is_initial = len(word) == 1 and word.isupper() and key not in _NO_NAMES
        is_name = is_initial or _may_be_name(word) or word[0] in "<@" or names.knows(word)
        is_possible = is_name or key in _ROLES or (at > start and key in _JOINING)
        if greeting["comma"] and not _SENTENCE_END.match(text, match.end("word")):
            is_possible = names.is_person(word)
        if not (is_title or is_possible):
            break
        at = match.end() if is_title or is_initial else match.end("word")
        last = last if key in _JOINING else at
        sure = at if names.is_person(word) or word[0] in "<@" or (has_title and is_name) else sure
        has_title = has_title or is_title
    if last and (after := _AFTER_NAME.match(text, last)):
        return start, after.start("after"), after.end()
    return (start, sure, len(text) - len(text[sure:].lstrip(" \t\r\n\xa0,!."))) if sure else None


def _without_closing(text: str, names: Names) -> str:
    for match in _CLOSING.finditer(text):
        rest = _after_signature(text, match, names)
        if rest is not None:
            return text[: match.start()].rstrip(" \n,-–—") + rest
    return text


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
    words = first.split()
    if not 0 < len(words) <= 3 or (lines[0] and match["thanks"]):
        return False
    is_name = names.is_person(words[0]) or ("," in match["after"] and all(map(_may_be_name, words)))
    return is_name and all(is_signature(line, names) for line in others)


def _name_addressed(text: str, names: Names, author: str | None) -> str:
    """Replace other speakers' handles, names where somebody is addressed, and in "Thanks Tunde," capitalized words."""
    if greeted := _find_greeted(text, names):  # in a text that says nothing else
        words = {word.strip(".,").casefold() for word in text[greeted[0] : greeted[1]].split()}
        text = text if words <= TITLES | _ROLES else f"{text[: greeted[0]]}{NAME}{text[greeted[1] :]}"
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
        return is_known and before.islower() and _SENTENCE_END.match(match.string, match.end()) is not None
    return is_known or (match["thanks"] is not None and all(map(_may_be_name, said.split())))
