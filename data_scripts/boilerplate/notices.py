"""What WhatsApp and Messenger write in place of a message, in their languages: exports do not mark it.

An export has the language of the phone or account. The phrases in notices.json are whole texts, without case, invisible
marks and a final point; another sentence may follow that of a message that the phone could not decrypt. `{}` stands for
a name, or any other words.
"""

import json
import re
import unicodedata
from collections.abc import Collection
from pathlib import Path

MARKS = "\u200e\u200f\u202a\u202c\ufeff"  # invisible, of the direction of writing
# A deletion by the administrator of a group, who may be named.
_ADMIN = re.compile(
    r"(?:[^\s,]+ ){0,2}(?:\S{1,5}['’])?(?:admin|amministrat|beheerder|админ)\S*(?: .{1,80})?"
)  # after one of `DELETED`
_BY_ADMIN = re.compile(
    r"diese nachricht wurde von (?:einem )?admin(?: .{1,80})? gelöscht|un admin\.?,?(?: .{1,80})? eliminó este mensaje|"
    r"bu mesaj .{1,80} yönetici tarafından silindi|管理员.{0,80}已删除这条消息|管理員.{0,80}已刪除此訊息"
)
_AFTER_CALL = re.compile(r"[.。] ?.{1,40}|,? (?:\S{1,3} )?\d.{0,12}")  # what to do, or when it was
_LOCATION = re.compile(r"\S+(?: \S+)?:? https?://maps\.google\.com/\S*q=[-\d.,%]+")
_EDITED = re.compile(
    r"\s*\u200e?<[^<>]{0,60}(?:edited|editó|editad|bearbeitet|modifi|bewerkt|измен|отредакт|düzenlen|تعديل|संपादित|एडिट|"
    r"diedit|編集|编辑|編輯|edytowan|수정|змінен|upraven|redigera|redigere|muokat|módosít|επεξεργ|נערכ|chỉnh sửa)"
    r"[^<>]{0,30}>\s*$",
    re.IGNORECASE,
)
MAX_NOTICE = 200  # characters
_INVISIBLE = re.compile(f"[{MARKS}\u064b-\u0652]")  # Arabic's short vowels are optional
_POINTS = " \n\xa0\u202f.。।۔"
_POLL = re.compile(r"[^\W\d_]+(?: [^\W\d_]+)?:")
_OPTION = re.compile(r"([^\W\d_]+): .*\(\D{0,12}\d+\D{0,12}\)")


# What a person tells of somebody without a name, or in the middle of a sentence
_NO_NAME = (
    r"(?:an?|and|as|but|everybody|everyone|he|i|if|it|my|nobody|our|she|so|somebody|someone|that|the|they|this|we|what|"
    r"when|who|er|ich|jemand|mein\w*|sie|wer|wir|elle|il|je|mon|nous|qui|alguien|ella|mi|quién|yo|chi|io|lei|lui|ela|ele|eu|"
    r"meu|minha|quem|ik|hij|mijn|wie|zij|ja|kto|on|ona)\b"
)


def _plain(text: str) -> str:
    return _INVISIBLE.sub("", unicodedata.normalize("NFC", text)).strip(_POINTS).casefold()


_PHRASES = {
    kind: frozenset(map(_plain, phrases))
    for kind, phrases in json.loads(Path(__file__).with_name("notices.json").read_text(encoding="utf-8")).items()
}
_KINDS = {phrase: kind for kind in ("deleted", "call", "media") for phrase in _PHRASES[kind]}
_STARTS = {
    kind: tuple(sorted(_PHRASES[kind], key=len, reverse=True))
    for kind in ("deleted", "call", "waiting for the message")
}


def notice_kind(text: str) -> str | None:
    """The kind of what WhatsApp wrote in place of a message; None for a message."""
    if _is_poll(text):
        return "poll"
    if len(text) > MAX_NOTICE:
        return None
    plain = _plain(text)
    if kind := _KINDS.get(plain):
        return kind
    if _LOCATION.fullmatch(plain):
        return "media"
    if _BY_ADMIN.fullmatch(plain):
        return "deleted"
    for kind, starts in _STARTS.items():
        if plain.startswith(starts) and _may_follow(kind, plain[len(next(filter(plain.startswith, starts))) :]):
            return kind
    return None


def _templates(kind: str) -> re.Pattern[str]:
    phrases = [re.escape(phrase).replace(r"\{\}", r"[^?!\n]{0,80}") for phrase in _PHRASES[kind]]
    named = "|".join(phrase.partition(r"\ ")[2] for phrase in phrases if phrase.startswith("["))
    others = "|".join(phrase for phrase in phrases if not phrase.startswith("[")) or "(?!)"
    return re.compile(rf"(?!{_NO_NAME})(?P<name>[^?!…,:;\n]{{1,60}}?) (?:{named})|{others}")


_MESSENGER, _BY_SENDER = map(_templates, ("messenger", "messenger, by the sender"))


def is_messenger_notice(text: str, others: Collection[str]) -> bool:
    """Whether Messenger or Instagram wrote a text, such as `Ben named the group Garden.`

    Args:
        text: of a message.
        others: the names of those in the chat who did not send it, since the sender may tell what they did.
    """
    plain = _plain(text) if len(text) <= MAX_NOTICE else ""
    if _MESSENGER.fullmatch(plain):
        return True
    match = _BY_SENDER.fullmatch(plain)
    return match is not None and match["name"] not in {
        part for name in others for part in (_plain(name), _plain(name.partition(" ")[0]))
    }


def _may_follow(kind: str, rest: str) -> bool:
    if kind == "deleted":
        return rest.startswith(" ") and _ADMIN.fullmatch(rest[1:]) is not None
    if kind == "call":
        return _AFTER_CALL.fullmatch(rest) is not None
    return not rest or (rest[0] in ".。।۔…" and "\n" not in rest)


def _is_poll(text: str) -> bool:
    """Whether a text is `POLL:`, the question, and lines such as `OPTION: eight (2 votes)`, in any language."""
    first, *lines = (_INVISIBLE.sub("", line).strip() for line in text.splitlines() or [""])
    options = [match[1] for line in lines if (match := _OPTION.fullmatch(line))]
    return _POLL.fullmatch(first) is not None and len(options) > 1 and len(set(options)) == 1


def without_marks(text: str) -> str:
    """A message without the note that it was edited, and without what is in place of its picture or file."""
    text = _EDITED.sub("", text)
    before, mark, last = text.rpartition("\u200e")
    if mark and _KINDS.get(_plain(last)) == "media":
        return before
    if text.startswith("<") and _KINDS.get(_plain(text[1:].partition(">")[0])) == "media":  # in a browser's export
        return text.partition(">")[2]
    return text


def is_forwarded(text: str) -> bool:
    """Whether a text begins with a note such as `[Forwarded]`, as WhatsApp in a browser writes."""
    mark, closing, _ = text.removeprefix("[").partition("] ")
    return text.startswith("[") and bool(closing) and _plain(mark) in _PHRASES["forwarded"]
