"""Mailboxes: .mbox, as mail programs and Google Takeout write it, Apple Mail's folder, the .txt of Mailman's archives.

An email answers the one named by its In-Reply-To or References, in any file of the command; an email from Google
without an id answers the previous one in its thread. Its text is what the sender wrote: without quoted lines, the lines
that introduce them, and the signature.
"""

import re
from collections.abc import Iterator
from email import message_from_bytes
from email.errors import MessageError
from email.header import decode_header, make_header
from email.message import Message as Mail
from email.utils import getaddresses, parsedate_to_datetime

from data_scripts.boilerplate.quotations import written_text
from data_scripts.chats.formats import Format
from data_scripts.chats.messages import ChatLog, Items, LeftOutError, Message
from data_scripts.chats.sample import Sample
from data_scripts.clean.text import html_to_text
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.texts import BrokenLineError, TextFile

SUFFIX, APPLE_FILE = ".mbox", "mbox"
MAX_BYTES = 1 << 20  # of a mail: its text comes first, and its attachments after that are not needed
SOURCE = "mail"  # of all mailboxes, because a mail may answer one of another file, such as that of the sent ones
# With the day of the week, the time and the year; Thunderbird may write neither sender nor date.
_START = re.compile(rb"From (?:\S.*\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b.*\d\d:\d\d.*\b\d{4}\b|\s*$)")
_HEADER = re.compile(rb"[!-9;-~]+:")
_ID = re.compile(r"<\s*([^<>\s]+)\s*>")
_QUOTATION = re.compile("<blockquote", re.IGNORECASE)
_FORWARD = re.compile(
    r"\s*(?:Fwd?|WG|TR|RV|ENC|PD|VS|VB|Doorst|İLT|Továbbítás|Πρθ|转发|轉寄|転送)\s?[:：]", re.IGNORECASE
)


def _matches(sample: Sample) -> bool:
    if sample.path.is_dir():  # as Apple Mail exports a mailbox
        return sample.path.suffix == SUFFIX and (sample.path / APPLE_FILE).is_file()
    if sample.form != ".txt":
        return sample.form == SUFFIX
    first, _, rest = sample.file.head.partition(b"\n")  # of an archive
    return _START.match(first) is not None and _HEADER.match(rest) is not None


def _read(log: ChatLog) -> Items:
    file = log.path / APPLE_FILE if log.path.is_dir() else log.path
    text = log.sample.file if log.sample and file == log.path else TextFile.read(file)

    def parse(content: bytes) -> Message:
        try:
            return _parse(message_from_bytes(content))
        except RecursionError as error:
            raise BrokenLineError("mail with too many parts within parts", "") from error

    return log.parse_each(_mails(log, text), parse, f"{log.name}/")


def _mails(log: ChatLog, text: TextFile) -> Iterator[tuple[str, bytes]]:
    """The location and the first `MAX_BYTES` of each mail, which begins with a `From ` line after a blank one.

    Raises:
        InputError: there is none.
    """
    location, lines, size, after_blank = "", list[bytes](), 0, True
    for line_location, line in text.lines():
        if after_blank and _START.match(line):
            if location:
                yield location, b"\n".join(lines)
            location, lines, size = line_location, [], 0
        elif not location:
            if line.strip():
                log.broken.add("line before the first mail", line_location)
        elif size <= MAX_BYTES:
            lines.append(line.removeprefix(b">" if line.startswith(b">From ") else b"")[:MAX_BYTES])
            size += len(line)
        after_blank = not line.strip()
    if not location:
        raise InputError(
            f"{log.path}: no line such as 'From ann@example.org Mon Mar 4 10:00:00 2024'; one must precede each email"
        )
    yield location, b"\n".join(lines)


def _parse(mail: Mail) -> Message:
    if _header(mail, "Auto-Submitted").lower().strip() not in ("", "no"):
        raise LeftOutError("automatic mail")
    if _FORWARD.match(_header(mail, "Subject")):  # it may name what it forwards as what it answers
        raise LeftOutError("forwarded")
    text = written_text(_body(mail))
    if not text:
        raise LeftOutError("mail without text")
    sender = _header(mail, "From")
    names, thread = _ID.findall(_header(mail, "Message-ID")), _header(mail, "X-GM-THRID") or None
    answered = _ID.findall(_header(mail, "In-Reply-To")) or _ID.findall(_header(mail, "References"))[-1:]
    parent = answered[0] if answered else "" if names or not thread else None  # None: the one before it in the thread
    address = getaddresses([sender])[0][1] if sender else ""
    speaker = (address.lower() if "@" in address else sender) or None
    time = _time(_header(mail, "Date"))
    return Message(names[0] if names else "", parent, thread, speaker, time, text, SOURCE, None)


def _header(mail: Mail, name: str) -> str:
    value = str(mail.get(name, ""))
    try:
        return " ".join(str(make_header(decode_header(value))).split())
    except (LookupError, ValueError, MessageError):  # an encoding that does not exist, or text that is not in it
        return " ".join(value.split())


def _time(date: str) -> float | None:
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, TypeError, OverflowError):  # there is none; what a mail answers does not depend on it
        return None


def _body(mail: Mail) -> str:
    """The text of a mail: its first plain part, or else the first that is HTML."""
    found: dict[str, str] = {}
    for part in mail.walk():
        kind = part.get_content_type()
        if kind not in ("text/plain", "text/html") or kind in found or part.get_content_disposition() == "attachment":
            continue
        content = part.get_payload(decode=True)
        if isinstance(content, bytes):
            found[kind] = _decoded(content, part.get_content_charset("utf-8"))
    plain = found.get("text/plain", "")
    if plain.strip():
        return plain
    # A quotation becomes a quoted line, and each line a paragraph, because HTML does not wrap what introduces it.
    html = _QUOTATION.sub(r"<p>&gt;</p>\g<0>", found.get("text/html", ""))
    return html_to_text(html).replace("\n", "\n\n")


def _decoded(content: bytes, charset: str) -> str:
    try:
        return content.decode(charset, "replace")
    except (LookupError, ValueError):  # a name that is no encoding
        return content.decode("utf-8", "replace")


FORMATS = (Format("mailbox", _read, _matches, suffixes=(SUFFIX,)),)
