import bz2
import gzip
import json
import lzma
import random
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import zstandard

from data_scripts.clean.filters import PAPER, measure
from data_scripts.clean.text import unescape
from data_scripts.reddit import DUMP_FORMS, dumps
from data_scripts.reddit.comments import write_comments
from data_scripts.schemas import COMMENT_SCHEMA, COMMENT_TEXTS
from modeling_convsim.files import texts as files
from modeling_convsim.files.errors import InputError
from modeling_convsim.files.texts import BrokenLines
from tests.data_scripts.reddit.test_reddit import comment as reddit_comment


def comment(number: int, **changes: object) -> dict:
    fields = {"body": f"comment number {number}", "created_utc": 1136074029 + number, "score": 3}
    return reddit_comment(f"c{number}", **fields | changes)


def jsonl(*comments: dict) -> bytes:
    return b"".join(json.dumps(fields).encode() + b"\n" for fields in comments)


def zst(data: bytes) -> bytes:
    """Two frames, the second with a window above the library's own limit, as Pushshift's dumps have."""
    wide = zstandard.ZstdCompressionParameters.from_level(1, window_log=28)
    compressor = zstandard.ZstdCompressor(compression_params=wide).compressobj()
    half = len(data) // 2
    return zstandard.compress(data[:half]) + compressor.compress(data[half:]) + compressor.flush()


PACKERS = {".bz2": bz2.compress, ".gz": gzip.compress, ".xz": lzma.compress, ".zst": zst, ".jsonl": bytes}


def read(dump: Path) -> tuple[list[dict], BrokenLines]:
    output = dump.with_name("comments.parquet")
    broken = write_comments(dump, output)
    return pq.read_table(output).to_pylist(), broken


@pytest.mark.parametrize("suffix", PACKERS)
def test_every_compression_gives_every_comment(tmp_path, suffix):
    dump = tmp_path / f"RC_2001-01{suffix}"
    dump.write_bytes(PACKERS[suffix](jsonl(*(comment(number) for number in range(5000)))))
    rows, broken = read(dump)
    assert [row["id"] for row in rows] == [f"c{number}" for number in range(5000)]
    assert not broken.counts


@pytest.mark.parametrize("created", [b"7", b'"7"', b"7.0", b'"7.0"', b'"7e0"', b'"\\u0037"'])
def test_the_time_of_a_comment_may_be_in_quotes_or_a_float(created):
    block = jsonl(comment(1, created_utc=0)).replace(b'"created_utc": 0', b'"created_utc": ' + created)
    table = dumps.DumpParser(False, PAPER).parse(memoryview(block), 1)
    assert table["created_utc"].to_pylist() == [7]


def test_numbers_of_parents_become_their_names():
    parents = [int("j72b5yy", 36), float(int("c0b2xyz", 36)), None, "t1_c1", "41"]
    block = jsonl(*(comment(number, parent_id=parent) for number, parent in enumerate(parents)))
    table = dumps.DumpParser(False, PAPER).parse(memoryview(block), len(parents))
    assert table["parent_id"].to_pylist() == ["t1_j72b5yy", "t1_c0b2xyz", "t3_story", "t1_c1", "41"]


@pytest.mark.parametrize("quoted", [False, True])
def test_a_block_has_what_pythons_json_reads(quoted):
    bodies = [
        "",
        "plain",
        "a &amp; b &lt;",
        "&#xD800;&notanentity",
        "naïve Ελλάδα 数",
        'tab\tquote"line\nend',
        "😀x",
        " ",
    ]
    comments = [comment(number, body=bodies[number % len(bodies)] * (number % 3)) for number in range(200)]
    for fields in comments:
        fields |= {"created_utc": str(fields["created_utc"]) if quoted else fields["created_utc"], "edited": [{"a": 1}]}
    block = jsonl(*comments)
    parser, broken = dumps.DumpParser(False, PAPER), BrokenLines()
    parsed = parser.parse(memoryview(block), 200)
    assert parsed is not None  # not left to the slow way
    expected = [
        dict(zip(COMMENT_SCHEMA.names, (*texts.values(), int(fields["created_utc"]), *measures), strict=True))
        for fields in map(json.loads, block.splitlines())
        for body, *measures in [measure(unescape(fields["body"]))]
        for texts in [{name: fields[name] for name in COMMENT_TEXTS} | {"body": body}]
    ]
    assert parsed.schema == COMMENT_SCHEMA and parsed.to_pylist() == expected
    assert parser.parse_lines(Path("RC"), 1, memoryview(block), broken) == parsed and not broken.counts


def small_blocks(monkeypatch) -> None:
    monkeypatch.setattr(files, "CHUNK_BYTES", 300)
    monkeypatch.setattr(files, "BLOCK_BYTES", 500)


def test_lines_are_numbered_over_blocks(tmp_path, monkeypatch):
    small_blocks(monkeypatch)
    dump = tmp_path / "RC.jsonl"
    good = [jsonl(comment(number)) for number in range(50)]
    dump.write_bytes(b"".join([*good[:20], b"oops\n", *good[20:47], b"\n", *good[47:]]))
    rows, broken = read(dump)
    assert [row["id"] for row in rows] == [f"c{number}" for number in range(50)]
    assert [example.partition(": ")[0] for example in broken.examples] == [f"{dump}:21", f"{dump}:49"]


