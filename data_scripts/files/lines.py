"""Reads plain and compressed text files, by block or by line, and counts the lines that cannot be read.

Memory does not grow with the file: it holds a block of text or the longest line (`MAX_LINE_BYTES` at most), and the
window of Zstandard (2 GiB in Pushshift's files).
"""

import bz2
import codecs
import gzip
import lzma
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from tqdm import tqdm

from data_scripts.files.errors import InputError, one_line
from data_scripts.files.storage import open_stream

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# Suffix -> the command that unpacks the readable part of a damaged file.
UNPACK = {".bz2": "bzip2 -dc", ".zst": "zstd -dc --long=31", ".xz": "xz -dc", ".gz": "gzip -dc"}
NEWLINE = b"\n"
UNREADABLE = (OSError, lzma.LZMAError, zlib.error, zstd.ZstdError)  # with EOFError, what reading a damaged file raises
CHUNK_BYTES = 1 << 18
BLOCK_BYTES = 1 << 20  # small enough to be parsed while it is in the processor's caches
MAX_LINE_BYTES = 1 << 26  # of a line or a record, which are held in memory; a few hundred bytes can unpack to gigabytes
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

    def join(self, other: "BrokenLines") -> None:
        """Add the counts and examples of another object; its examples come last."""
        self.counts += other.counts
        for kind, examples in other.first.items():
            self.first[kind] = [*self.first.get(kind, []), *examples][:EXAMPLES]


class BrokenLineError(Exception):
    """A line that cannot be read; the arguments are the kind of problem and the detail."""


def line_too_long(location: str) -> InputError:
    """The error for a line of more than `MAX_LINE_BYTES`."""
    limit = f"{MAX_LINE_BYTES >> 20} MiB"
    return InputError(f"{location}: a line of more than {limit}, which is the limit; split the line, or remove it")


def unpacked(raw: BinaryIO, suffix: str) -> Any:
    """The decompressed stream of a file; `suffix` says how it is compressed (if not in `UNPACK`, not at all).

    Reading raises EOFError if the file is truncated, or one of `UNREADABLE`.
    """
    if suffix == ".zst":
        return zstd.ZstdFile(raw, options={zstd.DecompressionParameter.window_log_max: 31})
    openers: dict[str, Any] = {
        ".bz2": bz2.BZ2File,
        ".xz": lzma.LZMAFile,
        ".gz": lambda file: gzip.GzipFile(fileobj=file),
    }
    return openers.get(suffix, lambda file: file)(raw)


def check_file(path: Path, forms: tuple[str, ...]) -> None:
    """Reject an invalid input before anything is read, so that a long run does not fail at its last file.

    Args:
        path: a file whose name ends in one of `forms` or in `.bz2`, `.zst`, `.xz` or `.gz`.
        forms: the suffixes that an uncompressed file may have, such as `.jsonl`.

    Raises:
        InputError: the file is missing, empty or has an unknown suffix.
    """
    if path.suffix not in (*forms, *UNPACK):
        known = ", ".join(filter(None, [*forms, *UNPACK]))
        raise InputError(f"{path}: unknown kind of file; expected a name that ends in {known}")
    if path.with_suffix("").suffix == ".tar":
        raise InputError(f"{path}: an archive of several files; unpack it and name the files in it")
    try:
        size = path.stat().st_size
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error}); check the path") from error
    if not size:
        raise InputError(f"{path}: the file is empty; download it again or leave it out")


def read_blocks(
    path: Path, forms: tuple[str, ...], progress: Callable[[int], object] | None = None
) -> Iterator[tuple[int, int, memoryview]]:
    """Yield (number of the first line, lines, bytes of complete lines) of a text file in blocks of about `BLOCK_BYTES`.

    The bytes are valid until the next block is requested, which overwrites them.

    Args:
        path, forms: as for `check_file`; the last suffix says how the file is compressed.
        progress: called with the number of bytes read from the file, as they are read; by default a bar shows them.

    Raises:
        InputError: as for `check_file`; or the file is truncated, or not what its suffix says.
    """
    check_file(path, forms)
    suffix = path.suffix if path.suffix in UNPACK else ""
    number, held = 1, 0
    buffer = bytearray(BLOCK_BYTES + CHUNK_BYTES)
    shown = tqdm(
        total=path.stat().st_size, delay=1, unit="B", unit_scale=True, desc=path.name, disable=progress is not None
    )
    progress, at = progress or shown.update, 0
    with open_stream(path) as raw, shown:
        try:
            stream = unpacked(raw, suffix)
            while True:
                if held > MAX_LINE_BYTES:
                    line = number + buffer.count(NEWLINE, 0, held)
                    raise line_too_long(f"{path}:{line}")
                if held == len(buffer):  # a line is longer than the buffer
                    buffer = buffer + bytes(len(buffer))  # not in place: the last block may still be referred to
                with memoryview(buffer) as view:
                    read = stream.readinto(view[held : held + CHUNK_BYTES])
                progress(raw.tell() - at)
                at, held = raw.tell(), held + read
                end = buffer.rfind(NEWLINE, held - read, held) + 1 if held >= BLOCK_BYTES else 0
                if not read:
                    end = held
                if end:
                    if number == 1 and buffer.startswith(_UTF16):
                        raise InputError(f"{path}: UTF-16, expected UTF-8; {CONVERT}")
                    start = len(codecs.BOM_UTF8) if number == 1 and buffer.startswith(codecs.BOM_UTF8) else 0
                    with memoryview(buffer) as view:
                        if start == end:  # only a byte order mark
                            return
                        lines = int(np.count_nonzero(np.frombuffer(view[:end], np.uint8) == NEWLINE[0]))
                        lines += buffer[end - 1] != NEWLINE[0]
                        yield number, lines, view[start:end]
                    buffer[: held - end] = buffer[end:held]
                    number, held = number + lines, held - end
                if not read:
                    return
        except EOFError as error:
            complete = number - 1 + buffer.count(NEWLINE, 0, held)
            raise InputError(
                f"{path}: the archive is truncated, after {complete:,} complete lines; download it again, or unpack "
                f"its readable part (`{UNPACK[suffix]} {path.name} > {path.stem}.part`, with the suffix of its form: "
                ".jsonl, .tsv) and name that file"
            ) from error
        except UNREADABLE as error:
            complete = number - 1 + buffer.count(NEWLINE, 0, held)
            raise InputError(
                f"{path}: not a readable {suffix or 'plain'} file, after {complete:,} complete lines ({error}); "
                "check its suffix, or download it again"
            ) from error


def read_lines(path: Path, forms: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Yield (file:line, the line's bytes without the newline, as UTF-8) of a text file; see `read_blocks`."""
    for number, _, block in read_blocks(path, forms):
        yield from split_lines(path, number, block)


def split_lines(path: Path, number: int, block: memoryview) -> Iterator[tuple[str, bytes]]:
    """The lines of a block of `read_blocks`, as `read_lines` yields them; `number` is that of its first line."""
    lines = bytes(block).split(NEWLINE)
    if not lines[-1]:
        lines.pop()
    for line_number, line in enumerate(lines, start=number):
        yield f"{path}:{line_number}", line


def decode(line: bytes) -> str:
    """The text of a line; raises BrokenLineError if its bytes are not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BrokenLineError("not UTF-8", f"byte 0x{line[error.start]:02x} at {error.start + 1}") from error
