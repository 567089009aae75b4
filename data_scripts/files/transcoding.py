"""Converts the bytes of a text in another encoding to UTF-8 while they are read."""

import codecs
import io
from typing import Any

from data_scripts.files.errors import InputError

CHUNK_BYTES = 1 << 18


class Transcoder(io.RawIOBase):
    """A stream of UTF-8; bytes that are invalid in `encoding` stay, so that whoever reads the lines can count them."""

    def __init__(self, stream: Any, encoding: str) -> None:
        """Read `stream`, a binary stream of text in `encoding`."""
        self.stream = stream
        # Only encodings of a byte per character (and their extensions) can represent invalid bytes as surrogates.
        self.errors = "replace" if codecs.lookup(encoding).name.startswith(("utf-16", "utf-32")) else "surrogateescape"
        self.decoder = codecs.getincrementaldecoder(encoding)(self.errors)
        self.pending, self.at_end = b"", False

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill a buffer; returns the number of bytes, 0 at the end."""
        while not self.pending and not self.at_end:
            chunk = self.stream.read(CHUNK_BYTES)
            self.at_end = not chunk
            self.pending = self.decoder.decode(chunk, final=self.at_end).encode("utf-8", self.errors)
        size = min(len(buffer), len(self.pending))
        buffer[:size], self.pending = self.pending[:size], self.pending[size:]
        return size


def check_encoding(option: str, name: str) -> str:
    """The name of an encoding as Python spells it.

    Raises:
        InputError: Python has no such encoding of texts.
    """
    try:
        "".encode(name)
        return codecs.lookup(name).name
    except LookupError as error:
        raise InputError(
            f"{option} {name}: no such encoding; expected a name such as utf-8, cp1252, utf-16 or shift_jis"
        ) from error
