"""Reads text files, compressed or not and in any encoding, and counts the lines that cannot be read.

Memory does not grow with the file: it holds a block of text or the longest line (`MAX_LINE_BYTES` at most), and the
window of Zstandard (2 GiB in Pushshift's files).
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

from modeling_convsim.files.errors import InputError, one_line

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# Suffix -> the command that unpacks the readable part of a damaged file.
UNPACK = {".bz2": "bzip2 -dc", ".zst": "zstd -dc --long=31", ".xz": "xz -dc", ".gz": "gzip -dc"}
UNREADABLE = (OSError, lzma.LZMAError, zlib.error, zstd.ZstdError)  # with EOFError, what reading a damaged file raises
UTF8 = "utf-8"
NEWLINE = b"\n"
MOST_BYTES = 4  # of a character in UTF-8
CHUNK_BYTES = 1 << 18
BLOCK_BYTES = 1 << 20  # small enough to be parsed while it is in the processor's caches
HEAD_BYTES = 1 << 24  # of the beginning of a text file
MAX_LINE_BYTES = 1 << 26  # of a line or a record, which are held in memory; a few hundred bytes can unpack to gigabytes
TEXT_FORMS = (".csv", ".jsonl", ".txt", ".en", ".relevancy")
CONVERT = "convert the file to UTF-8 (such as iconv -f UTF-16 -t UTF-8, or -f CP1252)"
EXAMPLES = 5  # broken lines of each kind that are reported
MAX_DETAIL = 300  # characters of a broken line's problem
_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


class BrokenLines:
    """Counts the lines that were left out, by kind, and remembers the first ones of each kind."""

    def __init__(self, counts: dict[str, int] | None = None, first: dict[str, list[str]] | None = None) -> None:
        self.counts: Counter[str] = Counter(counts or {})
        self.first: dict[str, list[str]] = dict(first or {})

    @property
    def examples(self) -> list[str]:
        """The first lines of each kind, with their locations and problems."""
        return [example for examples in self.first.values() for example in examples]

    def add(self, kind: str, location: str, detail: str = "") -> None:
        """Count a line; `location` is its file:line, `detail` describes its problem."""
        self.counts[kind] += 1
        if self.counts[kind] <= EXAMPLES:
            problem = f" ({one_line(detail, MAX_DETAIL)})" if detail else ""
            self.first.setdefault(kind, []).append(f"{one_line(location)}: {kind}{problem}")

    def join(self, other: BrokenLines) -> None:
        """Add the counts and examples of another object; its examples come last."""
        self.counts += other.counts
        for kind, examples in other.first.items():
            self.first[kind] = [*self.first.get(kind, []), *examples][:EXAMPLES]


class BrokenLineError(Exception):
    """A line that cannot be read; the arguments are the kind of problem and the detail."""


def decode(line: bytes) -> str:
    """The text of a line; raises BrokenLineError if its bytes are not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BrokenLineError("not UTF-8", f"byte 0x{line[error.start]:02x} at {error.start + 1}") from error


def check_file(path: Path, forms: tuple[str, ...]) -> None:
    """Reject an invalid input before anything is read, so that a long run does not fail at its last file.

    Args:
        path: a file whose name ends in one of `forms` or in `.bz2`, `.zst`, `.xz` or `.gz`.
        forms: the suffixes that an uncompressed file may have, such as `.jsonl`.

    Raises:
        InputError: the file is missing, empty, a pipe, or has an unknown suffix.
    """
    try:
        size = path.stat().st_size
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); check the path") from error
    if path.is_fifo():
        raise InputError(f"{path}: a pipe, which can be read only once; write it to a file first, and name that file")
    if ".tar" in (path.suffix.lower(), path.with_suffix("").suffix.lower()):
        raise InputError(f"{path}: an archive of several files; unpack it (tar xf) and name the files in it")
    if path.suffix.lower() not in (*forms, *UNPACK):
        known = ", ".join(filter(None, [*forms, *UNPACK]))
        raise InputError(f"{path}: unknown kind of file; expected a name that ends in {known}")
    if not size:
        raise InputError(f"{path}: the file is empty; download it again or leave it out")


