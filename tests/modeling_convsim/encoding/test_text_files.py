"""Texts are read from lines and columns, and their vectors are written as they come."""

import io
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas
import pyarrow
import pytest
from pyarrow import parquet

from modeling_convsim.encoding.text_files import count_texts, read_texts, write_vectors


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
    with pytest.raises(ValueError, match=r"texts\.txt:2: not UTF-8 \(byte 0xff at 1\): convert the file"):
        next(texts)


def test_texts_of_a_column_are_read_and_a_value_that_is_none_is_named_by_its_row(tmp_path: Path) -> None:
    file = str(tmp_path / "texts.parquet")
    values = [f"text {number}" for number in range(5)]
    table = {"text": values, "gaps": [*values[:3], None, "x"], "number": range(5)}
    parquet.write_table(pyarrow.table(table), file, row_group_size=2)
    assert list(read_texts(file)) == values and count_texts(file) == 5
    texts = read_texts(file, "gaps")
    assert [next(texts) for _ in range(3)] == values[:3]
    with pytest.raises(ValueError, match=r"texts\.parquet: row 4: column 'gaps' holds None, which is not text"):
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
    for name, problem in (("empty.txt", ": the file is empty"), ("empty.parquet", " contains no text")):
        with pytest.raises(ValueError, match=name + problem):
            next(read_texts(str(tmp_path / name)))
    with pytest.raises(ValueError, match=r"missing\.txt: file not found"):
        next(read_texts(str(tmp_path / "missing.txt")))
    os.mkfifo(tmp_path / "pipe.txt")  # to open it would wait for a writer
    with pytest.raises(ValueError, match=r"pipe\.txt: not a file; to read a pipe, give - and redirect it"):
        next(read_texts(str(tmp_path / "pipe.txt")))


TABLE = pandas.DataFrame({"text": ['one, "two"; 3', "four\nfive", "", "ünf"], "number": [1, 2, 3, 4]})


def write_table(name: str) -> str:
    if name.endswith("l"):
        TABLE.to_json(name, orient="records", lines=True)
    else:
        TABLE.to_csv(name, index=False, sep=";" if "semicolons" in name else ",", encoding="utf-8-sig")
    return name


@pytest.mark.parametrize("name", ["a.csv", "semicolons.CSV", "a.jsonl"])
def test_texts_of_csv_and_json_lines_are_those_that_pandas_wrote(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert list(read_texts(write_table(name))) == list(TABLE["text"])
    with pytest.raises(ValueError, match=r"no (column|field) 'x', only text, number: choose"):
        next(read_texts(name, "x", ": choose one with --column"))


def test_quotation_marks_of_tsv_are_text_and_blank_lines_of_tables_are_no_rows(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text('number\ttext\n1\t"one\n\n2\ttwo"\r\n')
    assert list(read_texts(str(tmp_path / "a.tsv"))) == ['"one', 'two"']
    (tmp_path / "a.ndjson").write_text('{"text": "one"}\n\n{"text": "two"}\n')
    assert list(read_texts(str(tmp_path / "a.ndjson"))) == ["one", "two"]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", "text,b\n1,2\none, two,3\n", r"a\.csv:3: wrong number of fields \(expected 2, found 3\); correct"),
        ("a.csv", 'text,b\n1,2\n"one,3\n\n', r"a\.csv:3: not CSV .*a quote opens here that is not closed"),
        ("a.csv", b"text\n1\n\xff\n", r"a\.csv:3: not UTF-8"),
        ("a.csv", "text\n", r"a\.csv contains no text"),
        ("a.jsonl", '{"text": "a"}\n{"text": 3}\n', r"a\.jsonl:2: column 'text' holds 3, which is not text"),
        ("a.jsonl", '{"text": "a"}\n{"b": "c"}\n', r"a\.jsonl:2: no field 'text', only b"),
        ("a.jsonl", '{"text": "a"}\n{"text": "a"\n', r"a\.jsonl:2: not JSON \(.*\); correct this line"),
    ],
)
def test_what_is_wrong_in_a_table_is_named_by_its_line(
    tmp_path: Path, name: str, content: str | bytes, message: str
) -> None:
    (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ValueError, match=message):
        list(read_texts(str(tmp_path / name)))


@pytest.mark.parametrize("name", ["a.json", "a.csv.gz"])
def test_json_arrays_and_compressed_tables_are_read(tmp_path: Path, name: str) -> None:
    path = str(tmp_path / name)
    TABLE.to_csv(path, index=False) if "csv" in name else TABLE.to_json(path, orient="records")
    assert list(read_texts(path)) == list(TABLE["text"])


def test_lines_are_counted_in_files_of_any_size(tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_bytes(b"text\n" * 300_000)  # more than is read at a time
    assert count_texts(str(tmp_path / "texts.txt")) == 300_000
    (tmp_path / "texts.tsv").write_text("text\none\ntwo\n")
    (tmp_path / "texts.csv").write_text('text\n"one\ntwo"\n')
    assert count_texts(str(tmp_path / "texts.tsv")) == 2 and count_texts(str(tmp_path / "texts.csv")) is None
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
