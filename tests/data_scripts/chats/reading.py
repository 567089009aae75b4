"""Reads a log, for the tests of all formats."""

from pathlib import Path
from typing import Any

from data_scripts.chats.logs import check_log, read_log
from data_scripts.chats.messages import ChatLog


def read_items(path: Path, name: str = "c", **options: Any) -> tuple[list[Any], ChatLog]:
    """The messages or pairs of a log, and the log with its counts; the options are those of `ChatLog`."""
    log = ChatLog(path, name, **options)
    check_log(log)
    return [item for _, item in read_log(log)], log
