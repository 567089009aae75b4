"""Limits of JSON files that are read as a stream.

ijson takes memory that grows with the square of the depth, and crashes on integers of thousands of digits. The bytes of
a file are therefore checked before ijson reads them.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from data_scripts.errors import InputError
from data_scripts.read.files import MAX_LINE_BYTES

MAX_DEPTH = 500  # of arrays and objects; Python's own functions fail at about 1,000
MAX_DIGITS = 1_000  # of a number; Python refuses integers of more than 4,300

_OTHERS = bytes(set(range(256)) - set(b'[]{}"'))
_DIGITS = bytes(ord("0") if chr(byte) in "0123456789" else 0 for byte in range(256))
_SAMPLE = b"0" * (MAX_DIGITS // 100)
_LONG_NUMBER = b"0" * (MAX_DIGITS + 1)
_STEPS = np.zeros(256, np.int32)
_STEPS[list(b"[{")] = 1
_STEPS[list(b"]}")] = -1


class LimitedStream:
    """A stream of JSON that raises InputError before a limit is exceeded.

    Args:
        stream: bytes in UTF-8.
        location: begins the messages.
        depth: of the arrays and objects that contain the records; a record is held in memory.
        progress: called after each chunk.
    """

    def __init__(self, stream: Any, location: str, depth: int, progress: Callable[[], object] = lambda: None) -> None:
        self.stream, self.location, self.record_depth = stream, location, depth
        self.depth = self.record_bytes = 0
        self.progress = progress
        self.in_string = False
        self.rest = b""  # a backslash at the end of the last chunk
        self.tail = b""  # the end of the last chunk, unless it is in a string

    def read(self, size: int = -1) -> bytes:
        """At most `size` bytes, as a file's `read`."""
        chunk = self.stream.read(size)
        if chunk:
            self._check(chunk)
        self.progress()
        return chunk

    def _check(self, chunk: bytes) -> None:
        text, self.rest = self.rest + chunk, b""
        if b"\\" in text:
            text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
            if text.endswith(b"\\"):
                text, self.rest = text[:-1], b"\\"
        starts_in_string = self.in_string
        # Most strings have no brackets, and leaving out two quotes that follow each other changes no other string.
        parts = text.translate(None, _OTHERS).replace(b'""', b"").split(b'"')  # outside and inside of strings by turns
        self.in_string ^= len(parts) % 2 == 0
        self._check_numbers(text, starts_in_string)
        depths = self.depth + np.cumsum(_STEPS[np.frombuffer(b"".join(parts[starts_in_string::2]), np.uint8)])
        if depths.max(initial=0) > MAX_DEPTH:
            raise self._error(f"{MAX_DEPTH:,} arrays and objects within each other")
        lowest = depths.min(initial=self.depth)
        self.depth = int(depths[-1]) if len(depths) else self.depth
        self.record_bytes = self.record_bytes + len(chunk) if lowest > self.record_depth else 0
        if self.record_bytes > MAX_LINE_BYTES:
            raise self._error(f"{MAX_LINE_BYTES >> 20} MiB in a record")

    def _check_numbers(self, text: bytes, starts_in_string: bool) -> None:
        # Every hundredth character is enough to exclude a long number in nearly all texts.
        if _SAMPLE in (self.tail + text)[::100].translate(_DIGITS):
            outside = b" ".join(text.split(b'"')[starts_in_string::2])
            if _LONG_NUMBER in (self.tail + outside).translate(_DIGITS):
                raise self._error(f"{MAX_DIGITS:,} digits in a number")
        self.tail = b"" if self.in_string else (self.tail + text)[-MAX_DIGITS:]

    def _error(self, limit: str) -> InputError:
        return InputError(
            f"{self.location}: more than {limit}; the limit protects the memory; leave this record out, or write the "
            "records as JSON lines (.jsonl), of which those that cannot be read are counted"
        )
