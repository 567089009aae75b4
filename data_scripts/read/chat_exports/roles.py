"""Conversations with assistants as lists of messages with roles: `messages` (OpenAI), `conversations` (ShareGPT) and
`contents` (Gemini).

Each record of JSON lines, a JSON array or Parquet is a conversation.
"""

from functools import partial
from typing import Any

from data_scripts.read.chat_exports import RecordExport
from data_scripts.read.files import BrokenLineError
from data_scripts.read.messages import ChatLog, Items, Message, list_of_objects, name_of_content, required_text
from data_scripts.read.records import Records

NAME = "messages with roles"
SILENT_ROLES = {"system", "developer", "tool", "function", "function_call", "observation"}


def _read(log: ChatLog, records: Records, key: str, role_key: str, text_key: str) -> Items:
    """The messages of each record, whose field `key` is a list of messages with a role and a content.

    A conversation is named after its content, so that its name does not depend on the other records of the file; of
    equal conversations, the first is used.
    """
    for location, record in records.rows({key}):
        try:
            messages = [
                (required_text(message, role_key), content_text(message.get(text_key)))
                for message in list_of_objects(record.get(key), key)
            ]
        except BrokenLineError as error:
            log.broken.add(error.args[0], location, error.args[1])
            continue
        name = name_of_content(messages)
        for position, (role, text) in enumerate(messages):
            if role in SILENT_ROLES:
                log.leave_out(f"role {role}")
            elif text is None:  # an assistant that calls a tool
                log.leave_out("no content")
            else:
                thread, speaker = f"{log.name}/{name}", speaker_of_role(role)
                yield location, Message(f"{name}/{position}", None, thread, speaker, None, text, log.name, None)


def speaker_of_role(role: str) -> str:
    """The speaker of a role: its name, or "assistant" for roles such as "chatbot"."""
    return "assistant" if "bot" in role.lower() else role  # the rule against bots is about authors, not about roles


def content_text(value: Any) -> str | None:
    """The text of a message's content, which is a text or a list of parts, some of them texts."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise BrokenLineError(
            "wrong type", f"content should be a text or a list of parts, found {type(value).__name__}"
        )
    texts = (part.get("text") if isinstance(part, dict) else part for part in value)
    return "\n".join(text for text in texts if isinstance(text, str))


EXPORTS = (
    RecordExport(
        NAME,
        ("messages",),
        partial(_read, key="messages", role_key="role", text_key="content"),
        message_fields=("role",),
    ),
    RecordExport(
        NAME,
        ("conversations",),
        partial(_read, key="conversations", role_key="from", text_key="value"),
        message_fields=("from", "value"),
    ),
    RecordExport(
        NAME,
        ("contents",),
        partial(_read, key="contents", role_key="role", text_key="parts"),
        message_fields=("role", "parts"),
    ),
)
