"""Reads chat logs of any form: tables, conversations with assistants, and what chat programs export.

Every file becomes messages, each of which says what it answers, or pairs that are ready. `conversations` joins them.
"""

import json
import re
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tqdm import tqdm

from data_scripts.errors import InputError
from data_scripts.read.files import BrokenLineError
from data_scripts.read.records import DISCORD_HEADER, Record, Records, check_records, read_records
from data_scripts.read.tables import ChatLog, Items, Message, label, read_table, required_label, required_text, seconds

CHANNEL_GAP = 3600.0  # seconds: a longer pause ends a conversation in a channel of Slack or Discord
SILENT_ROLES = {"system", "developer", "tool", "function", "function_call", "observation"}
DISCORD_TYPES = ("Default", "Reply")  # the others tell of joins, pins, calls
SLACK_SUBTYPES = (None, "thread_broadcast", "me_message", "file_share")  # the others are no one's words
SLACK_FILES = ("users.json", "channels.json", "groups.json", "dms.json", "mpims.json")
_SLACK_MARKUP = re.compile(r"<([^<>|]+)(?:\|([^<>]*))?>")


def check_log(path: Path) -> None:
    """Refuse what cannot be an input before any is read.

    Raises:
        InputError: the file is missing, empty or of an unknown ending, or a folder or .zip is no Slack export.
    """
    if not _is_slack(path):
        check_records(path)
    elif not any((_slack_root(path) / name).exists() for name in SLACK_FILES):
        raise InputError(
            f"{path}: no Slack export: none of {', '.join(SLACK_FILES)} in it; name the files in it instead"
        )


def read_log(log: ChatLog) -> Items:
    """Every message or pair of a file, with its place. What the file is shows in its name and its first record.

    Raises:
        InputError: the file cannot be read to its end, or its columns are not known.
    """
    if _is_slack(log.path):
        yield from _slack(log)
        return
    records = read_records(log.path, log.broken)
    columns = set() if log.columns else set(records.columns)
    if columns >= {*DISCORD_HEADER, "messages"}:
        yield from _discord(log, records)
    elif "mapping" in columns:
        yield from _chatgpt_export(log, records)
    elif "messages" in columns:
        yield from _roles(log, records, "messages", "role", "content")
    elif "conversations" in columns:
        yield from _roles(log, records, "conversations", "from", "value")
    else:
        yield from read_table(log, records)


# Conversations with assistants


def _roles(log: ChatLog, records: Records, key: str, role_key: str, text_key: str) -> Items:
    """Records of a conversation each: a list of messages that have a role and a content."""
    for number, (place, record) in enumerate(records.rows({key}), start=1):
        try:
            said = [
                (required_text(message, role_key), _content(message.get(text_key)))
                for message in _objects(record.get(key), key)
            ]
        except BrokenLineError as error:
            log.broken.add(error.args[0], place, error.args[1])
            continue
        for position, (role, text) in enumerate(said):
            if role in SILENT_ROLES:
                log.left_out[f"role {role}"] += 1
            elif text is None:  # an assistant that calls a tool
                log.left_out["no content"] += 1
            else:
                thread = f"{log.name}/{number}"
                yield place, Message(f"{number}/{position}", None, thread, _speaker(role), None, text, log.name, None)


def _speaker(role: str) -> str:
    return "assistant" if "bot" in role.lower() else role  # the rule against bots is for authors, not for roles


def _objects(value: Any, name: str) -> list[Record]:
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise BrokenLineError("wrong type", f"{name} should be a list of objects")
    return value


def _content(value: Any) -> str | None:
    """The text of a message's content: a text, or a list of parts of which some are texts."""
    if value is None or isinstance(value, str):
        return value
    if not isinstance(value, list):
        raise BrokenLineError(
            "wrong type", f"content should be a text or a list of parts, found {type(value).__name__}"
        )
    texts = (part.get("text") if isinstance(part, dict) else part for part in value)
    return "\n".join(text for text in texts if isinstance(text, str))


