"""A Slack export, as a folder or .zip: a folder for each channel, with a JSON file for the messages of each day."""

import json
import lzma
import re
import zipfile
import zlib
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

from data_scripts.chats.formats import Format
from data_scripts.chats.messages import ChatLog, Fields, Items, LeftOutError, Message
from data_scripts.chats.sample import Sample
from data_scripts.clean.text import unescape
from modeling_convsim.files.records import Record

SUBTYPES = (None, "thread_broadcast", "me_message", "file_share")  # messages of other subtypes are notices
USERS_FILE = "users.json"
CHANNEL_FILES = ("channels.json", "groups.json", "dms.json", "mpims.json")
_DAY = re.compile(r"((?:.*/)?)[^/]+/\d{4}-\d\d-\d\d\.json")
_LIST = re.compile(rf"((?:.*/)?)(?:{'|'.join(map(re.escape, (USERS_FILE, *CHANNEL_FILES)))})")
_LINES = re.compile(r"rich_text_(?!list).*|section|header|context")  # types of blocks that have lines of their own
_MARKUP = re.compile(r"<([^<>|]+)(?:\|([^<>]*))?>")


def _find_root(names: Iterable[str]) -> str | None:
    """The folder of an export, such as "team/", or "" if it is not within another; None if there is none, or several.

    It has the lists of users or channels, or folders with a file for each day.
    """
    roots = {match[1] for name in names if (match := _LIST.fullmatch(name) or _DAY.fullmatch(name))}
    return roots.pop() if len(roots) == 1 else None


def _matches(sample: Sample) -> bool:
    return _find_root(sample.members) is not None


def _read(log: ChatLog) -> Items:
    """The messages of all channels.

    The messages of a thread, including its first message, are a thread without pauses; the other messages of a channel
    are another one.
    """
    from tqdm import tqdm

    assert log.sample
    inner = _find_root(log.sample.members) or ""
    root: Path | zipfile.Path = log.path if log.path.is_dir() else zipfile.Path(log.path)
    root = root / inner if inner else root
    users = _names(root, (USERS_FILE,), log)
    channels = _names(root, CHANNEL_FILES, log)
    members = (name.removeprefix(inner).split("/") for name in log.sample.members if name.startswith(inner))
    days = sorted(parts for parts in members if len(parts) == 2 and parts[1])
    for folder, day in tqdm(days, delay=1, unit="file", desc=log.path.name):
        if not day.endswith(".json"):
            log.leave_out("files that are not .json")
            continue
        messages = log.objects(f"{log.path}/{inner}{folder}/{day}", _read_list(root / folder / day, log), "a day")
        source = f"{log.name}/{folder}"
        yield from log.parse_each(messages, partial(_parse_message, source, log.channel_gap, users, channels))


def _names(root: Path | zipfile.Path, files: tuple[str, ...], log: ChatLog) -> dict[str, str]:
    """Id -> name of the users or channels in some files."""
    lists = [log.objects(f"{log.path}/{file}", _read_list(root / file, log), "the file") for file in files]
    return dict(filter(None, (log.attempt(location, _name, entry) for each in lists for location, entry in each)))


def _name(entry: Record) -> tuple[str, str]:
    return Fields(entry).label("id"), Fields(entry).label("name")


def _read_list(file: Path | zipfile.Path, log: ChatLog) -> Any:
    """The list in a file of the export; an empty one if the file does not exist or is broken, which is counted."""
    if not file.exists():
        return []
    try:
        with file.open("rb") as stream:
            return json.load(stream)
    # zipfile raises a RuntimeError for an encrypted file, and a subclass of it for an unknown compression.
    except (ValueError, RuntimeError, OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError) as error:
        log.broken.add("file that is not JSON", str(file), str(error))
    return []


def _parse_message(source: str, gap: float, users: dict[str, str], channels: dict[str, str], record: Record) -> Message:
    def plain(markup: re.Match[str]) -> str:
        target, shown = markup[1], markup[2]
        if target.startswith("@"):
            return "@" + (shown or users.get(target[1:], target[1:]))
        if target.startswith("#"):
            return "#" + (shown or channels.get(target[1:], target[1:]))
        return shown or ("@" + target[1:] if target.startswith("!") else target)

    message = Fields(record)
    if message.get("bot_id") or message.get("subtype") == "bot_message":
        raise LeftOutError("bot")
    if message.get("type") != "message":
        raise LeftOutError(f"type {message.get('type')}")
    if message.get("subtype") not in SUBTYPES:
        raise LeftOutError(f"subtype {message.get('subtype')}")
    ts, user = message.required("ts"), message.label("user")
    thread = message.label("thread_ts")
    words = "" if message.get("text") else _words(message.get("blocks"))
    return Message(
        id=ts,
        parent=None,
        thread=f"{source}/{thread}" if thread else source,
        speaker=users.get(user, user) or None,
        time=message.seconds("ts"),
        text=unescape(_MARKUP.sub(plain, words or message.text("text"))),
        source=source,
        gap=None if thread else gap,
    )


def _words(block: Any) -> str:
    """The words of blocks, marked as in the text of a message; "" if they have none."""
    if isinstance(block, list):
        return "".join(map(_words, block)).strip("\n")
    if not isinstance(block, dict):
        return ""
    text = block.get("text")
    for name, mark in (("user_id", "@"), ("channel_id", "#"), ("range", "!"), ("url", "")):
        if name in block and not isinstance(text, dict):
            return f"<{mark}{block[name]}|{text or ''}>"
    if block.get("type") == "emoji":
        return f":{block.get('name')}:"
    inner = [block.get(name) for name in ("text", "fields", "elements")]
    words = text if isinstance(text, str) else "\n".join(filter(None, map(_words, inner)))
    return words + "\n" * bool(_LINES.fullmatch(str(block.get("type"))))


FORMATS = (Format("Slack", _read, _matches),)
