"""Texts are read from lines and columns, and their vectors are written as they come."""

import io
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas
import pyarrow
import pytest
from pyarrow import parquet

from modeling_convsim.encoding.text_files import count_texts, read_texts
from modeling_convsim.encoding.vector_files import write_vectors


def test_lines_end_with_any_newline_and_a_byte_order_mark_begins_the_first_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"\xef\xbb\xbfone \r\n\n\xef\xbb\xbf three\n\xc3\xa9"
    expected = ["one ", "", "\ufeff three", "é"]
    (tmp_path / "texts.txt").write_bytes(content)
    assert list(read_texts(str(tmp_path / "texts.txt"))) == expected
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    assert list(read_texts("-")) == expected


def test_a_line_that_is_not_utf_8_is_named(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_bytes(b"one\n\xff\n")
    texts = read_texts(str(tmp_path / "texts.txt"))
    assert next(texts) == "one"
    with pytest.raises(ValueError, match=r"texts\.txt, line 2: not UTF-8 \(invalid start byte\); convert the file"):
        next(texts)


def test_texts_of_a_column_are_read_and_a_value_that_is_none_is_named_by_its_row(tmp_path: Path) -> None:
    file = str(tmp_path / "texts.parquet")
    values = [f"text {number}" for number in range(5)]
    table = {"text": values, "gaps": [*values[:3], None, "x"], "number": range(5)}
    parquet.write_table(pyarrow.table(table), file, row_group_size=2)
    assert list(read_texts(file)) == values and count_texts(file) == 5
    texts = read_texts(file, "gaps")
    assert [next(texts) for _ in range(3)] == values[:3]
    with pytest.raises(ValueError, match=r"texts\.parquet, row 4: column 'gaps' holds None, which is not text"):
        next(texts)
    with pytest.raises(ValueError, match=r"row 1: column 'number' holds 0, which"):
        next(read_texts(file, "number"))
    with pytest.raises(ValueError, match=r"has no column 'x', only text, gaps, number: choose one with --column$"):
        next(read_texts(file, "x", ": choose one with --column"))
    with pytest.raises(ValueError, match=r"has no column 'x', only text, gaps, number$"):
        next(read_texts(file, "x"))


def test_files_without_texts_and_missing_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    parquet.write_table(pyarrow.table({"text": pyarrow.array([], pyarrow.string())}), tmp_path / "empty.parquet")
    for name in ("empty.txt", "empty.parquet"):
        with pytest.raises(ValueError, match=rf"{name} contains no text, expected at least one"):
            next(read_texts(str(tmp_path / name)))
    with pytest.raises(ValueError, match=r"missing\.txt: file not found"):
        next(read_texts(str(tmp_path / "missing.txt")))


def test_a_table_is_refused_with_the_call_that_converts_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lines are no texts: they hold several columns, and a quoted text may have several lines."""
    monkeypatch.chdir(tmp_path)
    table = pandas.DataFrame({"text": ["one, two", "three\nfour"], "number": [1, 2]})
    table.to_csv("a.csv", index=False)
    table.to_csv("b.TSV", index=False, sep="\t")
    table.to_json("c.json")
    table.to_json("d.jsonl", orient="records", lines=True)
    for file in ("a.csv", "b.TSV", "c.json", "d.jsonl"):
        with pytest.raises(ValueError, match=rf"{file}: expected one text per line or a \.parquet file") as error:
            next(read_texts(file))
        eval(str(error.value).partition("convert it: ")[2])
        assert list(read_texts(str(Path(file).with_suffix(".parquet")))) == list(table["text"])


def test_lines_are_counted_in_files_of_any_size(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_bytes(b"text\n" * 300_000)  # more than is read at a time
    assert count_texts(str(tmp_path / "texts.txt")) == 300_000
    assert count_texts("-") is None and count_texts(str(tmp_path / "missing.parquet")) is None


@pytest.mark.parametrize("suffix", [".npy", ".parquet"])
def test_vectors_are_written_with_their_texts_part_by_part(tmp_path: Path, suffix: str) -> None:
    texts = [f"text {number}" for number in range(10)]

    def encode(given: Iterable[str]) -> Iterator[np.ndarray]:
        iterator = iter(given)
        for size in (3, 1, 6):
            # Reads ahead of what it yields.
            part = [next(iterator) for _ in range(size)]
            yield np.array([[len(text), int(text[5:]), 0.5] for text in part], np.float64)

    output = tmp_path / f"out{suffix}"
    assert write_vectors(output, iter(texts), encode) == 10
    expected = [[6, number, 0.5] for number in range(10)]
    if suffix == ".npy":
        found = np.load(output)
        assert found.dtype == np.float32 and found.tolist() == expected
        assert np.load(output, mmap_mode="r").flags["C_CONTIGUOUS"]
    else:
        table = parquet.read_table(output)
        assert table.column_names == ["text", "embedding"] and table["text"].to_pylist() == texts
        assert table["embedding"].to_pylist() == expected
    assert [path.name for path in tmp_path.iterdir()] == [output.name]


def test_a_parquet_file_is_written_with_checksums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options, writer = [], parquet.ParquetWriter
    monkeypatch.setattr(
        parquet, "ParquetWriter", lambda *args, **given: options.append(given) or writer(*args, **given)
    )
    assert (
        write_vectors(tmp_path / "out.parquet", iter(["a"]), lambda texts: iter([np.ones((len(list(texts)), 2))])) == 1
    )
    assert options == [{"write_page_checksum": True}]
