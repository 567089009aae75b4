"""Books: positions of sentences counted by hand, all formats, and the rows of real books."""

import json
import lzma
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import zstandard

from data_scripts.__main__ import main

TEXT = """Before any name.
=== A/First.txt
One.
Two.


Three.

=== B/Second.txt

Four.
 Five.\r
"""
SENTENCES = [
    ("tales", 0, 0, "Before any name."),
    ("A/First.txt", 0, 0, "One."),
    ("A/First.txt", 0, 1, "Two."),
    ("A/First.txt", 1, 2, "Three."),
    ("B/Second.txt", 0, 0, "Four."),
    ("B/Second.txt", 0, 1, "Five."),
]


def run(tmp_path: Path, source: Path | str) -> list[tuple[str, int, int, str]]:
    assert main(["books", str(source), "--output", str(tmp_path / "out"), "--overwrite"]) == 0
    table = pq.read_table(tmp_path / "out" / "train-00000-of-00001.parquet")
    assert table.column_names == ["book", "paragraph", "position", "sentence"]
    return [tuple(row.values()) for row in table.to_pylist()]


@pytest.mark.parametrize("suffix", ["", ".xz", ".zst"])
def test_sentences_of_a_text_have_their_positions(tmp_path: Path, suffix: str) -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27, enable_ldm=True)
    compress = {
        ".xz": lzma.compress,
        ".zst": zstandard.ZstdCompressor(compression_params=parameters).compress,
        "": bytes,
    }
    file = tmp_path / f"tales.txt{suffix}"
    file.write_bytes(compress[suffix](TEXT.encode()))
    assert run(tmp_path, file) == SENTENCES
    report = json.loads((tmp_path / "out" / "report.json").read_text())
    assert report == {"train": {"from": str(file), "books": 3, "paragraphs": 4, "sentences": 6}}


def test_each_text_of_a_folder_is_a_book(tmp_path: Path) -> None:
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "b test.txt").write_text("One.\n")  # its name contains no split
    (folder / "a.txt").write_text("Two.\n\nThree.\n")
    assert run(tmp_path, folder) == [("a", 0, 0, "Two."), ("a", 1, 1, "Three."), ("b test", 0, 0, "One.")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tales.txt", b"=== A\n\n", "contains no sentence"),
        ("tales.txt", b"Caf\xe9\n", "tales.txt:1: not UTF-8"),
        ("tales.jsonl", b'{"sentence": 5}\n', "tales.jsonl:1: sentence is 5; expected a text"),
        ("tales.tsv", b"line\nOne.\n", "tales.tsv:1: no column sentence; expected sentence (or text); found line"),
    ],
)
def test_a_wrong_file_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, content: bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content)
    assert main(["books", str(tmp_path / name), "--output", str(tmp_path / "out")]) == 2
    assert message in capsys.readouterr().err


def test_real_books_have_all_lines_in_order(data_dir: Path, tmp_path: Path) -> None:
    with zstandard.open(data_dir / "books" / "pg-0.txt.zst", "rt", encoding="utf-8") as file:
        head = [next(file) for _ in range(50_000)]
    (tmp_path / "head.txt").write_text("".join(head), encoding="utf-8")
    rows = run(tmp_path, tmp_path / "head.txt")
    assert [row[3] for row in rows] == [line.strip() for line in head if line.strip() and not line.startswith("=== ")]
    assert len({row[0] for row in rows}) == sum(line.startswith("=== ") for line in head)
    blocks = [block for block in "".join(head).split("\n\n") if block.strip()]
    # The line with a book's name is in the block of its first paragraph.
    assert len({row[:2] for row in rows}) == len(blocks)
