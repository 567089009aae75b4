"""Opens text files, compressed or not and in any encoding, as UTF-8.

A file is opened once for its beginning, and once to read it; one that is not longer than its beginning is opened once.
"""

from __future__ import annotations

import codecs
import io
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Any, BinaryIO

from tqdm import tqdm

from data_scripts.files.errors import InputError
from data_scripts.files.lines import CONVERT, MAX_LINE_BYTES, UNPACK, UNREADABLE, line_too_long, unpacked
from data_scripts.files.storage import open_stream
from data_scripts.files.transcoding import Transcoder

UTF8 = "utf-8"
HEAD_BYTES = 1 << 24  # of the beginning of a text file
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class _Shown(io.RawIOBase):
    """A file that shows in a progress bar how much of it was read."""

    def __init__(self, raw: BinaryIO, bar: Any) -> None:
        self.raw, self.bar = raw, bar

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        size = self.raw.readinto(buffer)  # type: ignore[attr-defined]
        self.bar.update(size)
        return size


@contextmanager
def _unpacked_file(path: Path) -> Iterator[BinaryIO]:
    with (
        open_stream(path) as raw,
        tqdm(total=path.stat().st_size, delay=1, unit="B", unit_scale=True, desc=path.name) as bar,
    ):
        yield unpacked(io.BufferedReader(_Shown(raw, bar), 1 << 20), path.suffix)


@dataclass(frozen=True)
class TextFile:
    """A text file, compressed or not.

    Attributes:
        path: the file, or the .zip that it is in.
        opened: opens its unpacked bytes.
        head: the first `HEAD_BYTES` of them; fewer if the file is damaged there, which is reported when it is read.
        is_whole: whether `head` is the whole file, which need not be opened again.
        encoding: as Python spells it.
    """

    path: Path
    opened: Callable[[], AbstractContextManager[BinaryIO]]
    head: bytes
    is_whole: bool
    encoding: str = UTF8

    @classmethod
    def read(cls, path: Path, opened: Callable[[], AbstractContextManager[BinaryIO]] | None = None) -> TextFile:
        """Open a file for its beginning."""
        opened = opened or partial(_unpacked_file, path)
        head, is_whole = bytearray(), False
        try:
            with opened() as stream:
                while len(head) < HEAD_BYTES and not is_whole:
                    part = stream.read(min(1 << 18, HEAD_BYTES - len(head)))
                    head += part
                    is_whole = not part
        except (EOFError, RuntimeError, *UNREADABLE):
            pass
        return cls(path, opened, bytes(head), is_whole)

    @contextmanager
    def open(self) -> Iterator[io.BufferedReader]:
        """The content as UTF-8, without a byte order mark.

        Raises:
            InputError: the file cannot be read to its end, or is UTF-16 and `encoding` is not.
        """
        try:
            with nullcontext(io.BytesIO(self.head)) if self.is_whole else self.opened() as raw:
                converted: Any = raw if self.encoding == UTF8 else Transcoder(raw, self.encoding)
                stream = io.BufferedReader(converted, 1 << 18)
                if self.encoding == UTF8 and stream.peek(2)[:2] in _UTF16:
                    raise InputError(f"{self.path}: UTF-16, expected UTF-8; {CONVERT}")
                if stream.peek(3).startswith(codecs.BOM_UTF8):
                    stream.read(3)
                yield stream
        except EOFError as error:
            unpack = f"{UNPACK.get(self.path.suffix, '')} {self.path.name} > {self.path.stem}.part"
            raise InputError(
                f"{self.path}: the archive is truncated; download it again, or unpack its readable part (`{unpack}`, "
                "with the suffix of its form: .jsonl, .tsv) and name that file"
            ) from error
        except UNREADABLE as error:
            raise InputError(
                f"{self.path}: not readable to its end ({error}); check its suffix, or download it again"
            ) from error

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """(file:line, the line's bytes without the newline, as UTF-8) of each line."""
        with self.open() as stream:
            yield from numbered_lines(stream, str(self.path))


def numbered_lines(stream: IO[bytes], name: str) -> Iterator[tuple[str, bytes]]:
    """Yield (name:number, line without the newline) of a stream."""
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            raise line_too_long(f"{name}:{number}")
        yield f"{name}:{number}", line.removesuffix(b"\n")
