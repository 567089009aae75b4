"""Writes and reads a log, for the tests of all formats."""

import gzip
import json
from pathlib import Path
from typing import Any

from data_scripts.chats.logs import check_log, read_log
from data_scripts.chats.messages import ChatLog


def read_items(
    path: Path, content: Any = None, name: str = "c", indent: int | None = None, **options: Any
) -> tuple[list[Any], ChatLog]:
    """The messages or pairs of a log, and the log with its counts; the options are those of `ChatLog`.

    `content`, if it is given, is written first: a text, bytes, or JSON (JSON lines if the file's name says so).
    """
    if content is not None:
        if path.suffix == ".jsonl":
            content = "\n".join(map(json.dumps, content))
        elif not isinstance(content, str | bytes):
            content = json.dumps(content, indent=indent)
        data = content if isinstance(content, bytes) else content.encode()
        path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    log = ChatLog(path, name, **options)
    check_log(log)
    return [item for _, item in read_log(log)], log
