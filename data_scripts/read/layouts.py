"""Detects how a text file is written: its encoding, and the delimiter of its columns.

The encoding is UTF-8 unless a byte order mark or more invalid than valid lines say otherwise; then charset-normalizer
selects one. The delimiter is the one in the first line; if several are there, DuckDB's sniffer selects one.
"""

import codecs
import tempfile
from dataclasses import dataclass
from pathlib import Path

from data_scripts.errors import InputError
from data_scripts.read.files import CHUNK_BYTES, CONVERT, UNPACK, UNREADABLE, unpacked

HEAD_BYTES = 1 << 24  # of a file, in which invalid lines are counted
SAMPLE_BYTES, SAMPLE_LINES = 1 << 16, 200  # of the text from which an encoding or a delimiter is detected
UTF8 = "utf-8"
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
_MARKS = {codecs.BOM_UTF8: UTF8, codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_WESTERN = "cp1252"
# The encodings of Windows and of East Asia: those of DOS and of old Macs are rare, and short texts resemble them.
_ENCODINGS = [_WESTERN, *(f"cp125{number}" for number in (0, 1, 3, 4, 5, 6, 7)), "cp932", "gb18030", "big5", "euc_kr"]


@dataclass(frozen=True)
class TextLayout:
    """How a text file is written; the defaults are UTF-8 and commas.

    Attributes:
        encoding: as Python spells it.
        delimiter: what separates the columns of a table.
        escape: the character before a quote within a text, if quotes are not doubled.
    """

    encoding: str = UTF8
    delimiter: str = ","
    escape: str | None = None


def detect_layout(path: Path, is_table: bool, encoding: str | None = None) -> TextLayout:
    """The layout of a text file, which may be compressed.

    Args:
        path: the file.
        is_table: whether it is a table with delimited columns.
        encoding: the encoding, if the user stated it.

    Raises:
        InputError: the encoding is not known. Whoever reads the file reports that it is damaged.
    """
    head = _read_head(path)
    encoding = encoding or _detect_encoding(path, head)
    if not is_table:
        return TextLayout(encoding)
    sample = head[:SAMPLE_BYTES].decode(encoding, "replace").removeprefix("\ufeff")
    delimiter, escape = _detect_delimiter(sample if len(head) <= SAMPLE_BYTES else sample.rpartition("\n")[0] + "\n")
    return TextLayout(encoding, delimiter, escape)


def _read_head(path: Path) -> bytes:
    """The first `HEAD_BYTES` of a file, or those before the place where it is damaged."""
    head = bytearray()
    try:
        with path.open("rb") as raw:
            stream = unpacked(raw, path.suffix)
            while len(head) < HEAD_BYTES and (part := stream.read(CHUNK_BYTES)):
                head += part
    except (EOFError, *UNREADABLE):
        pass
    return bytes(head)


def _detect_encoding(path: Path, head: bytes) -> str:
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding
    if head.isascii():
        if b"\0" not in head[:SAMPLE_BYTES]:
            return UTF8
        return _best_match(path, head[: SAMPLE_BYTES & -2], ["utf_16_le", "utf_16_be"])
    try:
        codecs.getincrementaldecoder(UTF8)().decode(head)  # the last character may be incomplete
        return UTF8
    except UnicodeDecodeError:
        lines = [line for line in head.split(b"\n") if not line.isascii()]
    if sum(map(_is_utf8, lines)) * 2 >= len(lines):
        return UTF8
    if b"\0" in head[:SAMPLE_BYTES]:
        return _best_match(path, head[: SAMPLE_BYTES & -2], ["utf_16_le", "utf_16_be"])
    return _best_match(path, b"\n".join(lines[:SAMPLE_LINES])[:SAMPLE_BYTES], _ENCODINGS)


def _is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def _best_match(path: Path, sample: bytes, encodings: list[str]) -> str:
    # Imported here, because nearly all files are UTF-8.
    from charset_normalizer import from_bytes

    matches = from_bytes(sample, cp_isolation=encodings)
    best = matches.best()
    if best is None:
        raise InputError(
            f"{path}: neither UTF-8 nor another encoding that is recognized; state it with --encoding, or {CONVERT}"
        )
    # Several encodings fit a short text equally well; of those, the one of Western Europe is by far the most common.
    equal = {name for match in matches if match.chaos <= best.chaos for name in match.could_be_from_charset}
    return _WESTERN if _WESTERN in equal and _WESTERN in encodings else best.encoding.replace("_", "-")


def _detect_delimiter(sample: str) -> tuple[str, str | None]:
    """The delimiter, and the escape character if there is one, of a table that begins with `sample`."""
    header = sample.partition("\n")[0]
    candidates = [each for each in DELIMITERS if each in header]
    if len(candidates) < 2 and '\\"' not in sample:
        return (candidates or [","])[0], None
    sniffed, escape = _sniff(sample)
    delimiter = sniffed if sniffed in candidates else max(candidates or [","], key=header.count)
    return delimiter, escape


def _sniff(sample: str) -> tuple[str, str | None]:
    import duckdb  # imported here, because the delimiter of nearly all tables is clear from their first line

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "sample.csv")
        file.write_text(sample, encoding=UTF8, errors="replace", newline="")
        try:
            with duckdb.connect() as database:
                rows = database.execute("SELECT Delimiter, Escape FROM sniff_csv(?)", [str(file)]).fetchall()
        except duckdb.Error:
            return "", None
    return rows[0][0], "\\" if rows[0][1] == "\\" else None


def is_text(path: Path) -> bool:
    """Whether a file is text, perhaps compressed, so that it has an encoding."""
    suffix = (path.with_suffix("") if path.suffix in UNPACK else path).suffix
    return suffix in (".csv", ".tsv", ".txt", ".json", ".jsonl", ".ndjson")
