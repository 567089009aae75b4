"""Files of a few hundred bytes that hold gigabytes are read in bounded memory, or refused."""

import io
import json
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_scripts.__main__ import main
from data_scripts.errors import InputError
from data_scripts.read import parquet_files
from data_scripts.read.files import BrokenLines
from data_scripts.read.parquet_files import ParquetSizeError, bounded_batches, check_row_groups
from data_scripts.read.records import read_records
from tests.conftest import ROOT

LIMITED = """
import resource, sys
import pyarrow, pyarrow.parquet
from pathlib import Path
from data_scripts.read.parquet_files import bounded_batches
resource.setrlimit(resource.RLIMIT_DATA, (1 << 30, 1 << 30))
print(sum(len(text) for batch in bounded_batches(Path(sys.argv[1])) for text in batch.to_pydict()["text"]))
"""
ENCODINGS = {
    "dictionary": {},
    "plain": {"use_dictionary": False},
    "delta": {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}},
    "version 2": {"data_page_version": "2.0"},
    "small pages": {"data_page_size": 1 << 10, "write_batch_size": 10},
    "small dictionary": {"dictionary_pagesize_limit": 1 << 12, "data_page_size": 1 << 12},
}


@pytest.fixture
def small_limits(monkeypatch):
    """Limits of 64 KiB, so that small files exceed them."""
    monkeypatch.setattr(parquet_files, "BATCH_BYTES", 1 << 16)
    monkeypatch.setattr(parquet_files, "PAGE_BYTES", 1 << 16)
    monkeypatch.setattr(parquet_files, "ROW_GROUP_BYTES", 1 << 16)