def _chatgpt_export(log: ChatLog, records: Records) -> Items:
    """ChatGPT's own export of a user's data: for each conversation a tree, which branches where a try was repeated."""
    for number, (place, record) in enumerate(records.rows({"mapping"}), start=1):
        try:
            nodes, said = record.get("mapping"), {}
            if not isinstance(nodes, dict) or not all(isinstance(node, dict) for node in nodes.values()):
                raise BrokenLineError("wrong type", "mapping should be an object of objects")
            messages = {name: node["message"] for name, node in nodes.items() if node.get("message") is not None}
            parents = {name: label(node, "parent") for name, node in nodes.items()}
            judged = {name: _chatgpt_message(message) for name, message in messages.items()}
        except BrokenLineError as error:
            log.broken.add(error.args[0], place, error.args[1])
            continue
        for name, (left_out, role, text) in judged.items():
            if left_out:
                log.left_out[left_out] += 1
            else:
                said[name] = role, text
        for name, (answered, role, text) in _joined_tree(parents, said).items():
            parent = f"{number}/{answered}" if answered else ""
            yield place, Message(f"{number}/{name}", parent, f"{log.name}/{number}", role, None, text, log.name, None)


def _chatgpt_message(message: Any) -> tuple[str, str, str]:
    """Why a message is left out (or ""), its role, its text."""
    parts = [message.get(key) or {} for key in ("author", "content", "metadata")] if isinstance(message, dict) else []
    if not parts or not all(isinstance(part, dict) for part in parts):
        raise BrokenLineError("wrong type", "message, author, content and metadata should be objects")
    author, content, metadata = parts
    role = required_text(author, "role")
    if role in SILENT_ROLES:
        return f"role {role}", role, ""
    if message.get("recipient", "all") != "all":
        return "to a tool", role, ""
    kind = content.get("content_type", "text")
    if metadata.get("is_visually_hidden_from_conversation") or kind not in ("text", "multimodal_text"):
        return "hidden or no text", role, ""
    return "", _speaker(role), _content(content.get("parts")) or ""


def _joined_tree(parents: dict[str, str], said: dict[str, tuple[str, str]]) -> dict[str, tuple[str, str, str]]:
    """Node -> (the node that it answers or "", role, text), a run of nodes of one role joined as its last node.

    Args:
        parents: node -> the one above it, or "".
        said: the nodes that are someone's words -> (role, text).
    """
    above = {name: next((up for up in _ancestors(name, parents) if up in said), "") for name in said}
    goes_on = {up for name, up in above.items() if up and said[up][0] == said[name][0]}
    answered_by_other = {up for name, up in above.items() if up and said[up][0] != said[name][0]}
    joined = {}
    for name, (role, text) in said.items():
        if name in goes_on - answered_by_other:
            continue
        run, answered = [text], ""
        for up in _ancestors(name, above):
            if said[up][0] != role:
                answered = up
                break
            run.append(said[up][1])
        joined[name] = answered, role, " ".join(filter(None, reversed(run)))
    return joined


def _ancestors(name: str, parents: dict[str, str]) -> Iterator[str]:
    """The nodes above one, nearest first; ends where a broken tree would go round in a circle."""
    seen = {name}
    while (up := parents.get(name)) and up not in seen:
        yield up
        seen.add(up)
        name = up


# Exports of chat programs


def _discord(log: ChatLog, records: Records) -> Items:
    """DiscordChatExporter's JSON: a channel in order, where a reply may name the message that it answers."""
    gap = CHANNEL_GAP if log.gap is None else log.gap
    for place, record in records.rows({*DISCORD_HEADER, "messages"}):
        try:
            guild, channel = (_object(record, key) for key in ("guild", "channel"))
            source = f"{label(guild, 'name') or log.name}/{label(channel, 'name')}"
            thread = required_label(channel, "id")
            if not isinstance(record.get("messages"), Iterable):
                raise BrokenLineError("wrong type", "messages should be a list")
        except BrokenLineError as error:
            log.broken.add(error.args[0], place, error.args[1])
            continue
        number = 0
        for number, message in enumerate(record["messages"], start=1):
            at = f"{place}: message {number}"
            try:
                left_out = _discord_left_out(message)
                if left_out:
                    log.left_out[left_out] += 1
                else:
                    yield at, _discord_message(message, thread, source, gap)
            except BrokenLineError as error:
                log.broken.add(error.args[0], at, error.args[1])
        if not number:
            log.left_out["channel without messages"] += 1


def _object(values: Any, name: str) -> Record:
    value = values.get(name) if isinstance(values, dict) else None
    if not isinstance(value, dict):
        raise BrokenLineError("wrong type", f"{name} should be an object, found {type(value).__name__}")
    return value


