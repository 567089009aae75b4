"""Messenger's and Instagram's JSON (message_1.json), and Messenger's of encrypted chats: a file for each chat.

Facebook writes each byte of a text in UTF-8 as a character of its own: "Jürgen" is "J\\u00c3\\u00bcrgen". The newest
message is the first one. The files of encrypted chats have neither fault, and other names for the fields. A long chat
has several files; an edited message follows its older version, and ends with `(edited)`.
"""

import re
from difflib import SequenceMatcher

from data_scripts.boilerplate.notices import is_messenger_notice, without_added
from data_scripts.chats.formats import Format
from data_scripts.chats.messages import ChatLog, Fields, Items, LeftOutError, Message, Messages
from modeling_convsim.files.records import Record

ENCRYPTED = {"senderName": "sender_name", "timestamp": "timestamp_ms", "text": "content", "isUnsent": "is_unsent"}
NOTICES = ("Call", "Subscribe", "Unsubscribe", "placeholder")  # types of messages
MAX_EDIT = 1000.0  # seconds after it was sent: 15 minutes, and some for the network
EARLIER = 100  # messages in which an older version is looked for
ALIKE = 0.5  # an older version has so many of the words of the shorter text, or of the characters


def _read(log: ChatLog) -> Items:
    needed = {"messages", "participants", "thread_path", "threadName"}
    for number, (location, record) in enumerate(log.records.rows(needed, log.broken), start=1):
        chat = _Chat(log, f"{log.name}/{number}", record)
        messages = log.objects(location, record.get("messages"), "messages")
        messages = messages if chat.is_encrypted else messages[::-1]
        yield from _newest_versions(log, log.parse_each(messages, chat.parse, f"{chat.name}/"))


class _Chat:
    """Parses the messages of a chat, the oldest first."""

    def __init__(self, log: ChatLog, name: str, record: Record) -> None:
        self.log, self.name, self.is_encrypted = log, name, "threadName" in record
        path = str(record.get("thread_path") or "")  # the same in all files of a chat
        self.thread, self.source = path or name, path or log.name
        people = record["participants"] if isinstance(record.get("participants"), list) else []
        names = (each.get("name") if isinstance(each, dict) else each for each in people)
        self.people = {_decode(str(name)) for name in names}

    def parse(self, record: Record) -> Message:
        message = Fields({ENCRYPTED.get(field, field): value for field, value in record.items()})
        text, speaker = message.label("content"), message.label("sender_name")
        if not self.is_encrypted:
            text, speaker = _decode(text), _decode(speaker)
        if message.get("is_unsent"):
            raise LeftOutError("deleted")
        is_call = message.get("type") in NOTICES or message.get("call_duration") is not None
        if is_call or is_messenger_notice(text, self.people - {speaker}):
            raise LeftOutError("notice")
        if not text.strip():
            raise LeftOutError("no text")
        time, gap = message.seconds("timestamp_ms"), self.log.channel_gap
        return Message("", None, self.thread, speaker or None, time, text, self.source, gap)


def _newest_versions(log: ChatLog, messages: Messages) -> Messages:
    """The messages in their order; those that were edited have the newest text at the time of the oldest."""
    kept: list[tuple[str, Message]] = []
    for location, message in messages:
        text, older = without_added(message.text, "Messenger"), (0.0, 0)
        for number in range(max(len(kept) - EARLIER, 0), len(kept)) if text != message.text else ():
            other = kept[number][1]
            if other.speaker == message.speaker and (message.time or 0) - (other.time or 0) <= MAX_EDIT:
                older = max(older, (_likeness(other.text, text), number))
        if older[0]:
            kept[older[1]] = location, kept[older[1]][1]._replace(text=text)
            log.leave_out("older version")
        else:
            kept.append((location, message._replace(text=text)))
    yield from kept


def _likeness(one: str, other: str) -> float:
    """The share of equal characters; 0 if the texts may not be versions of one."""
    words = [{*re.findall(r"\w+", text.casefold())} for text in (one, other)]
    ratio = SequenceMatcher(None, one, other, autojunk=False).ratio()
    shared = len(words[0] & words[1]) / (min(map(len, words)) or 1)
    return ratio if max(ratio, shared) >= ALIKE else 0.0


def _decode(text: str) -> str:
    """The text of characters that stand for bytes; unchanged if they do not."""
    try:
        return text.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return text


FORMATS = (
    Format("Messenger or Instagram", _read, fields=("participants", "messages", "title", "thread_path")),
    Format("Messenger, encrypted chat", _read, fields=("participants", "threadName", "messages")),
)