def bomb(path: Path, length: int, rows: int) -> Path:
    """A file with a text in its dictionary that every row repeats; it is never in memory more than once."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), ["x" * length])
    pq.write_table(pa.table({"text": texts}), path, compression="zstd", store_schema=False)
    return path


def size_in_memory(batch: pa.RecordBatch) -> int:
    return sum(len(json.dumps(record)) for record in batch.to_pylist())


def test_two_gigabytes_in_a_few_hundred_bytes_are_read_within_one(tmp_path):
    path = bomb(tmp_path / "bomb.parquet", 1_000_000, 2_200)
    assert path.stat().st_size < 701
    command = [sys.executable, "-c", LIMITED, path]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert (done.stderr[-2000:], done.stdout.strip()) == ("", str(2_200 * 1_000_000))
    with pytest.raises(ParquetSizeError, match=r"row group 1 takes more than 2 GiB of memory; write it again"):
        check_row_groups(path)


@pytest.mark.parametrize("options", ENCODINGS.values(), ids=ENCODINGS)
@pytest.mark.parametrize("lengths", [(10, 100), (2_000, 2_000), (0, 9_000)], ids=str)
def test_batches_are_bounded_and_complete(tmp_path, small_limits, monkeypatch, options, lengths):
    monkeypatch.setattr(parquet_files, "PAGE_BYTES", 1 << 24)
    draw = random.Random(0)
    texts = [draw.choice("ab") * draw.randint(*lengths) if draw.random() < 0.9 else None for _ in range(3_000)]
    table = pa.table({"text": texts, "number": list(range(3_000))})
    pq.write_table(table, tmp_path / "file.parquet", row_group_size=1_700, **options)
    batches = list(bounded_batches(tmp_path / "file.parquet"))
    assert pa.Table.from_batches(batches).to_pydict() == table.to_pydict()
    assert max(len(batch) for batch in batches) <= 1_000
    assert max(batch["text"].nbytes for batch in batches) <= (1 << 16) * (4 if "data_page_size" in options else 40)
    if lengths == (10, 100) and not options.get("use_dictionary", True) and "column_encoding" not in options:
        assert len(batches) < 100  # texts of ordinary length are read in large batches


@pytest.mark.parametrize("kind", ["texts", "objects"])
def test_batches_of_lists_are_bounded_and_complete(tmp_path, small_limits, monkeypatch, kind):
    monkeypatch.setattr(parquet_files, "PAGE_BYTES", 1 << 24)
    draw = random.Random(0)
    texts = [[draw.choice("ab") * draw.randrange(900) for _ in range(draw.randrange(9))] for _ in range(400)]
    rows = texts if kind == "texts" else [[{"role": "user", "n": 1, "text": text} for text in row] for row in texts]
    table = pa.table({"rows": rows, "number": list(range(400))})
    pq.write_table(table, tmp_path / "file.parquet")
    batches = list(bounded_batches(tmp_path / "file.parquet"))
    assert pa.Table.from_batches(batches).equals(table)
    assert max(map(size_in_memory, batches)) <= 1 << 16


def test_a_row_with_more_than_the_limit_is_refused(tmp_path, small_limits):
    pq.write_table(pa.table({"rows": [["a" * 1_000] * 500]}), tmp_path / "file.parquet")
    with pytest.raises(ParquetSizeError, match=r"file.parquet: a row takes more than 0 MiB of memory; write it again"):
        list(bounded_batches(tmp_path / "file.parquet"))


def test_a_list_of_a_billion_elements_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(parquet_files, "MAX_ELEMENTS", 1_000)
    pq.write_table(
        pa.table({"rows": [[None] * 1_001]}, pa.schema([("rows", pa.list_(pa.int8()))])), tmp_path / "a.parquet"
    )
    with pytest.raises(ParquetSizeError, match=r"a.parquet: row group 1, column rows.list.element: 1,001 elements"):
        list(bounded_batches(tmp_path / "a.parquet"))


def test_a_compressed_page_of_zeros_is_refused(tmp_path, small_limits):
    table = pa.table({"text": ["\0" * (1 << 17)]})
    pq.write_table(table, tmp_path / "zeros.parquet", compression="zstd", use_dictionary=False)
    with pytest.raises(ParquetSizeError, match=r"zeros.parquet: row group 1, column text: a page of 131,\d+ bytes"):
        list(bounded_batches(tmp_path / "zeros.parquet"))


def test_the_sizes_are_those_of_the_pages_and_not_those_that_the_footer_claims(tmp_path, small_limits):
    """The footer of a copy claims a small uncompressed size; the pages are the same."""
    path = tmp_path / "zeros.parquet"
    pq.write_table(pa.table({"text": ["\0" * (1 << 17)]}), path, compression="zstd", use_dictionary=False)
    chunk = pq.read_metadata(path).row_group(0).column(0)
    content = path.read_bytes()
    claimed, varint = chunk.total_uncompressed_size, b""
    for size in (claimed, 100):
        number, varint, previous = size << 1, b"", varint
        while number:
            varint += bytes([number & 127 | (128 if number > 127 else 0)])
            number >>= 7
    shorter = varint[:-1] + bytes([varint[-1] | 128]) + b"\x80" * (len(previous) - len(varint) - 1) + b"\0"
    path.write_bytes(content.replace(previous, shorter))
    assert pq.read_metadata(path).row_group(0).column(0).total_uncompressed_size == 100
    with pytest.raises(ParquetSizeError, match="a page of 131"):
        list(bounded_batches(path))


def test_a_damaged_page_header_is_refused(tmp_path):
    path = tmp_path / "damaged.parquet"
    pq.write_table(pa.table({"text": ["a", "b"]}), path)
    content = bytearray(path.read_bytes())
    content[4:40] = b"\xff" * 36
    path.write_bytes(content)
    with pytest.raises(ParquetSizeError, match=r"damaged.parquet: row group 1, column text: .*download"):
        list(bounded_batches(path))


def test_the_wheel_has_the_same_code():
    ours = (ROOT / "data_scripts" / "read" / "parquet_files.py").read_text(encoding="utf-8")
    wheel = (ROOT / "modeling_convsim" / "encoding" / "parquet_files.py").read_text(encoding="utf-8")
    assert ours.split('"""\n', 1)[1] == wheel.split('"""\n', 1)[1]


def test_a_bomb_among_the_files_of_a_dataset_is_refused_before_it_is_loaded(tmp_path, capsys):
    bomb(tmp_path / "train-00000-of-00001.parquet", 1_000_000, 2_200)
    for command in ("paraphrases", "nli", "books", "cqa"):
        assert main([command, str(tmp_path), "-o", str(tmp_path / "out")]) == 2
        error = capsys.readouterr().err
        assert "row group 1 takes more than 2 GiB of memory" in error and error.count("\n") == 1


def test_rows_that_python_cannot_represent_are_counted(tmp_path):
    path = tmp_path / "chats.parquet"
    texts = pa.array([b"hello", b"caf\xe9", b"yes"]).view(pa.string())
    times = pa.array([1, 2, 1 << 61], pa.int64()).view(pa.timestamp("us"))
    pq.write_table(pa.table({"thread": ["a", "a", "a"], "text": texts, "time": times}), path)
    broken = BrokenLines()
    records = read_records(path, broken)
    assert [record["text"] for _, record in records.rows(set(records.columns))] == ["hello"]
    assert [example.partition(" (")[0] for example in broken.examples] == [
        f"{path}: row 2: not UTF-8",
        f"{path}: row 3: wrong value",
    ]


@pytest.mark.parametrize("kind", ["text", "time"])
@pytest.mark.parametrize("command", ["paraphrases", "nli", "captions"])
def test_datasets_with_values_that_python_cannot_represent_are_refused(tmp_path, capsys, command, kind):
    column = {"text": pa.array([b"ok", b"caf\xe9"]).view(pa.string())}
    column["time"] = pa.array([1, 1 << 61], pa.int64()).view(pa.timestamp("us"))
    names = ("sentence1", "sentence2", "premise", "hypothesis", "label", "captions", "group")
    pq.write_table(pa.table(dict.fromkeys(names, column[kind])), tmp_path / "train.parquet")
    assert main([command, str(tmp_path / "train.parquet"), "-o", str(tmp_path / "out")]) == 2
    assert "train.parquet, split train: one of the rows after row 0 cannot be read" in capsys.readouterr().err


def test_a_footer_with_any_byte_changed_is_read_or_refused(tmp_path):
    """pyarrow ends the process when it describes a column whose histograms have the wrong lengths."""
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a"], "more": [["b"]]}), path, use_dictionary=False, store_schema=False)
    content = path.read_bytes()
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    outcomes = set()
    for index in range(footer, len(content) - 8):
        path.write_bytes(content[:index] + bytes([content[index] ^ 1]) + content[index + 1 :])
        try:
            outcomes.add(sum(map(len, bounded_batches(path))))
        except (ParquetSizeError, *parquet_files.UNREADABLE):
            outcomes.add("refused")
    assert outcomes >= {1, "refused"}


HEADERS = {
    "a size that is a struct": bytes([0x2C, 0x00, 0x00]),
    "a data page's header that is a number": bytes([0x15, 0x00, 0x15, 0x02, 0x15, 0x02, 0x25, 0x02, 0x00]),
    "a text beyond the largest offset": bytes([0x18, *[0xFF] * 9, 0x01]),
    "an integer of many bytes": bytes([0x15, *[0xFF] * 20]),
    "an unknown type": bytes([0x1D]),
    "nothing": b"",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
def test_a_pages_header_of_other_types_is_refused(tmp_path, header):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"text": ["a"]}), path, use_dictionary=False, compression="none")
    with pq.ParquetFile(path) as file:
        leaf = file.schema.column(0)
    chunk = {parquet_files._DATA_OFFSET: 0, parquet_files._VALUES: 1, parquet_files._BYTES: 100}
    with pytest.raises(ParquetSizeError, match="header"):
        parquet_files._read_column(io.BytesIO(header), chunk, leaf)


def test_names_of_columns_that_are_not_utf8_are_refused(tmp_path):
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"input": ["a"], "response": ["b"]}), path, store_schema=False)
    path.write_bytes(path.read_bytes().replace(b"input", b"in\x91ut"))
    with pytest.raises(InputError, match=r"a.parquet: not a readable Parquet file"):
        read_records(path, BrokenLines())
