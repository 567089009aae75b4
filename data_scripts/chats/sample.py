"""The beginning of a log, from which its format, encoding, columns and roles are recognized; it is taken once.

The encoding is UTF-8 unless a byte order mark or more invalid than valid lines say otherwise; then charset-normalizer
selects one. The delimiter is the one in the first line; if several are there, DuckDB's sniffer selects one.
"""

from __future__ import annotations

import codecs
import io
import re
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import BinaryIO

from modeling_convsim.files.delimited import TABS, Dialect
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.json_values import Streamed
from modeling_convsim.files.records import DELIMITED, Records, form_of, read_records
from modeling_convsim.files.texts import CONVERT, UTF8, TextFile

SAMPLE_BYTES, SAMPLE_LINES = 1 << 16, 200  # of the text from which a format, an encoding or a delimiter is detected
DELIMITERS = {",": "comma", ";": "semicolon", "\t": "tab", "|": "pipe"}
_MARKS = {codecs.BOM_UTF8: UTF8, codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_UTF16 = ["utf_16_le", "utf_16_be"]
_WESTERN = "cp1252"
# The encodings of Windows and of East Asia: those of DOS and of old Macs are rare, and short texts resemble them.
_ENCODINGS = [_WESTERN, *(f"cp125{number}" for number in (0, 1, 3, 4, 5, 6, 7)), "cp932", "gb18030", "big5", "euc_kr"]

_ADDED = re.compile(r"__MACOSX/|(?:.*/)?\.[^/]*$")  # by macOS to a .zip
_CHAT = re.compile(r"_chat\.txt|.*WhatsApp.*\.txt", re.IGNORECASE)


class Sample:
    """The beginning of a file, folder, .zip or dataset on the Hub; each part is read when it is first needed.

    Attributes:
        path: the log.
        is_on_hub: whether it is a dataset on the Hub, and not a file or a folder.
        streamed: see `read_records`.
        is_open: whether `records` are those of conversations within the records, if there are some.
    """

    def __init__(
        self, path: Path, encoding: str | None = None, is_on_hub: bool = False, streamed: Streamed = ()
    ) -> None:
        self.path, self.is_on_hub, self.streamed = path, is_on_hub, streamed
        self._stated_encoding, self.is_open = encoding, False

    @cached_property
    def form(self) -> str:
        """The suffix of the file, without that of its compression; "" for a folder or a dataset on the Hub."""
        return "" if self.is_on_hub or not self.path.is_file() else form_of(self.path)

    @cached_property
    def members(self) -> list[str]:
        """The paths in a folder and in those within it, or in a .zip; none of other files."""
        if self.path.is_dir():
            found = (member for pattern in ("*", "*/*", "*/*/*") for member in self.path.glob(pattern))
            return [member.relative_to(self.path).as_posix() for member in found]
        return self._zipped[0] if self.form == ".zip" else []

    @cached_property
    def file(self) -> TextFile:
        """The text file that the log is, or the chat in a .zip (`_find_chat`); empty if there is none."""
        if self.form == ".zip":
            return self._zipped[1]
        return TextFile.read(self.path) if self.form else _no_text(self.path)

    @cached_property
    def text(self) -> TextFile:
        """The same with its encoding.

        Raises:
            InputError: the encoding is not known.
        """
        return replace(self.file, encoding=self._stated_encoding or _detect_encoding(self.path, self.file.head))

    @property
    def start(self) -> str:
        """The beginning of the text; its last line may be incomplete."""
        return self.text.head[:SAMPLE_BYTES].decode(self.text.encoding, "replace").removeprefix("\ufeff")

    @cached_property
    def lines(self) -> list[str]:
        """The first lines of the text, without blank ones; the last one may be incomplete."""
        return [line for line in self.start.splitlines() if line.strip()]

    @cached_property
    def dialect(self) -> Dialect:
        """How the columns of a text table are separated."""
        is_whole = len(self.text.head) <= SAMPLE_BYTES
        found = _detect_dialect(self.start if is_whole else self.start.rpartition("\n")[0] + "\n")
        return TABS if self.form == ".tsv" and found.delimiter == "\t" else found

    @cached_property
    def records(self) -> Records:
        """The records of a table or of JSON, the first of which are read.

        Raises:
            InputError: there is none, or the file cannot be read.
        """
        if self.is_on_hub:
            from data_scripts.loading import hub_records  # imported here, because files are read without pyarrow

            return hub_records(str(self.path))
        is_table = self.form in DELIMITED
        text = None if self.form == ".parquet" else self.text
        return read_records(self.path, text, self.dialect if is_table else None, self.streamed)

    @cached_property
    def _zipped(self) -> tuple[list[str], TextFile]:
        try:
            with zipfile.ZipFile(self.path) as archive:
                names = [name for name in archive.namelist() if not _ADDED.match(name)]
        # zipfile raises NotImplementedError for a later version of the format, RuntimeError for an encrypted file.
        except (OSError, ValueError, RuntimeError, zipfile.BadZipFile) as error:
            raise bad_zip(self.path, error) from error
        chat = _find_chat(names)
        return names, TextFile.read(self.path, partial(_open_member, self.path, chat)) if chat else _no_text(self.path)


def _find_chat(names: list[str]) -> str | None:
    """The only text in a .zip, or the one that is named like WhatsApp's chats, beside texts that were sent."""
    texts = [name for name in names if name.lower().endswith(".txt")]
    chats = [name for name in texts if _CHAT.fullmatch(name.rpartition("/")[2])] or texts
    return chats[0] if len(chats) == 1 else None


def _no_text(path: Path) -> TextFile:
    return TextFile(path, lambda: nullcontext(io.BytesIO()), b"", is_whole=True)


def bad_zip(path: Path, error: Exception) -> InputError:
    """The error for a .zip that cannot be read."""
    return InputError(f"{path}: not a readable .zip ({error}); check the path, or download or export it again")


@contextmanager
def _open_member(path: Path, name: str) -> Iterator[BinaryIO]:
    try:
        with zipfile.ZipFile(path) as archive, archive.open(name) as stream:
            yield stream  # type: ignore[misc]
    except InputError:
        raise
    except (ValueError, RuntimeError, zipfile.BadZipFile) as error:
        raise bad_zip(path, error) from error


def _detect_encoding(path: Path, head: bytes) -> str:
    for mark, encoding in _MARKS.items():
        if head.startswith(mark):
            return encoding
    has_zeros = b"\0" in head[:SAMPLE_BYTES]
    if head.isascii():
        return _best_match(path, head[: SAMPLE_BYTES & -2], _UTF16) if has_zeros else UTF8
    try:
        codecs.getincrementaldecoder(UTF8)().decode(head)  # the last character may be incomplete
        return UTF8
    except UnicodeDecodeError:
        lines = [line for line in head.split(b"\n") if not line.isascii()]
    if sum(map(_is_utf8, lines)) * 2 >= len(lines):
        return UTF8
    if has_zeros:
        return _best_match(path, head[: SAMPLE_BYTES & -2], _UTF16)
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
            f"{path}: not UTF-8, and no other encoding was recognized; state it with --encoding, or {CONVERT}"
        )
    # Several encodings fit a short text equally well; of those, the one of Western Europe is by far the most common.
    equal = {name for match in matches if match.chaos <= best.chaos for name in match.could_be_from_charset}
    return _WESTERN if _WESTERN in equal and _WESTERN in encodings else best.encoding.replace("_", "-")


def _detect_dialect(sample: str) -> Dialect:
    """The delimiter, and the escape character if there is one, of a table that begins with `sample`."""
    header = sample.partition("\n")[0]
    candidates = [each for each in DELIMITERS if each in header]
    if len(candidates) < 2 and '\\"' not in sample:
        return Dialect((candidates or [","])[0])
    sniffed, escape = _sniff(sample)
    return Dialect(sniffed if sniffed in candidates else max(candidates or [","], key=header.count), escape)


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
