"""Parses dumps of Reddit (Pushshift's, arctic-shift's): converts blocks of JSON lines to tables of comments."""

import json
import math
import re
from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data_scripts.clean.filters import Filters
from data_scripts.clean.measures import measure, measure_column, measure_language
from data_scripts.files.texts import BrokenLineError, BrokenLines, decode, split_lines
from data_scripts.schemas import COMMENT_SCHEMA, COMMENT_TEXTS, LANGUAGE_FIELD

DUMP_FORMS = ("", ".jsonl", ".ndjson", ".json")  # a decompressed dump is named RC_2015-01
SUBMISSION_TEXTS = ("id", "author", "title", "subreddit")


def _parse_integer(digits: str) -> float:
    """An integer of any length: Python refuses more than 4,300 digits, but `BlockParser` skips them in other fields."""
    return int(digits) if len(digits) < 4_300 else math.copysign(math.inf, -digits.startswith("-"))


_DECODER = json.JSONDecoder(parse_int=_parse_integer)


def comment_schema(filters: Filters) -> pa.Schema:
    """The columns of a file of comments: `language` (ISO 639-1) is one of them if the filters need it."""
    return COMMENT_SCHEMA.append(LANGUAGE_FIELD) if filters.language else COMMENT_SCHEMA


def holds_submissions(dump: Path) -> bool:
    """Whether the name of a dump is that of submissions: RS_2015-01.zst, maths_submissions.zst, r_maths_posts.jsonl."""
    return dump.name.startswith("RS_") or bool(re.search(r"_(submissions|posts)\b", dump.name))


def text_names(submissions: bool) -> tuple[str, ...]:
    """The fields of a submission, or of a comment, that are texts."""
    return SUBMISSION_TEXTS if submissions else COMMENT_TEXTS


def parse_comment(line: bytes, submissions: bool, filters: Filters) -> tuple:
    """One line of a dump as a row of `comment_schema`.

    Raises:
        BrokenLineError: the line is not a comment (or submission).
    """
    fields = _json_object(line)
    names = text_names(submissions)
    missing = [name for name in (*names, "created_utc") if name not in fields]
    if missing:
        raise BrokenLineError("missing field", ", ".join(missing))
    texts = [fields[name] for name in names]
    for name, text in zip(names, texts, strict=True):
        if not isinstance(text, str):
            raise BrokenLineError("wrong type", f"{name} should be text, found {type(text).__name__}")
    created = _created_utc(fields["created_utc"])
    if submissions:
        name, author, title, subreddit = texts
        texts = [name, "", f"t3_{name}", author, title, subreddit]
    body, characters, alphabetic = measure(texts[4], filters)
    row: tuple = (*texts[:4], body, texts[5], created, characters, alphabetic)
    try:
        "".join((*texts, body)).encode()
    except UnicodeEncodeError as error:  # half of a surrogate pair, written as \\ud83d: not valid Unicode
        raise BrokenLineError("not UTF-8", "half of a surrogate pair") from error
    return (*row, measure_language(body, characters, alphabetic, filters)) if filters.language else row


def _json_object(line: bytes) -> dict:
    try:
        fields = _DECODER.decode(decode(line))
    except (ValueError, RecursionError) as error:
        raise BrokenLineError("not JSON", str(error)) from error
    if not isinstance(fields, dict):
        raise BrokenLineError("not a JSON object", f"found {type(fields).__name__}")
    return fields


def _created_utc(value: object) -> int:
    try:
        try:
            created = int(value)  # type: ignore[call-overload]  # a number, or in some months' dumps digits in quotes
        except ValueError:
            created = int(float(value))  # type: ignore[arg-type]  # "1420070400.0"
        if 0 <= created < 2**63:
            return created
        raise ValueError
    except (TypeError, ValueError, OverflowError) as error:
        raise BrokenLineError("wrong type", "created_utc should be seconds since 1970") from error


class _Comment(msgspec.Struct, gc=False):
    id: str
    parent_id: str
    link_id: str
    author: str
    body: str
    subreddit: str
    created_utc: int


