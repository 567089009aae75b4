"""Messenger's and Instagram's JSON (message_1.json), and Messenger's of encrypted chats: a file for each chat.

Facebook writes each byte of a text in UTF-8 as a character of its own: "Jürgen" is "J\\u00c3\\u00bcrgen". The newest
message is the first one. The files of encrypted chats have neither fault, and other names for the fields.
"""

import re
from dataclasses import dataclass
from functools import partial

from data_scripts.chats.formats import Format
from data_scripts.chats.messages import ChatLog, Fields, Items, LeftOutError, Message
from modeling_convsim.files.records import Record


@dataclass(frozen=True)
class _Names:
    """The names of a message's fields.

    Attributes:
        is_encrypted: whether the chat was; otherwise the newest message is the first one, and a character stands for a
            byte of UTF-8.
    """

    speaker: str
    time: str
    text: str
    unsent: str
    is_encrypted: bool


PLAIN = _Names("sender_name", "timestamp_ms", "content", "is_unsent", is_encrypted=False)
ENCRYPTED = _Names("senderName", "timestamp", "text", "isUnsent", is_encrypted=True)
NOTICES = ("Call", "Subscribe", "Unsubscribe", "placeholder")  # types of messages
_NOTICE = re.compile(  # in the account's language
    r"(?:Liked a message|Reacted \S+ to your message|.{1,100} sent (?:an attachment|a (?:photo|video|voice message))\.|"
    r"You (?:missed|unsent) a .{1,40}|.{1,60} missed your (?:video )?(?:call|chat)\.|"
    r"Gefällt eine Nachricht|Hat eine Nachricht mit „Gefällt mir“ markiert|Hat mit \S+ auf .{1,20}Nachricht reagiert|"
    r".{1,100} (?:hat|hast) ein(?:en|e) (?:Anhang|Foto|Video|Sprachnachricht) gesendet\.|"
    r"(?:Du hast|.{1,60} hat) .{0,20}(?:Anruf|Videochat) von .{1,60}verpasst\.|"
    r"A aimé un message|A réagi (?:avec )?\S+ à .{1,20}message|.{1,100} (?:a|avez) envoyé une pièce jointe\.|"
    r"(?:Le gustó|Indicó que le gusta) un mensaje|(?:Reaccionó|Ha reaccionado) con \S+ a .{1,20}mensaje|"
    r".{1,100} (?:envió|ha enviado|enviaste|has enviado) un archivo adjunto\.|"
    r"Ha messo Mi piace a un messaggio|Ha reagito con \S+ al .{1,20}messaggio|.{1,100} hai? inviato un allegato\.|"
    r"Curtiu uma mensagem|Reagiu com \S+ à .{1,20}mensagem|.{1,100} enviou um anexo\.|"
    r"Vindt een bericht leuk|Heeft met \S+ gereageerd op .{1,20}bericht|.{1,100} hebt? een bijlage verzonden\.|"
    r"Polubił\(a\) wiadomość|Zareagował(?:\(a\)|a)? \S+ na .{1,20}wiadomość|.{1,100} wysłał(?:\(a\)|a)? załącznik\.|"
    r".{1,100} bir ek gönderdi\.|.{1,100} отправила?(?:\(-а\)|\(а\))? вложение\.)\s*"
)


def _read(log: ChatLog, names: _Names) -> Items:
    for chat, (location, record) in enumerate(log.records.rows({"messages"}, log.broken), start=1):
        listed = log.objects(location, record.get("messages"), "messages")
        messages = [(where, (number, message)) for number, (where, message) in enumerate(listed, start=1)]
        parse = partial(_parse_message, log, chat, names)
        yield from log.parse_each(messages if names.is_encrypted else reversed(messages), parse)


def _parse_message(log: ChatLog, chat: int, names: _Names, entry: tuple[int, Record]) -> Message:
    number, message = entry[0], Fields(entry[1])
    text, speaker = message.label(names.text), message.label(names.speaker)
    if not names.is_encrypted:
        text, speaker = _decode(text), _decode(speaker)
    if message.get(names.unsent):
        raise LeftOutError("deleted")
    if message.get("type") in NOTICES or _NOTICE.fullmatch(text):
        raise LeftOutError("notice")
    if not text.strip():
        raise LeftOutError("no text")
    time, thread = message.seconds(names.time), f"{log.name}/{chat}"
    return Message(f"{chat}/{number}", None, thread, speaker or None, time, text, log.name, log.channel_gap)


def _decode(text: str) -> str:
    """The text of characters that stand for bytes; unchanged if they do not."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


FORMATS = (
    Format(
        "Messenger or Instagram",
        partial(_read, names=PLAIN),
        fields=("participants", "messages", "title", "thread_path"),
    ),
    Format(
        "Messenger, encrypted chat",
        partial(_read, names=ENCRYPTED),
        fields=("participants", "threadName", "messages"),
    ),
)
