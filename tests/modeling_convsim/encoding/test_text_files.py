"""Texts are read from lines and columns."""

import io
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pandas
import pyarrow
import pytest
from pyarrow import parquet

from modeling_convsim.encoding.text_files import read_texts


def test_lines_end_with_any_newline_and_a_byte_order_mark_begins_the_first_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = b"\xef\xbb\xbfone \r\n\n\xef\xbb\xbf three\n\xc3\xa9"
    expected = ["one ", "", "\ufeff three", "é"]
    (tmp_path / "texts.txt").write_bytes(content)
    assert list(read_texts(str(tmp_path / "texts.txt"))) == expected
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
    assert list(read_texts("-")) == expected


def test_texts_of_a_column_are_read_and_a_value_that_is_none_is_named_by_its_row(tmp_path: Path) -> None:
    file = str(tmp_path / "texts.parquet")
    values = [f"text {number}" for number in range(5)]
    table = {"text": values, "gaps": [*values[:3], None, "x"]}
    parquet.write_table(pyarrow.table(table), file, row_group_size=2)
    assert list(read_texts(file)) == values
    texts = read_texts(file, "gaps")
    assert [next(texts) for _ in range(3)] == values[:3]
    with pytest.raises(ValueError, match=r"texts\.parquet: row 4: column 'gaps' holds None, which is not text"):
        next(texts)


def test_files_without_texts_and_missing_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").touch()
    parquet.write_table(pyarrow.table({"text": pyarrow.array([], pyarrow.string())}), tmp_path / "empty.parquet")
    for name, problem in (("empty.txt", ": the file is empty"), ("empty.parquet", " contains no text")):
        with pytest.raises(ValueError, match=name + problem):
            next(read_texts(str(tmp_path / name)))
    with pytest.raises(ValueError, match=r"missing\.txt: file not found"):
        next(read_texts(str(tmp_path / "missing.txt")))
    os.mkfifo(tmp_path / "pipe.txt")  # to open it would wait for a writer
    with pytest.raises(ValueError, match=r"pipe\.txt: not a file; to read a pipe, use - and redirect it"):
        next(read_texts(str(tmp_path / "pipe.txt")))


TABLE = pandas.DataFrame({"text": ['one, "two"; 3', "four\nfive", "", "ünf"], "number": [1, 2, 3, 4]})


def write_table(name: str) -> str:
    if "json" in name:
        TABLE.to_json(name, orient="records", lines=name.endswith("l"))
    else:
        TABLE.to_csv(name, index=False, sep=";" if "semicolons" in name else ",", encoding="utf-8-sig")
    return name


@pytest.mark.parametrize("name", ["a.csv", "semicolons.CSV", "a.csv.gz", "a.jsonl", "a.json"])
def test_texts_of_csv_and_json_are_those_that_pandas_wrote(
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
        ("a.csv", "text\n", r"a\.csv contains no text"),
        ("a.jsonl", '{"text": "a"}\n{"text": 3}\n', r"a\.jsonl:2: column 'text' holds 3, which is not text"),
        ("a.jsonl", '{"text": "a"}\n{"b": "c"}\n', r"a\.jsonl:2: no field 'text', only b"),
        ("a.jsonl", '{"text": "a"}\n{"text": "a"\n', r"a\.jsonl:2: not JSON \(.*\); correct this line"),
    ],
)
def test_what_is_wrong_in_a_table_is_named_by_its_line(tmp_path: Path, name: str, content: str, message: str) -> None:
    (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        list(read_texts(str(tmp_path / name)))