class _Submission(msgspec.Struct, gc=False):
    id: str
    author: str
    title: str
    subreddit: str
    created_utc: int


def _separated_by_newlines(block: memoryview, lines: int) -> bool:
    """Whether each newline of valid JSON is between two objects; msgspec accepts newlines within objects, too."""
    content = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(content == ord("\n"))[: lines - 1]
    last = content[ends - 1]
    last = np.where(last == ord("\r"), content[ends - 2], last)
    return bool(content[0] == ord("{") and (last == ord("}")).all() and (content[ends + 1] == ord("{")).all())


def _check_utf8(block: memoryview) -> None:
    """Raise a ValueError if a block is not UTF-8."""
    offsets = pa.py_buffer(np.array([0, len(block)], np.int64))
    pa.LargeStringArray.from_buffers(1, offsets, pa.py_buffer(block)).validate(full=True)


class BlockParser:
    """Parses a block of comments at once, unless one of its lines is unusual.

    Args:
        submissions: whether the dump contains submissions. A submission becomes a comment without a parent, with its
            title as the body.
        filters: the cleaning and the measures that are needed.
    """

    def __init__(self, submissions: bool, filters: Filters) -> None:
        self.submissions, self.filters = submissions, filters
        # Not strict: `created_utc` may be in quotes.
        self.decoder = msgspec.json.Decoder(_Submission if submissions else _Comment, strict=False)

    def parse(self, block: memoryview, lines: int) -> pa.Table | None:
        """The comments of a block with the columns of `comment_schema`; None if a line must be parsed by itself."""
        columns = self.columns(block, lines)
        return columns and self.measure(*columns)

    def columns(self, block: memoryview, lines: int) -> tuple[dict[str, pa.StringArray], pa.Int64Array] | None:
        """The unchanged texts of a block by field, and `created_utc`; None if a line must be parsed by itself."""
        try:
            _check_utf8(block)  # msgspec does not decode the fields that it skips
            rows = self.decoder.decode_lines(block)
            created = pa.array(list(map(attrgetter("created_utc"), rows)), pa.int64())
        except (msgspec.DecodeError, ValueError, OverflowError, RecursionError):
            return None
        if len(rows) != lines or not _separated_by_newlines(block, lines) or pc.min(created).as_py() < 0:
            return None
        names = text_names(self.submissions)
        return {name: pa.array(list(map(attrgetter(name), rows)), pa.string()) for name in names}, created

    def measure(self, texts: dict[str, pa.StringArray], created: pa.Int64Array) -> pa.Table:
        """The texts of `columns` as a table with the columns of `comment_schema`."""
        if self.submissions:
            blank = pa.array([""] * len(created), pa.string())
            link = pc.binary_join_element_wise("t3_", texts["id"], "")
            texts |= {"parent_id": blank, "link_id": link, "body": texts["title"]}
        texts["body"], characters, alphabetic = measure_column(texts["body"], self.filters)
        columns = [*(texts[name] for name in COMMENT_TEXTS), created, pa.array(characters), pa.array(alphabetic)]
        if self.filters.language:
            measures = zip(texts["body"].to_pylist(), characters.tolist(), alphabetic.tolist(), strict=True)
            columns.append(pa.array([measure_language(*row, self.filters) for row in measures], pa.string()))
        return pa.table(columns, schema=comment_schema(self.filters))


def parse_lines(
    dump: Path, number: int, block: memoryview, submissions: bool, filters: Filters, broken: BrokenLines
) -> Iterator[tuple[tuple, int]]:
    """(row of `comment_schema`, bytes of its line) for each line of a block that `BlockParser` cannot parse.

    Args:
        dump: the file, for the locations of broken lines.
        number: the number of the block's first line.
        block: complete lines.
        submissions: whether the dump contains submissions.
        filters: the cleaning and the measures that are needed.
        broken: counts the lines that are not a comment.
    """
    for location, line in split_lines(dump, number, block):
        try:
            yield parse_comment(line, submissions, filters), len(line)
        except BrokenLineError as error:
            broken.add(error.args[0], location, error.args[1])
