"""What the sender of a mail wrote: the text without quotations, what introduces them, and the signature."""

import re

_QUOTED = re.compile(r"\s{0,3}(?:>|\|(?= )|[^\W\d_]{1,9}>(?=\s))")  # also after the initials or name of the author
_SIGNED = re.compile(r"-----BEGIN PGP SIGNED MESSAGE-----(?:\r?\nHash: .*)?")
_SIGNATURE = re.compile(
    r"--\s?|—|_{3,}|\w+(?: \w+){0,2} Outlook (?:for|für|pour|para|per|voor) \w+\s?(?:<\S+>)?|\w{3,12}から送信|"
    r"(?:(?:This message was s|S)ent from my|(?:Diese Nachricht wurde v|V)on meinem|Verstuurd vanaf mijn|Wysłane z|"
    r"Отправлено (?:с|из)) \w.{0,80}|Gesendet mit der .{0,20}\bApp"
)
# `-----Original Message-----`, in any language, or the lines that Outlook writes in its place.
_ORIGINAL = re.compile(r"\s*(?:-{3,}|_{3,})\s?[^\W\d_][^-_]{3,40}(?:-{3,}|_{3,})\s*")
_FROM = (
    r"(?:From|Von|De|Da|Van|Od|Från|Fra|Lähettäjä|От|От кого|Від|Kimden|Gönderen|差出人|发件人|寄件者|寄件人|"
    r"보낸 사람|Feladó|Από|מאת|من|De la|Dari|Từ|จาก)\s?[:：]"
)
_OUTLOOK = re.compile(rf"\s*\*?{_FROM}\*?\s*\S")
_OUTLOOK_NEXT = re.compile(r"\s*\*?[^\W\d_][^\W\d_]{0,15}(?: [^\W\d_]{1,12})?\s?[:：]\*?\s*\S")
# The line before a quotation, such as `On 4 March 2024, Ann wrote:`, has a date or an address, or one of these words.
_WROTE = (
    r"\b(?:wrote|writes|said|schrieb|écrit|escribió|ha scritto|schreef|escreveu|skrev|napisał|kirjoitti|yazdı|написал)"
)
_FORWARDS = r"\b(?:forwarded|weitergeleitete|réexpédié|transféré|inoltrato|reenviado|reencaminhada|doorgestuurd)"
_INTRODUCES = re.compile(rf"\d|@|{_WROTE}|{_FORWARDS}")
_UNQUOTED = re.compile(rf"\s*\S.*\b\d{{4}}\b.*\d{{1,2}}[:.]\d\d.*{_WROTE}.{{0,12}}:\s*")  # before lines without marks
_ABOVE = re.compile(r".*\breply above this line\b.*", re.IGNORECASE)  # of help desks
MAX_INTRODUCTION = 4  # lines
_AUTHORS = r"(?:wrote|schrieb|écrit|escribió|scritto|schreef|escreveu|skrev|napisał|написал)[^\n:]{0,60}:"
_SENT = (  # or the subject: journeys, too, have "From:" and "To:"
    r"(?:Sent|Subject|Gesendet|Betreff|Envoyé|Objet|Enviad[oa](?: el)?|Asunto|Assunto|Inviato|Oggetto|Verzonden|"
    r"Onderwerp|Skickat|Ämne|Wysłano|Temat|Отправлено|Тема)\s?[:：]"
)
_ORIGINAL_WITHIN = (
    r"-{3,}[ \t]?(?:Original|Ursprüngliche|Forwarded|Weitergeleitete|Message d['’]origine|Mensaje original|Messaggio|"
    r"Mensagem|Oorspronkelijk|Wiadomość|Исходное)[^\n-]{0,30}-{3,}"
)
# RE2 finds every text that quotes a mail, and few others.
SUSPECT = rf"{_ORIGINAL_WITHIN}|{_AUTHORS}|{_SENT}|(?i:reply above this line)"
_SUSPECT, _HAS_AUTHOR = (
    re.compile(SUSPECT),
    re.compile(rf"[\d@].{{1,200}}{_AUTHORS}|{_FROM}|---|(?i:reply above)", re.DOTALL),
)
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
