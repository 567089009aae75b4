"""ChatGPT's export of a user's data (conversations.json): a tree of messages for each conversation.

A tree branches where the user edited a message or asked for another answer.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from data_scripts.chats.formats import Format
from data_scripts.chats.formats.roles import SILENT_ROLES, content_text, speaker_of_role
from data_scripts.chats.messages import ChatLog, Items, LeftOutError, Message, label, required_text
from data_scripts.files.records import Record
from data_scripts.files.texts import BrokenLineError

ID_FIELDS = ("conversation_id", "id")


def _read(log: ChatLog) -> Items:
    for location, record in log.records.rows({"mapping", *ID_FIELDS}, log.broken):
        if not (parsed := log.attempt(location, _parse_tree, record)):
            continue
        conversation, parents, messages = parsed
        texts = {}
        for node, message in messages.items():
            if found := log.attempt(location, _parse_message, message):
                texts[node] = found
        if not conversation:  # named after its content, so that the name does not depend on the other records
            conversation = hashlib.sha256(json.dumps(sorted(texts.items())).encode()).hexdigest()[:16]
        for node, (answered, role, text) in _join_runs(parents, texts).items():
            parent = f"{conversation}/{answered}" if answered else ""
            thread = f"{log.name}/{conversation}"
            yield location, Message(f"{conversation}/{node}", parent, thread, role, None, text, log.name, None)


def _parse_tree(record: Record) -> tuple[str, dict[str, str], dict[str, Any]]:
    """The id of a conversation or "", node -> its parent or "", and node -> its message if it has one."""
    conversation = next(filter(None, (label(record, name) for name in ID_FIELDS)), "")
    nodes = record.get("mapping")
    if not isinstance(nodes, dict) or not all(isinstance(node, dict | None) for node in nodes.values()):
        raise BrokenLineError("wrong type", "mapping should be an object of objects")
    messages = {name: node and node["message"] for name, node in nodes.items() if not node or node.get("message")}
    return conversation, {name: label(node, "parent") for name, node in nodes.items() if node}, messages


def _parse_message(message: Any) -> tuple[str, str]:
    """The role and the text of a message; raises LeftOutError if it is not shown."""
    parts = [message.get(key) or {} for key in ("author", "content", "metadata")] if isinstance(message, dict) else []
    if not parts or not all(isinstance(part, dict) for part in parts):
        raise BrokenLineError("wrong type", "message, author, content and metadata should be objects")
    author, content, metadata = parts
    role = required_text(author, "role")
    if role in SILENT_ROLES:
        raise LeftOutError(f"role {role}")
    if (message.get("recipient") or "all") != "all":
        raise LeftOutError("to a tool")
    kind = content.get("content_type") or "text"
    if metadata.get("is_visually_hidden_from_conversation") or kind not in ("text", "multimodal_text"):
        raise LeftOutError("hidden or no text")
    return speaker_of_role(role), content_text(content.get("parts")) or ""


def _join_runs(parents: dict[str, str], texts: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str, str]]:
    """Join each run of nodes with the same role; the last node identifies a run.

    Args:
        parents: node -> the one above it, or "".
        texts: node -> (role, text), of the nodes that have a text.

    Returns:
        The last node of a run -> (the node that the run answers or "", role, text).
    """
    above = {node: next((up for up in _ancestors(node, parents) if up in texts), "") for node in texts}
    continued = {up for node, up in above.items() if up and texts[up][0] == texts[node][0]}
    answered_by_other = {up for node, up in above.items() if up and texts[up][0] != texts[node][0]}
    joined = {}
    for node, (role, text) in texts.items():
        if node in continued - answered_by_other:
            continue
        run, answered = [text], ""
        for up in _ancestors(node, above):
            if texts[up][0] != role:
                answered = up
                break
            run.append(texts[up][1])
        joined[node] = answered, role, " ".join(filter(None, reversed(run)))
    return joined


def _ancestors(node: str, parents: dict[str, str]) -> Iterator[str]:
    """The ancestors of a node, the parent first; stops at a cycle, which a broken tree may have."""
    seen = {node}
    while (up := parents.get(node)) and up not in seen:
        yield up
        seen.add(up)
        node = up


FORMATS = (Format("ChatGPT", _read, fields=("mapping",), has_pauses=False),)
