"""Parses dumps of Reddit (Pushshift's, arctic-shift's): converts blocks of JSON lines to tables of comments."""

from collections.abc import Iterator
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from data_scripts.clean.filters import Filters, measure_language
from data_scripts.reddit.columns import measure_column
from data_scripts.schemas import COMMENT_SCHEMA, COMMENT_TEXTS, LANGUAGE_FIELD
from modeling_convsim.files.texts import BrokenLineError, BrokenLines, decode

SUBMISSION_TEXTS = ("id", "author", "title", "subreddit")
Columns = tuple[dict[str, pa.StringArray], pa.Int64Array]
Seconds = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]  # since 1970


class _Comment(msgspec.Struct, gc=False):
    id: str
    parent_id: str | int | None
    link_id: str
    author: str
    body: str
    subreddit: str
    created_utc: Seconds


class _Submission(msgspec.Struct, gc=False):
    id: str
    author: str
    title: str
    subreddit: str
    created_utc: Seconds


def comment_schema(filters: Filters) -> pa.Schema:
    """The columns of a file of comments: `language` (ISO 639-1) is one of them if the filters need it."""
    return COMMENT_SCHEMA.append(LANGUAGE_FIELD) if filters.language else COMMENT_SCHEMA


def parent_names(parents: list[Any], links: list[str]) -> list[str]:
    """Ids such as `t1_c0b2xyz` of what comments reply to, as Reddit names it.

    Pushshift's API of 2022 writes the number that `c0b2xyz` is in base 36, and null for a reply to the submission.
    """
    pairs = zip(parents, links, strict=True)
    return [
        parent if isinstance(parent, str) else link if parent is None else f"t1_{np.base_repr(parent, 36).lower()}"
        for parent, link in pairs
    ]


def text_names(submissions: bool) -> tuple[str, ...]:
    """The fields of a submission, or of a comment, that are texts."""
    return SUBMISSION_TEXTS if submissions else COMMENT_TEXTS


class DumpParser:
    """Parses the comments of a dump, block by block.

    Args:
        submissions: whether the dump contains submissions. A submission becomes a comment without a parent, with its
            title as the body.
        filters: the cleaning and the measures that are needed.
    """

    def __init__(self, submissions: bool, filters: Filters) -> None:
        self.submissions, self.filters = submissions, filters
        # Not strict: `created_utc` may be in quotes, and have a fraction that is 0.
        self.decoder: Any = msgspec.json.Decoder(_Submission if submissions else _Comment, strict=False)

    def parse(self, block: memoryview, lines: int) -> pa.Table | None:
        """The comments of a block with the columns of `comment_schema`; None if a line must be parsed by itself."""
        columns = self.columns(block, lines)
        return columns and self.measure(*columns)

    def columns(self, block: memoryview, lines: int) -> Columns | None:
        """The unchanged texts of a block by field, and `created_utc`; None if a line must be parsed by itself."""
        try:
            # msgspec does not decode the fields that it skips, so all of the block is validated as UTF-8.
            offsets = pa.py_buffer(np.array([0, len(block)], np.int64))
            pa.LargeStringArray.from_buffers(1, offsets, pa.py_buffer(block)).validate(full=True)
            rows = self.decoder.decode_lines(block)
        except (msgspec.DecodeError, ValueError, RecursionError):
            return None
        return self._columns(rows) if len(rows) == lines and _separated_by_newlines(block, lines) else None

    def parse_lines(self, dump: Path, number: int, block: memoryview, broken: BrokenLines) -> pa.Table:
        """The comments of a block that `parse` cannot parse.

        Args:
            dump: the file, for the locations of broken lines.
            number: the number of the block's first line.
            block: complete lines.
            broken: counts the lines that are not a comment.
        """
        return self.measure(*self._columns(list(self._rows(dump, number, block, broken))))

    def _rows(self, dump: Path, number: int, block: memoryview, broken: BrokenLines) -> Iterator[Any]:
        for line_number, line in enumerate(bytes(block).removesuffix(b"\n").split(b"\n"), start=number):
            location = f"{dump}:{line_number}"
            try:
                decode(line)
                yield self.decoder.decode(line)
            except BrokenLineError as error:
                broken.add(error.args[0], location, error.args[1])
            except (msgspec.DecodeError, RecursionError) as error:
                broken.add(_kind(error), location, str(error))

    def _columns(self, rows: list[Any]) -> Columns:
        values = {name: list(map(attrgetter(name), rows)) for name in text_names(self.submissions)}
        if not self.submissions and not all(isinstance(parent, str) for parent in values["parent_id"]):
            values["parent_id"] = parent_names(values["parent_id"], values["link_id"])
        texts = {name: pa.array(own, pa.string()) for name, own in values.items()}
        return texts, pa.array(list(map(attrgetter("created_utc"), rows)), pa.int64())

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


def _kind(error: Exception) -> str:
    """What is wrong with a line, as reports count it."""
    starts = {"Object missing": "missing field", "Expected `object`": "not a JSON object"}
    default = "wrong type" if isinstance(error, msgspec.ValidationError) else "not JSON"
    default = "not UTF-8" if "surrogate" in str(error) else default  # half of a pair
    return next((kind for start, kind in starts.items() if str(error).startswith(start)), default)


def _separated_by_newlines(block: memoryview, lines: int) -> bool:
    """Whether each newline of valid JSON is between two objects; msgspec accepts newlines within objects, too."""
    content = np.frombuffer(block, np.uint8)
    ends = np.flatnonzero(content == ord("\n"))[: lines - 1]
    last = content[ends - 1]
    last = np.where(last == ord("\r"), content[ends - 2], last)
    return bool(content[0] == ord("{") and (last == ord("}")).all() and (content[ends + 1] == ord("{")).all())
