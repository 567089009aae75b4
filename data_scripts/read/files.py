"""Reads text files of any compression, and writes files and folders that appear whole or not at all.

Memory does not grow with the file: reading holds a few times `BATCH_BYTES` of text, or of the file's longest line, and,
for Zstandard, its window (2 GiB for Pushshift's).
"""

import bz2
import codecs
import gzip
import lzma
import shutil
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tqdm import tqdm

from data_scripts.errors import InputError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

# Suffix -> the command that unpacks what can still be read of a damaged file.
UNPACK = {".bz2": "bzip2 -dc", ".zst": "zstd -dc --long=31", ".xz": "xz -dc", ".gz": "gzip -dc"}
NEWLINE = b"\n"
UNREADABLE = (OSError, lzma.LZMAError, zlib.error, zstd.ZstdError)  # what reading a damaged file raises, and EOFError
CHUNK_BYTES = 1 << 18
BLOCK_BYTES = 1 << 20  # read at a time, so few that they are parsed while caches hold them
BATCH_BYTES = 1 << 25  # of text in a row group
EXAMPLES = 5  # broken lines shown of each kind


class BrokenLines:
    """Counts the lines that were left out, by kind, and remembers where the first of each kind were."""

    def __init__(self, counts: dict[str, int] | None = None, first: dict[str, list[str]] | None = None) -> None:
        self.counts: Counter[str] = Counter(counts or {})
        self.first: dict[str, list[str]] = dict(first or {})

    @property
    def examples(self) -> list[str]:
        """The first lines of each kind, with their places and what is wrong with them."""
        return [example for examples in self.first.values() for example in examples]

    def add(self, kind: str, place: str, detail: str = "") -> None:
        """Count one line of a kind; `place` is its file:line, `detail` says what is wrong with this one."""
        self.counts[kind] += 1
        if self.counts[kind] <= EXAMPLES:
            self.first.setdefault(kind, []).append(f"{place}: {kind}" + (f" ({detail})" if detail else ""))

    def join(self, other: "BrokenLines") -> None:
        """Add what another has counted; its examples come after those that are here."""
        self.counts += other.counts
        for kind, examples in other.first.items():
            self.first[kind] = [*self.first.get(kind, []), *examples][:EXAMPLES]


class BrokenLineError(Exception):
    """What is wrong with a line: (kind, detail)."""


def unpacked(raw: BinaryIO, suffix: str) -> Any:
    """The stream of what is in a file, by the suffix that says how it is compressed (none of `UNPACK`: not at all).

    Reading it raises EOFError where the file is truncated, or one of `UNREADABLE`.
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
    """Refuse what cannot be an input before any is read: a long run should not fail on its last file's name.

    Args:
        path: a file whose name ends in one of `forms` or in `.bz2`, `.zst`, `.xz` or `.gz`.
        forms: the endings that an uncompressed file may have, such as `.jsonl`.

    Raises:
        InputError: the file is missing, empty or of an unknown ending.
    """
    if path.suffix not in (*forms, *UNPACK):
        known = ", ".join(filter(None, [*forms, *UNPACK]))
        raise InputError(f"{path}: unknown kind of file; expected a name that ends in {known}")
    if path.with_suffix("").suffix == ".tar":
        raise InputError(f"{path}: an archive of several files; unpack it and name the files in it")
    try:
        with path.open("rb") as file:
            empty = not file.read(1)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}); check the path") from error
    if empty:
        raise InputError(f"{path}: the file is empty; download it again or leave it out")


def read_blocks(
    path: Path, forms: tuple[str, ...], progress: Callable[[int], object] | None = None
) -> Iterator[tuple[int, int, memoryview]]:
    """Yield (number of the first line, lines, whole lines) of a text file in blocks of about `BLOCK_BYTES`.

    The lines' bytes are good until the next block is asked for, which takes their place.

    Args:
        path, forms: as for `check_file`; the last suffix says how the file is compressed.
        progress: told the number of bytes read from the file, as they are read; by default a bar shows them.

    Raises:
        InputError: as for `check_file`; or the file is not what its suffix says, or truncated.
    """
    check_file(path, forms)
    suffix = path.suffix if path.suffix in UNPACK else ""
    number, held = 1, 0
    buffer = bytearray(BLOCK_BYTES + CHUNK_BYTES)
    shown = tqdm(
        total=path.stat().st_size, delay=1, unit="B", unit_scale=True, desc=path.name, disable=progress is not None
    )
    progress, at = progress or shown.update, 0
    with path.open("rb") as raw, shown:
        try:
            stream = unpacked(raw, suffix)
            while True:
                if held == len(buffer):  # a line that is longer
                    buffer.extend(bytes(len(buffer)))
                with memoryview(buffer) as view:
                    read = stream.readinto(view[held : held + CHUNK_BYTES])
                progress(raw.tell() - at)
                at, held = raw.tell(), held + read
                end = buffer.rfind(NEWLINE, held - read, held) + 1 if held >= BLOCK_BYTES else 0
                if not read:
                    end = held
                if end:
                    start = len(codecs.BOM_UTF8) if number == 1 and buffer.startswith(codecs.BOM_UTF8) else 0
                    with memoryview(buffer) as view:
                        lines = int(np.count_nonzero(np.frombuffer(view[:end], np.uint8) == NEWLINE[0]))
                        lines += buffer[end - 1] != NEWLINE[0]
                        yield number, lines, view[start:end]
                    buffer[: held - end] = buffer[end:held]
                    number, held = number + lines, held - end
                if not read:
                    return
        except EOFError as error:
            whole = number - 1 + buffer.count(NEWLINE, 0, held)
            raise InputError(
                f"{path}: the archive is truncated, after {whole:,} whole lines; download it again, or unpack what is "
                f"there (`{UNPACK[suffix]} {path.name} > {path.stem}.part`, ending as the content is: .jsonl, .tsv) "
                "and give that file"
            ) from error
        except UNREADABLE as error:
            whole = number - 1 + buffer.count(NEWLINE, 0, held)
            raise InputError(
                f"{path}: not a readable {suffix or 'plain'} file, after {whole:,} whole lines ({error}); "
                "check that its ending says what it is, or download it again"
            ) from error


def read_lines(path: Path, forms: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Yield (file:line, the line's bytes without its end) of a text file; see `read_blocks`."""
    for number, _, block in read_blocks(path, forms):
        yield from split_lines(path, number, block)


