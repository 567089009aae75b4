"""A Slack export, as a folder or .zip: a folder for each channel, with a JSON file for the messages of each day."""

import json
import lzma
import re
import zipfile
import zlib
from pathlib import Path

from tqdm import tqdm

from data_scripts.errors import InputError
from data_scripts.read.chat_exports import PathExport
from data_scripts.read.files import BrokenLineError
from data_scripts.read.messages import (
    CHANNEL_GAP,
    ChatLog,
    Items,
    Message,
    label,
    list_of_objects,
    required_label,
    required_text,
    seconds,
)
from data_scripts.read.records import Record

SUBTYPES = (None, "thread_broadcast", "me_message", "file_share")  # messages of other subtypes are notices
USERS_FILE = "users.json"
MAX_FILE_BYTES = 1 << 28  # of a file, which holds the messages of a day
CHANNEL_FILES = ("channels.json", "groups.json", "dms.json", "mpims.json")
_MARKUP = re.compile(r"<([^<>|]+)(?:\|([^<>]*))?>")


def _recognizes(path: Path) -> bool:
    if not path.is_dir() and path.suffix != ".zip":
        return False
    root = _root(path)
    return any((root / name).exists() for name in (USERS_FILE, *CHANNEL_FILES))


def _root(path: Path) -> Path | zipfile.Path:
    try:
        return path if path.is_dir() else zipfile.Path(path)
    # zipfile raises NotImplementedError for a later version of the format.
    except (OSError, ValueError, NotImplementedError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: not a readable .zip ({error}); check the path, or download it again") from error


def _read(log: ChatLog) -> Items:
    """The messages of all channels.

    The messages of a thread, including its first message, are a thread without pauses; the other messages of a channel
    are another one.
    """
    root = _root(log.path)
    users = _names(root, (USERS_FILE,), log)
    channels = _names(root, CHANNEL_FILES, log)
    gap = CHANNEL_GAP if log.gap is None else log.gap
    days = sorted(
        ((folder.name, day.name, day) for folder in root.iterdir() if folder.is_dir() for day in folder.iterdir()),
        key=lambda entry: entry[:2],
    )
    for folder_name, day_name, day in tqdm(days, delay=1, unit="file", desc=log.path.name):
        if not day_name.endswith(".json"):
            log.leave_out("files that are not .json")
            continue
        for number, message in enumerate(_read_list(day, log), start=1):
            location = f"{log.path}/{folder_name}/{day_name}: message {number}"
            try:
                left_out = _left_out(message)
                if left_out:
                    log.leave_out(left_out)
                else:
                    yield location, _parse_message(message, f"{log.name}/{folder_name}", gap, users, channels)
            except BrokenLineError as error:
                log.broken.add(error.args[0], location, error.args[1])


def _names(root: Path | zipfile.Path, files: tuple[str, ...], log: ChatLog) -> dict[str, str]:
    """Id -> name of the users or channels in some files."""
    names = {}
    for file in files:
        for number, entry in enumerate(_read_list(root / file, log), start=1):
            try:
                names[label(entry, "id")] = label(entry, "name")
            except BrokenLineError as error:
                log.broken.add(error.args[0], f"{log.path}/{file}: entry {number}", error.args[1])
    return names


def _read_list(file: Path | zipfile.Path, log: ChatLog) -> list[Record]:
    """The objects in a file of the export; none if the file does not exist or is broken, which is counted."""
    if not file.exists():
        return []
    try:
        with file.open("rb") as stream:
            content = stream.read(MAX_FILE_BYTES + 1)
        if len(content) > MAX_FILE_BYTES:
            raise BrokenLineError("file that is too large", f"the limit is {MAX_FILE_BYTES >> 20} MiB")
        return list_of_objects(json.loads(content), file.name)
    # zipfile raises a RuntimeError for an encrypted file, and a subclass of it for an unknown compression.
    except (ValueError, RuntimeError, OSError, EOFError, zipfile.BadZipFile, zlib.error, lzma.LZMAError) as error:
        log.broken.add("file that is not JSON", str(file), str(error))
    except BrokenLineError as error:
        log.broken.add(error.args[0], str(file), error.args[1])
    return []


def _left_out(message: Record) -> str:
    """Why a message is left out, or ""."""
    if message.get("bot_id") or message.get("subtype") == "bot_message":
        return "bot"
    if message.get("type") != "message":
        return f"type {message.get('type')}"
    return "" if message.get("subtype") in SUBTYPES else f"subtype {message['subtype']}"


def _parse_message(
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
        text=_MARKUP.sub(plain, required_text(message, "text")),
        source=source,
        gap=None if thread else gap,
    )


EXPORTS = (PathExport("Slack", _recognizes, _read),)