def _discord_left_out(message: Any) -> str:
    if _object(message, "author").get("isBot"):
        return "bot"
    return "" if message.get("type") in DISCORD_TYPES else f"type {message.get('type')}"


def _discord_message(message: Record, thread: str, source: str, gap: float) -> Message:
    # Another type's reference is where the message was forwarded from.
    reply = message["type"] == "Reply" and message.get("reference")
    parent = label(_object(message, "reference"), "messageId") if reply else None
    author = message["author"]
    number = label(author, "discriminator").strip("0")  # names were not unique without it before 2023
    speaker = required_label(author, "name") + (f"#{number}" if number else "")
    time = seconds(message.get("timestamp"))
    text = required_text(message, "content")
    return Message(required_label(message, "id"), parent or None, thread, speaker, time, text, source, gap)


def _is_slack(path: Path) -> bool:
    return path.is_dir() or path.suffix == ".zip"


def _slack_root(path: Path) -> Path | zipfile.Path:
    try:
        return path if path.is_dir() else zipfile.Path(path)
    except (OSError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: not a readable .zip ({error}); check the path, or download it again") from error


def _slack(log: ChatLog) -> Items:
    """A Slack export: a folder for each channel, with the messages of each day in a file of JSON.

    What has a thread is in order within it, its first message too, whatever the pauses; the rest of a channel is in
    order by itself.
    """
    root = _slack_root(log.path)
    users = {label(user, "id"): label(user, "name") for user in _slack_list(root / "users.json", log)}
    channels = {
        label(channel, "id"): label(channel, "name")
        for name in SLACK_FILES[1:]
        for channel in _slack_list(root / name, log)
    }
    gap = CHANNEL_GAP if log.gap is None else log.gap
    days = sorted(
        ((folder.name, day.name, day) for folder in root.iterdir() if folder.is_dir() for day in folder.iterdir()),
        key=lambda entry: entry[:2],
    )
    for folder_name, day_name, day in tqdm(days, delay=1, unit="file", desc=log.path.name):
        if not day_name.endswith(".json"):
            log.left_out["files that are not .json"] += 1
            continue
        for number, message in enumerate(_slack_list(day, log), start=1):
            place = f"{log.path}/{folder_name}/{day_name}: message {number}"
            try:
                left_out = _slack_left_out(message)
                if left_out:
                    log.left_out[left_out] += 1
                else:
                    yield place, _slack_message(message, f"{log.name}/{folder_name}", gap, users, channels)
            except BrokenLineError as error:
                log.broken.add(error.args[0], place, error.args[1])


def _slack_list(file: Path | zipfile.Path, log: ChatLog) -> list[Record]:
    """The objects in a file of the export, none where there is no such file; a broken file is counted."""
    if not file.exists():
        return []
    try:
        return _objects(json.loads(file.read_bytes()), file.name)
    except (ValueError, RecursionError, OSError, zipfile.BadZipFile, zlib.error) as error:
        log.broken.add("file that is not JSON", str(file), str(error))
    except BrokenLineError as error:
        log.broken.add(error.args[0], str(file), error.args[1])
    return []


def _slack_left_out(message: Record) -> str:
    if message.get("bot_id") or message.get("subtype") == "bot_message":
        return "bot"
    if message.get("type") != "message":
        return f"type {message.get('type')}"
    return "" if message.get("subtype") in SLACK_SUBTYPES else f"subtype {message['subtype']}"


def _slack_message(
    message: Record, source: str, gap: float, users: dict[str, str], channels: dict[str, str]
) -> Message:
    def plain(markup: re.Match[str]) -> str:
        target, shown = markup[1], markup[2]
        if target.startswith("@"):
            return "@" + (shown or users.get(target[1:], target[1:]))
        if target.startswith("#"):
            return "#" + (shown or channels.get(target[1:], target[1:]))
        return shown or ("@" + target[1:] if target.startswith("!") else target)

    ts, user = required_label(message, "ts"), label(message, "user")
    thread = label(message, "thread_ts")
    return Message(
        id=ts,
        parent=None,
        thread=f"{source}/{thread}" if thread else source,
        speaker=users.get(user, user) or None,
        time=seconds(ts),
        text=_SLACK_MARKUP.sub(plain, required_text(message, "text")),
        source=source,
        gap=None if thread else gap,
    )
