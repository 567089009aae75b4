"""Direct messages in the archive of X or Twitter, `direct-messages.js`: conversations, newest message first."""

import json
import re
from functools import partial
from typing import Any

from data_scripts.chats.formats import Format
from data_scripts.chats.messages import (
    ChatLog,
    Items,
    LeftOutError,
    Message,
    label,
    object_field,
    required_label,
    required_text,
    seconds,
)
from data_scripts.files.errors import InputError
from data_scripts.files.records import Record

SUFFIX = ".js"
_BEGINNING = re.compile(rb"\s*window\.YTD\.direct_messages?(?:_group)?\.part\d+\s*=\s*(?=\[)")


def _read(log: ChatLog) -> Items:
    for number, element in enumerate(_elements(log), start=1):
        location = f"{log.path}: conversation {number}"
        conversation = log.attempt(location, object_field, element, "dmConversation") or {}
        if conversation and (name := log.attempt(location, required_label, conversation, "conversationId")):
            located = log.objects(location, conversation.get("messages"), "messages")
            yield from log.parse_each(reversed(located), partial(_parse_message, log, name))


def _parse_message(log: ChatLog, conversation: str, message: Record) -> Message:
    if "messageCreate" not in message:
        raise LeftOutError(next(iter(message), "empty object"))
    created = object_field(message, "messageCreate")
    text = required_text(created, "text")
    if not text.strip():
        raise LeftOutError("no text")
    name, speaker, thread = required_label(created, "id"), label(created, "senderId"), f"{log.name}/{conversation}"
    time = seconds(created.get("createdAt"))
    return Message(name, None, thread, speaker or None, time, text, log.name, log.channel_gap)


def _elements(log: ChatLog) -> list[Any]:
    """The conversations; raises InputError if these are others than direct messages, or the file cannot be read."""
    with log.text.open() as stream:
        content = stream.read()
    beginning = _BEGINNING.match(content)
    if not beginning:
        raise InputError(f"{log.path}: not a file of direct messages; name direct-messages.js of an archive of X")
    try:
        return json.loads(content[beginning.end() :])
    except (RecursionError, ValueError) as error:
        raise InputError(
            f"{log.path}: cannot be read as an archive of X ({error}); download the archive again"
        ) from error


FORMATS = (Format("X (Twitter)", _read, lambda sample: sample.form == SUFFIX, suffixes=(SUFFIX,)),)
