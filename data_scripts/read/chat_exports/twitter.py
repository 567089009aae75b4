"""Direct messages in the archive of X or Twitter, `direct-messages.js`: conversations, newest message first."""

import json
import re
from pathlib import Path
from typing import Any

from data_scripts.errors import InputError
from data_scripts.read.chat_exports import PathExport
from data_scripts.read.files import UNREADABLE, BrokenLineError, unpacked
from data_scripts.read.messages import (
    CHANNEL_GAP,
    ChatLog,
    Items,
    Message,
    label,
    list_of_objects,
    object_field,
    required_label,
    required_text,
    seconds,
)
from data_scripts.read.records import form_of

SUFFIX = ".js"
_BEGINNING = re.compile(rb"(?:\xef\xbb\xbf)?\s*window\.YTD\.direct_messages?(?:_group)?\.part\d+\s*=\s*(?=\[)")


def _recognizes(path: Path) -> bool:
    return form_of(path) == SUFFIX and path.is_file()


def _read(log: ChatLog) -> Items:
    for number, element in enumerate(_elements(log.path), start=1):
        location = f"{log.path}: conversation {number}"
        try:
            conversation = object_field(element, "dmConversation")
            thread = f"{log.name}/{required_label(conversation, 'conversationId')}"
            messages = list_of_objects(conversation.get("messages"), "messages")
        except BrokenLineError as error:
            log.broken.add(error.args[0], location, error.args[1])
            continue
        for position, message in reversed(list(enumerate(messages, start=1))):
            message_location = f"{location}, message {position}"
            try:
                if "messageCreate" not in message:
                    log.leave_out(next(iter(message), "empty object"))
                    continue
                created = object_field(message, "messageCreate")
                text = required_text(created, "text")
                if not text.strip():
                    log.leave_out("no text")
                    continue
                name, speaker, time = (
                    required_label(created, "id"),
                    label(created, "senderId"),
                    created.get("createdAt"),
                )
                gap = CHANNEL_GAP if log.gap is None else log.gap
                yield message_location, Message(name, None, thread, speaker or None, seconds(time), text, log.name, gap)
            except BrokenLineError as error:
                log.broken.add(error.args[0], message_location, error.args[1])


def _elements(path: Path) -> list[Any]:
    """The conversations; raises InputError if these are others than direct messages, or the file cannot be read."""
    try:
        with path.open("rb") as raw:
            content = unpacked(raw, path.suffix).read()
        beginning = _BEGINNING.match(content)
        if not beginning:
            raise InputError(f"{path}: not a file of direct messages; name direct-messages.js of an archive of X")
        return json.loads(content[beginning.end() :])
    except (EOFError, RecursionError, ValueError, *UNREADABLE) as error:
        raise InputError(f"{path}: cannot be read as an archive of X ({error}); download the archive again") from error


EXPORTS = (PathExport("X (Twitter)", _recognizes, _read, suffixes=(SUFFIX,)),)