def test_a_line_longer_than_the_buffer_may_follow_a_block_that_is_still_referred_to(tmp_path, monkeypatch):
    small_blocks(monkeypatch)
    dump = tmp_path / "RC.jsonl"
    texts = [b"a" * 600 + b"\n", b"b" * 3000 + b"\n", b"c\n"]
    dump.write_bytes(b"".join(texts))
    blocks = [(number, bytes(block)) for number, _, block in files.read_blocks(dump, DUMP_FORMS)]
    assert b"".join(block for _, block in blocks) == b"".join(texts) and blocks[0] == (1, texts[0])


def test_byte_order_mark_windows_line_ends_and_a_missing_last_line_end_lose_nothing(tmp_path):
    dump = tmp_path / "RC.jsonl"
    dump.write_bytes(b"\xef\xbb\xbf" + jsonl(comment(1), comment(2)).replace(b"\n", b"\r\n").rstrip())
    rows, broken = read(dump)
    assert [row["id"] for row in rows] == ["c1", "c2"]
    assert not broken.counts


@pytest.mark.parametrize(
    ("line", "kind", "detail"),
    [
        (b'{"id": "c9", ', "not JSON", "truncated"),
        (b"", "not JSON", "truncated"),
        (b'["c9"]', "not a JSON object", "array"),
        (b'{"id": "c9", "body": "text"}', "missing field", "parent_id"),
        (jsonl(comment(9, body=None)).strip(), "wrong type", "Expected `str`, got `null` - at `$.body`"),
        (jsonl(comment(9, author=7)).strip(), "wrong type", "Expected `str`, got `int` - at `$.author`"),
        (jsonl(comment(9, created_utc="yesterday")).strip(), "wrong type", "at `$.created_utc`"),
        (jsonl(comment(9, created_utc=10**30)).strip(), "wrong type", "at `$.created_utc`"),
        (jsonl(comment(9, body="caf\xe9")).replace(b"\\u00e9", b"\xe9").strip(), "not UTF-8", "byte 0xe9"),
        (jsonl(comment(9, body="\ud83d")).strip(), "not UTF-8", "surrogate"),
    ],
)
def test_a_broken_line_is_counted_with_its_location_and_the_others_are_kept(tmp_path, line, kind, detail):
    dump = tmp_path / "RC.jsonl"
    dump.write_bytes(jsonl(comment(1)) + line + b"\n" + jsonl(comment(2)))
    rows, broken = read(dump)
    assert [row["id"] for row in rows] == ["c1", "c2"]
    assert broken.counts == {kind: 1}
    assert broken.examples[0].startswith(f"{dump}:2: {kind}")
    assert detail in broken.examples[0]


def test_lines_of_random_bytes_are_counted_and_the_others_are_kept(tmp_path):
    draw, lines = random.Random(1), [jsonl(comment(number)) for number in range(500)]
    for _ in range(100):
        garbage = bytes(draw.randrange(256) for _ in range(draw.randrange(500))).replace(b"\n", b"")
        lines.insert(draw.randrange(len(lines) + 1), garbage + b"\n")
    (tmp_path / "RC.jsonl").write_bytes(b"".join(lines))
    rows, broken = read(tmp_path / "RC.jsonl")
    assert [row["id"] for row in rows] == [f"c{number}" for number in range(500)] and broken.counts.total() == 100


@pytest.mark.parametrize("suffix", [".bz2", ".gz", ".xz", ".zst"])
def test_an_archive_that_is_truncated_or_of_another_kind_is_an_error_that_names_it(tmp_path, suffix):
    dump = tmp_path / f"RC_2001-01{suffix}"
    packed = PACKERS[suffix](jsonl(*map(comment, range(6_000))))
    for end in (random.Random(suffix).randrange(2, len(packed)), len(packed) - 1):
        dump.write_bytes(packed[:end])
        with pytest.raises(InputError, match=rf"RC_2001-01\{suffix}: the archive is truncated; download it again, or"):
            read(dump)
    dump.write_bytes(jsonl(comment(1)))
    with pytest.raises(InputError, match=rf"RC_2001-01\{suffix}: not a readable \{suffix} file"):
        read(dump)


FIRST, SECOND = (json.dumps(comment(number)) for number in (1, 2))
UNUSUAL = {
    "bytes of another field": FIRST.encode()[:-1] + b', "flair": "\xff"}\n',
    "a field's name": FIRST.encode()[:-1] + b', "\xff": 1}\n',
    "two objects on a line, and a blank line": f"{FIRST}{SECOND}\n\n".encode(),
    "a blank line, and two objects on a line": f"\n{FIRST}{SECOND}".encode(),
    "an object on two lines": f'{FIRST[:-1]},\n"x": 1}}\n{FIRST}{SECOND}\n'.encode(),
    "a list on two lines": f'{FIRST[:-1]}, "x": [\n{{}}]}}\n{FIRST}{SECOND}\n'.encode(),
    "half of a surrogate pair": FIRST.encode()[:-1] + b', "x": "\\ud83d"}\n',
}
USUAL = [
    *(f"{FIRST}{end}{SECOND}{end}".encode() for end in ("\n", "\r\n")),
    f"{FIRST}\n{SECOND}".encode(),
    FIRST.encode(),
]


@pytest.mark.parametrize("block", [*UNUSUAL.values(), *USUAL], ids=[*UNUSUAL, "LF", "CRLF", "no newline", "one line"])
def test_a_block_has_the_comments_of_its_lines(block):
    broken = BrokenLines()
    lines = block.count(b"\n") + (not block.endswith(b"\n"))
    parser = dumps.DumpParser(False, PAPER)
    rows = parser.parse_lines(Path("RC"), 1, memoryview(block), broken)
    table = parser.parse(memoryview(block), lines)
    assert len(rows) + broken.counts.total() == lines
    if block in USUAL:
        assert table is not None
    if table is not None:
        assert table == rows and not broken.counts