class _Stream(io.RawIOBase):
    """A raw stream of what a function reads, which returns at most as many bytes as it is asked for."""

    def __init__(self, read: Callable[[int], bytes]) -> None:
        self.read_bytes = read

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        part = self.read_bytes(len(buffer))
        buffer[: len(part)] = part
        return len(part)


@contextmanager
def _unpacked(path: Path, show_progress: bool = True) -> Iterator[Any]:
    """The decompressed stream of a file, whose suffix says how it is compressed.

    Reading raises EOFError if the file is truncated, or one of `UNREADABLE`.
    """
    from tqdm import tqdm  # imported here, as large packages are, so that commands start at once

    openers: dict[str, Callable[[Any], Any]] = {
        ".bz2": bz2.BZ2File,
        ".xz": lzma.LZMAFile,
        ".gz": lambda file: gzip.GzipFile(fileobj=file),
        ".zst": lambda file: zstd.ZstdFile(file, options={zstd.DecompressionParameter.window_log_max: 31}),
    }
    bar: dict[str, Any] = {"total": path.stat().st_size, "delay": 1, "desc": path.name, "disable": not show_progress}
    with path.open("rb") as raw, tqdm.wrapattr(raw, "read", **bar) as counted:
        yield openers.get(path.suffix.lower(), lambda file: file)(counted)


