"""Conversations with assistants as lists of messages with roles: `messages` (OpenAI), `conversations` (ShareGPT),
`contents` (Gemini) and `chat_messages` (Claude's export).

Each record of JSON lines, a JSON array or Parquet is a conversation.
"""

from functools import partial
from itertools import chain
from typing import Any

from data_scripts.chats.column_roles import answering_roles
from data_scripts.chats.formats import Format
from data_scripts.chats.messages import ChatLog, Fields, Items, Message, name_of_content, wrong_type
from modeling_convsim.files.records import Record

NAME = "messages with roles"
SILENT_ROLES = {"system", "developer", "tool", "function", "function_call", "observation"}


def _read(log: ChatLog, key: str, role_key: str, text_keys: tuple[str, ...]) -> Items:
    """The messages of each record, whose field `key` is a list of messages with a role and a content.

    A conversation is named after its content, so that its name does not depend on the other records of the file; of
    equal conversations, the first is used. Bots are left out where people answer, too.
    """
    lists = [found for record in log.records.sample if isinstance(found := record.get(key), list)]
    roles = {str(each.get(role_key)) for each in chain.from_iterable(lists) if isinstance(each, dict)} - SILENT_ROLES
    bots = answering_roles(roles - {*answering_roles(roles)})

    def parse(message: Record) -> tuple[str, str | None]:
        texts = [content_text(message.get(name)) for name in text_keys]
        return Fields(message).text(role_key), next(filter(None, texts), texts[0])

    for location, record in log.records.rows({key}, log.broken):
        parsed = [log.attempt(where, parse, each) for where, each in log.objects(location, record.get(key), key)]
        messages = [message for message in parsed if message]
        name = name_of_content(messages)
        for position, (role, text) in enumerate(messages):
            if role in SILENT_ROLES:
                log.leave_out(f"role {role}")
            elif role in bots:
                log.leave_out("bot")
            elif text is None:  # an assistant that calls a tool
                log.leave_out("no content")
            else:
                # The rule against bots is about authors, not about roles such as chatbot.
                thread, speaker = f"{log.name}/{name}", "assistant" if "bot" in role.lower() else role
                yield location, Message(f"{name}/{position}", None, thread, speaker, None, text, log.name, None)


def content_text(value: Any) -> str | None:
    """The text of a message's content, which is a text or a list of parts, some of them texts."""
    if value is None:
        return None
    if not isinstance(value, str | list):
        raise wrong_type("content", "a text or a list of parts", value)
    parts = value if isinstance(value, list) else [value]
    texts = (part.get("text") if isinstance(part, dict) else part for part in parts)
    return "\n".join(text for text in texts if isinstance(text, str))


FORMATS = tuple(
    Format(
        NAME,
        partial(_read, key=key, role_key=role, text_keys=texts),
        fields=(key,),
        message_fields=fields,
        has_pauses=False,
    )
    for key, role, texts, fields in (
        ("messages", "role", ("content",), ("role",)),
        ("conversations", "from", ("value",), ("from", "value")),
        ("contents", "role", ("parts",), ("role", "parts")),
        ("chat_messages", "sender", ("content", "text"), ("sender",)),
    )
)
