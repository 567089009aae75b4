"""What must hold for each record that a reader returns, and for each message with which it refuses a file."""

import math
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path

from data_scripts.errors import InputError
from data_scripts.read.chat_logs import check_log, read_log
from data_scripts.read.files import BrokenLines
from data_scripts.read.messages import ChatLog, Message, Pair

MAX_MESSAGE = 3_000  # characters of an error message
MAX_KINDS = 200  # of messages that are left out


def accepts(read: Callable[[], object], path: Path) -> bool:
    """Whether `read` accepts a file; if it refuses it, the message must be one short line that names the file."""
    try:
        read()
    except InputError as error:
        check_message(str(error))
        assert path.name in str(error), f"does not name the file: {error}"
        return False
    return True


def check_message(message: str) -> None:
    """Assert that a message for the user is one short line that can be printed."""
    message.encode()
    assert message and len(message.splitlines()) == 1, f"not one line: {message!r}"
    assert len(message) <= MAX_MESSAGE, f"{len(message)} characters: {message[:200]!r}"


def check_broken(broken: BrokenLines) -> None:
    """Assert that broken lines are counted by a few kinds and described in single lines."""
    assert broken.counts.keys() == broken.first.keys() and len(broken.counts) <= 20
    for example in broken.examples:
        check_message(example)


def read_chat(path: Path) -> list[Message | Pair]:
    """Read a chat log as the command `conversations` does, and check what is read and what is counted."""
    log = ChatLog(path, "log", {}, None, BrokenLines(), Counter())
    check_log(path)
    items = []
    for location, item in read_log(log):
        assert path.name in location
        check_item(item)
        items.append(item)
    check_broken(log.broken)
    check_kinds(log.left_out)
    return items


def check_kinds(kinds: Iterable[str]) -> None:
    """Assert that the names of what is left out fit into a report."""
    assert len(list(kinds)) <= MAX_KINDS
    for kind in kinds:
        check_message(kind)
        assert len(kind) <= 100, kind


def check_item(item: Message | Pair) -> None:
    """Assert that a message or pair has the types of its fields and a finite time."""
    texts = [value for name, value in item._asdict().items() if name not in ("time", "gap")]
    assert all(isinstance(value, str | None) for value in texts), item
    if isinstance(item, Pair):
        assert None not in (item.input, item.response, item.source)
        return
    assert item.id and item.text is not None and item.source is not None
    assert item.time is None or math.isfinite(item.time)
    assert item.gap is None or item.gap >= 0