def _to_utf8(stream: Any, encoding: str) -> Callable[[int], bytes]:
    """Reads a stream of text as UTF-8; invalid bytes stay, so that whoever reads the lines can count them."""
    # Only encodings of a byte per character (and their extensions) can represent invalid bytes as surrogates.
    errors = "replace" if codecs.lookup(encoding).name.startswith(("utf-16", "utf-32")) else "surrogateescape"
    text = io.TextIOWrapper(stream, encoding, errors, newline="")
    return lambda size: text.read(size // MOST_BYTES).encode(UTF8, errors)


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


@dataclass(frozen=True)
class TextFile:
    """A text file, compressed or not.

    Attributes:
        path: the file, or the .zip that it is in.
        opened: opens its unpacked bytes; by default, the suffix of `path` says how it is compressed.
        head: the first `HEAD_BYTES` of them; fewer if the file is damaged there, which is reported when it is read.
        is_whole: whether `head` is the whole file, which need not be opened again.
        encoding: as Python spells it.
    """

    path: Path
    opened: Callable[[], AbstractContextManager[BinaryIO]] | None = None
    head: bytes = b""
    is_whole: bool = False
    encoding: str = UTF8

    @classmethod
    def read(cls, path: Path, opened: Callable[[], AbstractContextManager[BinaryIO]] | None = None) -> TextFile:
        """Open a file for its beginning."""
        head, is_whole = bytearray(), False
        try:
            with opened() if opened else _unpacked(path) as stream:
                while len(head) < HEAD_BYTES and not is_whole:
                    part = stream.read(min(CHUNK_BYTES, HEAD_BYTES - len(head)))
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
            if self.is_whole:
                unpacked: AbstractContextManager[Any] = nullcontext(io.BytesIO(self.head))
            else:
                unpacked = self.opened() if self.opened else _unpacked(self.path)
            with unpacked as raw:
                read = raw.read if self.encoding == UTF8 else _to_utf8(raw, self.encoding)
                stream: Any = io.BufferedReader(_Stream(read), CHUNK_BYTES)
                if self.encoding == UTF8 and stream.peek(2)[:2] in _UTF16:
                    raise InputError(f"{self.path}: UTF-16, expected UTF-8; {CONVERT}")
                if stream.peek(3).startswith(codecs.BOM_UTF8):
                    stream.read(3)
                yield stream
        except EOFError as error:
            unpack = f"{UNPACK.get(self.path.suffix.lower(), '')} {self.path.name} > {self.path.stem}.part"
            raise InputError(
                f"{self.path}: the archive is truncated; download it again, or unpack its readable part (`{unpack}`, "
                "with the suffix of its format, such as .jsonl) and name that file"
            ) from error
        except UNREADABLE as error:
            kind = self.path.suffix if self.path.suffix.lower() in UNPACK else "plain"
            raise InputError(
                f"{self.path}: not a readable {kind} file ({error}); check its suffix, or download it again"
            ) from error

    def lines(self) -> Iterator[tuple[str, bytes]]:
        """(file:line, the line's bytes without the newline, as UTF-8) of each line."""
        with self.open() as stream:
            number = 0
            while line := stream.readline(MAX_LINE_BYTES + 1):
                number += 1
                if len(line) > MAX_LINE_BYTES:
                    raise _too_long(f"{self.path}:{number}")
                yield f"{self.path}:{number}", line.removesuffix(NEWLINE)


def _too_long(location: str) -> InputError:
    limit = f"{MAX_LINE_BYTES >> 20} MiB"
    return InputError(f"{location}: a line of more than {limit}, which is the limit; split the line, or remove it")


def read_blocks(
    path: Path, forms: tuple[str, ...], show_progress: bool = True
) -> Iterator[tuple[int, int, memoryview]]:
    """Yield (number of the first line, lines, bytes of complete lines) of a text file in blocks of about `BLOCK_BYTES`.

    The bytes are valid until the next block is requested, which overwrites them.

    Args:
        path, forms: as for `check_file`; the last suffix says how the file is compressed.
        show_progress: whether to show a bar.

    Raises:
        InputError: as for `check_file`; or the file is truncated, or not what its suffix says.
    """
    import numpy as np

    check_file(path, forms)
    number, held = 1, 0
    buffer = bytearray(BLOCK_BYTES + CHUNK_BYTES)
    with TextFile(path, partial(_unpacked, path, show_progress)).open() as stream:
        read = -1
        while read:
            if held > MAX_LINE_BYTES:
                raise _too_long(f"{path}:{number + buffer.count(NEWLINE, 0, held)}")
            if held == len(buffer):  # a line is longer than the buffer
                buffer = buffer + bytes(len(buffer))  # not in place: the last block may still be referred to
            with memoryview(buffer) as view:
                read = stream.readinto(view[held : held + CHUNK_BYTES])
            held += read
            end = buffer.rfind(NEWLINE, held - read, held) + 1 if held >= BLOCK_BYTES else 0
            if end := end if read else held:
                with memoryview(buffer) as view:
                    lines = int(np.count_nonzero(np.frombuffer(view[:end], np.uint8) == NEWLINE[0]))
                    lines += buffer[end - 1] != NEWLINE[0]
                    yield number, lines, view[:end]
                buffer[: held - end] = buffer[end:held]
                number, held = number + lines, held - end


def text_lines(path: Path, forms: tuple[str, ...] = TEXT_FORMS) -> Iterator[tuple[str, str]]:
    r"""(file:line, text) of each line of a UTF-8 file, plain or compressed, without \n or \r\n.

    `forms` are the suffixes that the file may have.

    Raises:
        InputError: a line is not UTF-8, or the file cannot be read to its end.
    """
    check_file(path, forms)
    return decoded_lines(TextFile(path).lines())


def decoded_lines(lines: Iterable[tuple[str, bytes]]) -> Iterator[tuple[str, str]]:
    r"""The texts of lines that may end in \r, with their locations.

    Raises:
        InputError: a line is not UTF-8.
    """
    for location, line in lines:
        try:
            yield location, decode(line.removesuffix(b"\r"))
        except BrokenLineError as error:
            raise InputError(
                f"{location}: {error.args[0]} ({error.args[1]}): convert the file to UTF-8 first"
            ) from error


def find_file(folder: Path, *names: str) -> Path | None:
    """The first of `names` that is in `folder`, plain or compressed (.bz2, .zst, .xz, .gz)."""
    candidates = (folder / f"{name}{suffix}" for name in names for suffix in ("", *UNPACK))
    return next((path for path in candidates if path.is_file()), None)
