"""Dumps of Reddit: the bytes of a dump in each compression, and the two parsers of its lines."""

import bz2
import gzip
import json
import lzma
from pathlib import Path

from data_scripts.clean.filters import Filters
from data_scripts.read.dumps import DUMP_FORMS, BlockParser, parse_lines
from data_scripts.read.files import BrokenLines, read_blocks, zstd
from tests.fuzzing.invariants import accepts, check_broken
from tests.fuzzing.registry import harness

COMPRESSIONS = {
    "": lambda content: content,
    ".gz": lambda content: gzip.compress(content, 1, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lambda content: lzma.compress(content, preset=0),
    ".zst": zstd.compress,
}
FILTERS = (Filters(), Filters(markdown=True))
COMMENT = {
    "id": "a1",
    "parent_id": "t1_a0",
    "link_id": "t3_b",
    "author": "someone",
    "body": "I like [cats](http://c.d) &amp; dogs\n> no",
    "subreddit": "pets",
    "created_utc": 1420070400,
    "score": 3,
    "edited": False,
    "flair": None,
}
SUBMISSION = {
    "id": "b",
    "author": "someone",
    "title": "Ünïcode 😀 &lt;b&gt;",
    "subreddit": "pets",
    "created_utc": "1420070400",
    "media": {"oembed": [1.5, {"x": "\u0627"}]},
}


def lines_of(record: dict) -> bytes:
    return b"".join(json.dumps(record | {"id": f"x{number}"}).encode() + b"\n" for number in range(3))


def _reader_seeds() -> list[bytes]:
    comments = lines_of(COMMENT)
    plain = [bytes([suffix, 1, 0]) + comments for suffix in range(len(COMPRESSIONS))]
    return plain + [bytes([suffix, 0, 0]) + compress(comments) for suffix, compress in enumerate(COMPRESSIONS.values())]


@harness("dump files (.jsonl, .gz, .bz2, .xz, .zst)", _reader_seeds)
def dump_reader(data: bytes, folder: Path) -> bool:
    """Byte 0 selects the compression; byte 1 whether the rest is compressed and then damaged at the place of byte 2."""
    kind, damage, place = data[:3].ljust(3, b"\0")
    suffix, compress = list(COMPRESSIONS.items())[kind % len(COMPRESSIONS)]
    content = data[3:] if damage % 4 == 0 else compress(data[3:])
    at = place * len(content) // 256
    if damage % 4 == 2:
        content = content[:at]
    elif damage % 4 == 3 and content:
        content = content[:at] + bytes([content[at] ^ 1 + place % 255]) + content[at + 1 :]
    path = folder / f"RC_2015-01.jsonl{suffix}"
    path.write_bytes(content)

    def read() -> None:
        parser, following = BlockParser(False, FILTERS[0]), 1
        for number, lines, block in read_blocks(path, DUMP_FORMS, lambda count: None):
            assert number == following
            following += lines
            compare(path, parser, number, lines, block)

    return accepts(read, path)


def _parser_seeds() -> list[bytes]:
    return [
        bytes([kind]) + lines_of(record)
        for kind in (0, 2)
        for record in (COMMENT, SUBMISSION)[kind // 2 : kind // 2 + 1]
    ] + [b"\x01" + lines_of(COMMENT | {"body": "&#x41;&amp;lt; [a](b) \u202e\u0645 e\u0301"})]


@harness("the block parser of dumps against Python's json", _parser_seeds)
def dump_parser(data: bytes, folder: Path) -> bool:
    """Byte 0 selects submissions or comments, and Markdown; accepted if the block is parsed at once."""
    options, block = data[:1].ljust(1, b"\0")[0], data[1:]
    if not block:
        return False
    parser = BlockParser(bool(options & 2), FILTERS[options & 1])
    lines = block.count(b"\n") + (not block.endswith(b"\n"))
    return compare(folder / "RC.jsonl", parser, 1, lines, memoryview(block))


def compare(path: Path, parser: BlockParser, number: int, lines: int, block: memoryview) -> bool:
    """Assert that a block that is parsed at once has the rows of its lines, each parsed by itself."""
    broken = BrokenLines()
    rows = [row for row, _ in parse_lines(path, number, block, parser.submissions, parser.filters, broken)]
    assert len(rows) + broken.counts.total() == lines
    check_broken(broken)
    table = parser.parse(block, lines)
    if table is not None:
        assert not broken.counts, f"accepted in a block, but not by itself: {broken.examples}"
        assert [tuple(row.values()) for row in table.to_pylist()] == rows
    return table is not None
