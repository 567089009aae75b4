"""Broken dumps, read by the complete command: an error or counted lines, and no good line is lost."""

import bz2
import gzip
import json
import lzma
import random
from collections.abc import Callable
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import zstandard

from data_scripts.__main__ import main
from tests.data_scripts.reddit.test_reddit import comment as reddit_comment

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    ".bz2": bz2.compress,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}


def comment(number: int, **changes: object) -> dict:
    """A comment that passes the rules; it replies to the previous one, and the first of ten to a submission."""
    parent = f"t1_c{number - 1}" if number % 10 else f"t3_s{number}"
    fields = {"link_id": f"t3_s{number - number % 10}", "author": f"reader{number}", "created_utc": 1136074029 + number}
    fields["body"] = f"these are the words of a comment {number}"
    return reddit_comment(f"c{number}", **{"parent_id": parent, "score": 3} | fields | changes)


def line(fields: dict) -> bytes:
    return json.dumps(fields).encode() + b"\n"


GOOD = [comment(number) for number in range(6_000)]  # more than a megabyte
GOOD_LINES = [line(fields) for fields in GOOD]


def among_good_lines(*broken: bytes, seed: int = 0) -> bytes:
    """The good lines, with broken lines at random positions."""
    draws, lines = random.Random(seed), list(GOOD_LINES)
    for one in broken:
        lines.insert(draws.randrange(len(lines) + 1), one if one.endswith(b"\n") else one + b"\n")
    return b"".join(lines)


def pairs_of(comments: list[dict]) -> set[tuple[str, str, str]]:
    """(input, response, thread) of each reply whose parent exists, by brute force."""
    by_name = {f"t1_{fields['id']}": fields for fields in comments}
    replies = [(by_name[fields["parent_id"]], fields) for fields in comments if fields["parent_id"] in by_name]
    return {(parent["body"], reply["body"], reply["link_id"]) for parent, reply in replies}


def run(output: Path, *dumps: Path) -> int:
    return main(["reddit", *map(str, dumps), "--output", str(output), "--workers", "1"])


def extract(folder: Path, data: bytes, name: str = "RC_2001-01.jsonl") -> tuple[set[tuple[str, str, str]], dict]:
    """The pairs and the report of the command for a dump."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(data)
    assert run(folder / "out", folder / name) == 0
    rows = [row for file in (folder / "out").glob("*.parquet") for row in pq.read_table(file).to_pylist()]
    report = json.loads((folder / "out" / "report.json").read_text(encoding="utf-8"))
    assert len(rows) == report["pairs"]["written"]
    return {(row["input"], row["response"], row["thread"]) for row in rows}, report


def refuse(folder: Path, data: bytes, name: str, capsys: pytest.CaptureFixture[str]) -> str:
    """The error message for this dump after a good one; the command leaves no files."""
    folder.mkdir(exist_ok=True)
    (folder / "RC_2000-12.jsonl").write_bytes(b"".join(GOOD_LINES[:20]))
    (folder / name).write_bytes(data)
    assert run(folder / "out", folder / "RC_2000-12.jsonl", folder / name) == 2
    assert sorted(file.name for file in folder.iterdir()) == ["RC_2000-12.jsonl", name]
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith(f"error: {folder / name}: ")
    return message


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_dump_truncated_at_any_byte_is_refused_and_its_complete_lines_can_be_recovered(tmp_path, capsys, suffix):
    packed = PACKERS[suffix](b"".join(GOOD_LINES))
    for end in (random.Random(suffix).randrange(2, len(packed)), len(packed) - 1):
        message = refuse(tmp_path / str(end), packed[:end], f"RC_2001-01{suffix}", capsys)
        assert "the archive is truncated" in message
        assert "download it again, or unpack its readable part" in message
    # The readable part, as a decompressor writes it, is truncated within a line.
    part = b"".join(GOOD_LINES)[: random.Random(suffix).randrange(500_000, 600_000)]
    whole = part.count(b"\n")
    found, report = extract(tmp_path / "part", part, "RC_2001-01.jsonl")
    assert found == pairs_of(GOOD[:whole])
    assert report["lines left out"] == {"not JSON": 1}
    assert report["first lines left out"][0].startswith(f"RC_2001-01.jsonl:{whole + 1}: ")


def test_lines_of_garbage_are_counted(tmp_path):
    draws = random.Random(1)
    garbage = [bytes(draws.randrange(256) for _ in range(draws.randrange(500))) for _ in range(100)]
    garbage = [one.replace(b"\n", b"") for one in garbage] + [b"{}", b"[]", b"null", b"0", b'"text"', b"{", b"}", b"\r"]
    found, report = extract(tmp_path, among_good_lines(*garbage))
    assert found == pairs_of(GOOD)
    assert sum(report["lines left out"].values()) == len(garbage)
    assert sum(report["comments"].values()) == len(GOOD)


def test_a_dump_in_another_encoding_is_refused(tmp_path, capsys):
    data = b"".join(GOOD_LINES).decode().encode("utf-16")
    message = refuse(tmp_path, data, "RC_2001-01.jsonl", capsys)
    assert "RC_2001-01.jsonl: UTF-16, expected UTF-8; convert the file to UTF-8" in message


def test_cycles_of_parents_lose_no_other_pair(tmp_path):
    circle = [
        comment(9_001 + number, parent_id=f"t1_c{9_001 + (number + 1) % 3}", link_id="t3_s") for number in range(3)
    ]
    alone = comment(9_009, parent_id="t1_c9009")
    found, report = extract(tmp_path, among_good_lines(*map(line, [*circle, alone])))
    assert found - pairs_of([alone]) == pairs_of(GOOD + circle)
    assert sum(report["kept comments"].values()) == report["comments"]["kept"] == len(GOOD) + 4