def split_lines(path: Path, number: int, block: memoryview) -> Iterator[tuple[str, bytes]]:
    """The lines of a block of `read_blocks`, as `read_lines` yields them; `number` is that of its first."""
    lines = bytes(block).split(NEWLINE)
    if not lines[-1]:
        lines.pop()
    for place, line in enumerate(lines, start=number):
        yield f"{path}:{place}", line


class BatchWriter:
    """Writes rows to a Parquet file in row groups of about `BATCH_BYTES` of text, so that memory stays bounded."""

    def __init__(self, file: pq.ParquetWriter, schema: pa.Schema) -> None:
        self.file, self.schema = file, schema
        self.rows: list[tuple] = []
        self.tables: list[pa.Table] = []
        self.added = self.bytes = 0

    def add(self, row: tuple, size: int) -> None:
        """Add one row, values in the order of the schema, that was read from `size` bytes."""
        self.rows.append(row)
        self.added += 1
        self.bytes += size
        if self.bytes >= BATCH_BYTES:
            self.flush()

    def add_table(self, table: pa.Table) -> None:
        """Add rows that are a table already."""
        self._gather()
        self.tables.append(table)
        self.added += len(table)
        self.bytes += table.nbytes
        if self.bytes >= BATCH_BYTES:
            self.flush()

    def _gather(self) -> None:
        if self.rows:
            columns = zip(*self.rows, strict=True)
            arrays = [pa.array(column, field.type) for column, field in zip(columns, self.schema, strict=True)]
            self.tables.append(pa.Table.from_arrays(arrays, schema=self.schema))
        self.rows = []

    def flush(self) -> None:
        """Write the rows held as one row group."""
        self._gather()
        if self.tables:
            table = pa.concat_tables(self.tables)
            self.file.write_table(table, row_group_size=max(len(table), 1))
        self.tables, self.bytes = [], 0


@contextmanager
def parquet_writer(
    output: Path, schema: pa.Schema, compression: str = "zstd", use_dictionary: bool | list[str] = True
) -> Iterator[BatchWriter]:
    """Open a Parquet file for rows, with options of `pq.ParquetWriter`; it takes its name only when it is whole."""
    partial = output.with_name(f"{output.name}.partial")
    try:
        with pq.ParquetWriter(partial, schema, compression=compression, use_dictionary=use_dictionary) as file:
            writer = BatchWriter(file, schema)
            yield writer
            writer.flush()
        partial.replace(output)
    finally:
        partial.unlink(missing_ok=True)


@contextmanager
def new_folder(output: Path, overwrite: bool) -> Iterator[tuple[Path, Path]]:
    """Yield an empty folder that becomes `output` when the block ends well, and one for what is needed meanwhile.

    Both lie in `OUTPUT.partial`; what an interrupted run left there is removed first.

    Raises:
        InputError: `output` is there already and `overwrite` is not given, or it is no folder of pairs, or it cannot be
            written.
    """
    output = output.resolve()
    if output.exists() and not (output.is_dir() and not any(output.iterdir())):
        if not (output / "report.json").is_file():
            raise InputError(f"--output {output}: there already and not a folder of pairs; name another one")
        if not overwrite:
            raise InputError(f"--output {output}: there already; name another one, or replace it with --overwrite")
    partial = output.with_name(f"{output.name}.partial")
    folder, scratch = partial / "pairs", partial / "scratch"
    try:
        if partial.exists():
            shutil.rmtree(partial)
        folder.mkdir(parents=True)
        scratch.mkdir()
    except OSError as error:
        raise InputError(f"--output {output}: cannot be written ({error})") from error
    try:
        yield folder, scratch
        if output.exists():
            output.replace(partial / "replaced")
        folder.replace(output)
    finally:
        shutil.rmtree(partial)


def decode(line: bytes) -> str:
    """The text of a line; raises BrokenLineError where its bytes are not UTF-8."""
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BrokenLineError("not UTF-8", f"byte 0x{line[error.start]:02x} at {error.start + 1}") from error
